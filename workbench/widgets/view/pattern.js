// One head's pattern in full, or that of two runs and their difference: queries down, keys to the right.

const SIDE = 440; // px of the pattern's side, at most
const CELL = 28; // px of a cell's side, at most
const LABELLED = 40; // tokens up to which the pattern is labelled

function patternMap({ testid, pointed, locked }) {
  const canvas = element("canvas", { role: "img", "data-testid": testid });
  const row = element("div", { class: "wb-mark wb-row" });
  const cell = element("div", { class: "wb-mark wb-cell" });
  const labels = element("div", { class: "wb-labels", "aria-hidden": "true" });
  const caption = element("figcaption", { class: "wb-soft" });
  const root = element("figure", { class: "wb-map" }, caption, element("div", { class: "wb-sheet" }, canvas, row, cell, labels));
  let cells = null;

  // side: px at most.
  function draw(shown, colour, tokens, side) {
    cells = shown;
    const size = shown.n <= side ? Math.min(CELL, Math.floor(side / shown.n)) : side / shown.n;
    drawMatrix(canvas, shown, colour, size * shown.n, size * shown.n);
    const labelled = shown.n <= LABELLED && size >= 12;
    labels.replaceChildren(...(labelled ? tokens : []).map((token, q) => {
      const made = tokenText(shorten(token, 18));
      // A causal pattern leaves its upper half free: a label there names both its row and its column.
      made.style.left = `${(shown.half ? q + 1 : shown.n) * size + 6}px`;
      made.style.top = `${(q + 0.5) * size}px`;
      return made;
    }));
    const longest = labelled ? Math.max(...tokens.map((token, q) => (shown.half ? q + 1 - shown.n : 0) * size + 7.3 * Math.min(18, [...token].length))) : 0;
    root.style.paddingRight = `${Math.max(0, Math.ceil(longest) + 8)}px`;
  }

  // looking: rows (or, by key, columns) that are looked at, null for no marks; source: the other end, -1 for none.
  function mark(looking, source, byKey) {
    row.hidden = cell.hidden = looking === null;
    if (looking === null) return;
    const at = looking.at(-1) ?? 0;
    if (byKey) placeMark(row, cells, cells.half ? at : 0, at, cells.half ? cells.n - at : cells.n, 1);
    else placeMark(row, cells, at, 0, 1, cells.end(at));
    const [q, k] = byKey ? [source, at] : [at, source];
    cell.hidden = source < 0 || k >= cells.end(q);
    if (!cell.hidden) placeMark(cell, cells, q, k);
  }

  canvas.addEventListener("pointermove", (event) => {
    const at = cellAt(canvas, cells, event);
    if (at) pointed(...at);
  });
  canvas.addEventListener("pointerleave", () => pointed(-1, -1));
  canvas.addEventListener("click", (event) => {
    const at = cellAt(canvas, cells, event);
    if (at) locked(...at, event.ctrlKey || event.metaKey || event.shiftKey);
  });
  return { root, canvas, caption, draw, mark };
}
