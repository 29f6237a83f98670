// The present view as a file: the picture as pixels or as shapes, and the numbers.

function savePng(canvases, name) {
  const [width, height] = [canvases.reduce((sum, canvas) => sum + canvas.width + 16, -16), Math.max(...canvases.map((canvas) => canvas.height))];
  const sheet = element("canvas", { width, height });
  const pen = sheet.getContext("2d");
  canvases.reduce((x, canvas) => (pen.drawImage(canvas, x, 0), x + canvas.width + 16), 0);
  sheet.toBlob((blob) => download(`${name}.png`, blob, "image/png"), "image/png");
}

// Maps side by side: cells as rectangles where there are few, else the pixels; labels and what else is to be said as text.
function saveSvg(drawings, tokens, notes, name) {
  const of = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const size = 14;
  const side = tokens.length * size;
  const step = side + 160; // labels stand to the right of each
  const [width, height] = [step * drawings.length, side + 24 + 16 * notes.length];
  const words = (x, y, text) => of("text", { x, y, "font-size": 10, "font-family": "monospace", fill: "#76797f" }, text);
  const svg = of("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
  drawings.forEach(({ cells, colour, words: caption, canvas }, i) => {
    const group = of("g", { transform: `translate(${step * i} 20)` });
    group.append(words(0, -8, caption));
    if (cells.n > 128) group.append(of("image", { href: canvas.toDataURL("image/png"), width: side, height: side }));
    else {
      for (let q = 0; q < cells.n; q++)
        for (let k = 0; k < cells.end(q); k++) {
          const filled = colour(cells.at(q, k));
          if (filled) group.append(of("rect", { x: k * size, y: q * size, width: size - 1, height: size - 1, fill: css(filled) }));
        }
      tokens.forEach((token, q) => group.append(words((cells.half ? q + 1 : cells.n) * size + 4, q * size + 10, token)));
    }
    svg.append(group);
  });
  notes.forEach((note, i) => svg.append(words(0, side + 34 + 16 * i, note)));
  download(`${name}.svg`, new XMLSerializer().serializeToString(svg), "image/svg+xml");
}

// A row for each of these [query, key], a column for each run.
function saveCsv(runs, cells, tokens, positions, quantity, names, name) {
  const head = ["query", "query_token", "key", "key_token", quantity, ...(runs.length > 1 ? [`${quantity} ${names[1]}`] : [])];
  const rows = cells.map(([q, k]) => [positions[q], tokens[q], positions[k], tokens[k], ...runs.map((shown) => shown.at(q, k))]);
  download(`${name}.csv`, csvText([head, ...rows]), "text/csv");
}
