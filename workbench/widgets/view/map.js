// A heat map with labelled edges that is pointed at, walked through by arrow keys and chosen from by click or Enter.
//
// map = cellMap({testid, name, down: "layer", across: "position"})
// map.draw({rows: [text], columns: [text], width, height, colour(row, column), text(row, column), colours, room})
//   width, height: px of a cell; colour gives [r, g, b] or null; text "" for none. Texts are drawn where cells are wide.
//   room: px that the cells may take across; more is scrolled to, past the labels of the rows, which stay.
// map.point([row, column]) shows the mark, map.reveal() scrolls there; `pointed` and `chosen` are called with [row, column] (pointed also null).

const TEXT_WIDE = 34; // px from which a text goes into a cell
const LABEL_STEP = 13; // px from one edge label to the next
const LETTER = 6.7; // px of one, in the edges and the cells

function cellMap({ testid, name, down, across, pointed, chosen, escaped = () => {} }) {
  const canvas = element("canvas", {
    "data-testid": testid, tabindex: "0", role: "application", "aria-roledescription": "heat map",
    "aria-label": `${name}: arrow keys move, Enter chooses, Escape lets go`,
  });
  const mark = element("div", { class: "wb-mark wb-cell", hidden: "" });
  const lock = element("div", { class: "wb-mark wb-locked", hidden: "" });
  const left = element("div", { class: "wb-edge wb-left", "aria-hidden": "true" });
  const below = element("div", { class: "wb-edge wb-below", "aria-hidden": "true" });
  const over = element("div", { class: "wb-over" },
    element("div", { class: "wb-sheet" }, canvas, mark, lock), below,
    element("div", { class: "wb-axis wb-axis-across", "aria-hidden": "true" }, across));
  const beside = element("div", { class: "wb-axis wb-axis-down", "aria-hidden": "true" }, element("span", {}, down));
  const root = element("div", { class: "wb-cellmap" }, beside, left, over);
  let cells = { rows: 1, columns: 1, at: () => 0, end: () => 1 };
  let at = [0, 0]; // where the arrow keys stand

  function draw({ rows, columns, width, height, colour, text = () => "", colours, room = Infinity }) {
    cells = { rows: rows.length, columns: columns.length, end: () => columns.length, at: (row, column) => row * columns.length + column };
    at = [Math.min(at[0], rows.length - 1), Math.min(at[1], columns.length - 1)];
    const tint = (index) => colour(Math.floor(index / columns.length), index % columns.length);
    const pen = sized(canvas, width * columns.length, height * rows.length);
    drawCells(pen, cells, tint, width * columns.length, height * rows.length);
    if (width >= TEXT_WIDE) writeTexts(pen, cells, text, colour, width, height, colours);
    edge(left, rows, height, "height", 16);
    beside.style.height = left.style.height = `${height * rows.length}px`;
    below.style.width = `${width * columns.length}px`;
    labelBelow(columns, width, width * columns.length > room);
  }

  // Flat where there is room, cut to it where cells are wide; slanted where not, but upright where a scroll bar would cut
  // slants off. As high as the longest needs.
  function labelBelow(columns, width, scrolls) {
    const room = stepOf(width) * width;
    const flat = width >= TEXT_WIDE || columns.every((label) => [...label].length * LETTER < room);
    const letters = flat ? Math.floor(room / LETTER) : scrolls ? 12 : 16;
    const longest = LETTER * columns.reduce((most, label) => Math.max(most, Math.min([...label].length, letters)), 1);
    over.classList.toggle("wb-scrolls", scrolls);
    below.classList.toggle("wb-slanted", !flat && !scrolls);
    below.classList.toggle("wb-upright", !flat && scrolls);
    below.style.height = `${Math.ceil(flat ? 22 : scrolls ? longest + 12 : longest * Math.SQRT1_2 + 14)}px`;
    edge(below, columns, width, "width", letters);
  }

  function show(element, cell) {
    element.hidden = !cell;
    if (cell) placeMark(element, cells, ...cell);
  }

  const point = (cell) => {
    if (cell) at = cell;
    show(mark, cell);
  };
  // Scrolls to where the arrow keys stand.
  function reveal() {
    const [start, end] = [at[1], at[1] + 1].map((column) => (column * canvas.clientWidth) / cells.columns);
    over.scrollLeft = clamp(over.scrollLeft, end - over.clientWidth + 6, start);
  }
  canvas.addEventListener("pointermove", (event) => {
    const cell = cellAt(canvas, cells, event);
    point(cell);
    pointed(cell);
  });
  canvas.addEventListener("pointerleave", () => {
    point(null);
    pointed(null);
  });
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(canvas, cells, event);
    if (cell) chosen(cell, event);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = walked(event.key, at, cells.rows, cells.columns);
    if (to) {
      point(to);
      reveal();
      pointed(to, true); // by key: a view says it aloud
    } else if (event.key === "Enter" || event.key === " ") chosen(at, event);
    else if (event.key === "Escape") escaped();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return { root, canvas, draw, point, reveal, lock: (cell) => show(lock, cell) };
}

const lettersIn = (width) => Math.floor((width - 6) / LETTER); // that a cell of this width has room for

function writeTexts(pen, cells, text, colour, width, height, colours) {
  pen.font = `11px ${colours.mono}`;
  pen.textBaseline = "middle";
  const letters = lettersIn(width);
  for (let row = 0; row < cells.rows; row++)
    for (let column = 0; column < cells.columns; column++) {
      const written = text(row, column);
      if (!written) continue;
      pen.fillStyle = onTop(colour(row, column) ?? colours.field);
      pen.fillText(shorten(written, letters), column * width + 3, (row + 0.5) * height + 0.5, width - 5);
    }
}

const stepOf = (size) => [1, 2, 5, 10, 20, 50, 100, 200, 500].find((n) => n * size >= LABEL_STEP) ?? 1000;

// Labels along one edge: every one, or every second, fifth, tenth ... so that they do not touch.
function edge(root, labels, size, dimension, letters) {
  const step = stepOf(size);
  root.replaceChildren(...labels.flatMap((label, i) => {
    if (i % step) return [];
    const made = element("span", {}, tokenText(shorten(label, letters)));
    made.style[dimension] = `${step * size}px`;
    made.style[dimension === "width" ? "left" : "top"] = `${(i + 0.5 - step / 2) * size}px`; // in the middle of its cell
    return [made];
  }));
}
