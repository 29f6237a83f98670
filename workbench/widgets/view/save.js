// The present view as a file: the picture as pixels or as shapes, and the numbers.

function savePng(canvases, name) {
  const [width, height] = [canvases.reduce((sum, canvas) => sum + canvas.width + 16, -16), Math.max(...canvases.map((canvas) => canvas.height))];
  const sheet = element("canvas", { width, height });
  const pen = sheet.getContext("2d");
  canvases.reduce((x, canvas) => (pen.drawImage(canvas, x, 0), x + canvas.width + 16), 0);
  sheet.toBlob((blob) => download(`${name}.png`, blob, "image/png"), "image/png");
}

// Cells as rectangles where there are few, else the pixels in a frame; labels as text.
function saveSvg(shown, colour, tokens, canvas, name) {
  const of = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const size = 14;
  const side = shown.n * size;
  const svg = of("svg", { xmlns: "http://www.w3.org/2000/svg", width: side + 160, height: side, viewBox: `0 0 ${side + 160} ${side}` });
  if (shown.n > 128) svg.append(of("image", { href: canvas.toDataURL("image/png"), width: side, height: side }));
  else
    for (let q = 0; q < shown.n; q++)
      for (let k = 0; k < shown.end(q); k++) {
        const filled = colour(shown.at(q, k));
        if (filled) svg.append(of("rect", { x: k * size, y: q * size, width: size - 1, height: size - 1, fill: css(filled) }));
      }
  if (shown.n <= 128)
    tokens.forEach((token, q) => svg.append(of("text", { x: (shown.half ? q + 1 : shown.n) * size + 4, y: q * size + 10, "font-size": 10, "font-family": "monospace", fill: "#76797f" }, token)));
  download(`${name}.svg`, new XMLSerializer().serializeToString(svg), "image/svg+xml");
}

// A row for each key of each query that is looked at; of all queries where none is locked.
function saveCsv(runs, tokens, positions, queries, quantity, names, name) {
  const head = ["query", "query_token", "key", "key_token", ...(runs.length > 1 ? names.map((run) => `${quantity} ${run}`) : [quantity])];
  const rows = queries.flatMap((q) =>
    Array.from({ length: runs[0].end(q) }, (_, k) => [positions[q], tokens[q], positions[k], tokens[k], ...runs.map((shown) => shown.at(q, k))]));
  download(`${name}.csv`, csvText([head, ...rows]), "text/csv");
}
