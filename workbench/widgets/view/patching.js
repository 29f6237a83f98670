// The patching dashboard: the effects of a sweep around zero, what the result knows of the cell looked at, the strongest
// cells, and the attention of the locked one.
//
// The model has `cell`, `pair`, `show`, `slice` and `selection` (see patching.py), the names `_sweep`, the numbers that
// patching_data.js reads, and `attention`, another widget's model. Pointing stays in here.

const WIDEST = 56; // px of a cell
const TALL = 620; // px that rows share
const CANVAS = 8192; // px of a canvas, whatever the cells
const WRITTEN = 44; // px of a cell from which numbers go into it
const FAINT = 0.15; // of the scale, below which no number is written
const STRONGEST = 8;
const [SIDE, BETWEEN, NARROW] = [320, 28, 760]; // px: the readout, the gap to it, where it goes below the map

function render({ model, el }) {
  let data = readSweep(model);
  let pair = model.get("pair"); // whose numbers are shown: the one chosen, once they are here
  let [picked, bound, strongest, size] = [[], 1, [], [1, 1]];
  let cell = null; // last looked at, as [row, column]
  const { about } = data;
  const view = patchingView(model, about, { pointed, chosen, escaped, locks, stepped, toggled });
  const { map } = view;

  const quantity = (at) => (model.get("show") === "value" ? data.value(at, pair) : data.effect(at, pair));
  const placeOf = ([row, column]) => picked[row * data.columns + column];

  // ---- cells between numbers and places ----------------------------------------------------------------

  function namedCell(at) {
    const named = [];
    const places = data.places(at);
    [about.sheets, about.down, about.across].forEach((axis, i) => axis.at >= 0 && (named[axis.at] = axis.places[places[i]]));
    return named;
  }

  // The cell that is locked, or null.
  function lockedCell() {
    const named = model.get("cell");
    if (!named.length) return null;
    const places = [about.sheets, about.down, about.across].map((axis) => (axis.at < 0 ? 0 : axis.places.indexOf(named[axis.at])));
    return data.cell(...places);
  }

  function lockedPlace() {
    const at = lockedCell();
    if (at === null) return null;
    const [, row, column] = data.places(at);
    return placeOf([row, column]) === at || model.get("slice") < 0 ? [row, column] : null;
  }

  // (layer, head) of a cell, where there are heads.
  function unitOf(at) {
    const axes = [about.sheets, about.down, about.across];
    const place = (name) => axes.map((axis, i) => (axis.name === name ? axis.places[data.places(at)[i]] : -1)).find((n) => n >= 0);
    return [place("layer"), place(about.unit)];
  }
  const isSelected = (at) => Boolean(about.unit) && model.get("selection").some((each) => `${each}` === `${unitOf(at)}`);

  // ---- drawing -----------------------------------------------------------------------------------------

  function compute() {
    if (data.has(model.get("pair"))) pair = model.get("pair");
    view.root.setAttribute("aria-busy", pair !== model.get("pair"));
    const sheet = about.sheets.places.indexOf(model.get("slice"));
    picked = pickedCells(data, sheet, pair);
    bound = boundOf(data, quantity);
    strongest = strongestCells(data, pair, STRONGEST);
    cell ??= lockedPlace() ?? data.places(strongest[0] ?? 0).slice(1);
  }

  function redraw(colours) {
    const narrow = view.root.clientWidth < NARROW;
    view.root.classList.toggle("wb-narrow", narrow);
    const labels = LETTER * Math.max(2, ...about.down.names.map((name) => Math.min(16, [...name].length)));
    const room = view.root.clientWidth - labels - 46 - (narrow ? 0 : SIDE + BETWEEN); // 46: the axis' name and gaps
    map.root.querySelector(".wb-left").style.width = `${labels}px`;
    const least = Math.min(4, Math.max(1, Math.floor(CANVAS / data.columns)));
    const width = clamp(Math.floor(room / data.columns), least, WIDEST);
    const height = clamp(Math.floor(TALL / data.rows), data.rows > 250 ? 2 : 5, 24);
    size = [width, height];
    const share = (row, column) => quantity(placeOf([row, column])) / bound;
    const colour = (row, column) => (Number.isFinite(share(row, column)) ? colours.signed(share(row, column)) : null);
    const text = (row, column) =>
      width >= WRITTEN && height >= 13 && Math.abs(share(row, column)) >= FAINT && bound >= 0.05 && bound < 9999.5
        ? brief(quantity(placeOf([row, column]))) : "";
    map.draw({
      rows: about.down.names, columns: columnNames(data, pair), width, height, colour, text, colours, room,
    });
    drawSigns(map.canvas.getContext("2d"), colours, colour);
    view.showScale(bound, model.get("show"), colours);
    refresh();
    relist();
  }

  function drawSigns(pen, colours, colour) {
    const [width, height] = size;
    if (Math.min(width, height) < 5) return;
    for (let row = 0; row < data.rows; row++)
      for (let column = 0; column < data.columns; column++) {
        const at = placeOf([row, column]);
        const box = [column * width, row * height, width - 1, height - 1];
        const ink = onTop(colour(row, column) ?? colours.field);
        if (data.unchanged(at) && colour(row, column)) drawUnchanged(pen, box, colours);
        if (pair < 0 && excludesZero(data, at)) drawDot(pen, box, ink);
        if (isSelected(at)) drawFrame(pen, box, ink);
      }
  }

  // ---- what is looked at -------------------------------------------------------------------------------

  function refresh() {
    mark();
    map.lock(lockedPlace());
    view.readout(data, looked(), pair, isLocked(), madeInterval());
  }

  function relist() {
    view.list(data, strongest, pair, lockedCell());
    view.selected(model.get("selection"));
  }

  // On the locked cell the lock's own mark is enough.
  function mark() {
    map.point(cell);
    map.root.querySelector(".wb-cell").hidden = `${cell}` === `${lockedPlace()}`;
  }

  // Where nothing else is looked at, what is locked: also on another sheet.
  const looked = () => {
    const at = lockedCell();
    const same = at !== null && `${data.places(at).slice(1)}` === `${cell}`;
    return same ? at : placeOf(cell);
  };
  // What was made of the locked cell alone; [] where it has no interval, undefined before the kernel has answered.
  function madeInterval() {
    const { cell: made, between } = model.get("_interval");
    return made && isLocked() && `${made}` === `${model.get("cell")}` ? between : undefined;
  }
  const isLocked = () => lockedCell() !== null && lockedCell() === looked();

  function pointed(to, byKey) {
    const next = to ?? lockedPlace() ?? cell;
    const moved = `${next}` !== `${cell}`;
    cell = next;
    if (moved) refresh();
    else mark();
    if (byKey) announce();
  }

  function chosen(to, event) {
    cell = to;
    const adds = event.ctrlKey || event.metaKey || event.shiftKey || event.key === " ";
    if (adds && about.unit) toggled(unitOf(placeOf(to)));
    else locks(lockedCell() === placeOf(to) ? null : placeOf(to));
    announce();
  }

  function locks(at) {
    const slice = model.get("slice") < 0 || at === null || about.sheets.at < 0 ? {} : { slice: about.sheets.places[data.places(at)[0]] };
    if (at !== null) cell = data.places(at).slice(1);
    choose(model, { cell: at === null ? [] : namedCell(at), ...slice });
  }

  function escaped() {
    if (model.get("cell").length) locks(null);
    announce();
  }

  function toggled(unit) {
    const others = model.get("selection").filter((each) => `${each}` !== `${unit}`);
    choose(model, { selection: others.length < model.get("selection").length ? others : [...others, unit] });
  }

  function stepped(by) {
    const all = [-1, ...about.offers];
    const at = all.indexOf(model.get("pair"));
    choose(model, { pair: all[(at + by + all.length) % all.length] });
    view.say(pairName(about, model.get("pair")));
  }

  function announce() {
    const at = looked();
    const signs = [isLocked() ? ", locked" : "", isSelected(at) ? ", selected" : ""].join("");
    view.say(`${placeName(data, at, pair)}: ${sayNumbers(data, at, pair, model.get("show"))}${signs}`);
  }

  // ---- the life of it ----------------------------------------------------------------------------------

  function settled() {
    compute();
    view.settle(model);
    if (view.root.isConnected) redraw(readColours(view.root));
  }

  function received() {
    data = readSweep(model);
    settled();
  }

  function lockMoved() {
    const at = lockedCell();
    if (at !== null) cell = data.places(at).slice(1);
    refresh();
    relist();
    map.reveal();
  }

  function keyed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(SELECT|INPUT)$/.test(event.target.tagName)) return;
    if ((event.key === "[" || event.key === "]") && about.pairs > 1) stepped(event.key === "]" ? 1 : -1);
    else if (event.key === "x" && about.unit && event.target === map.canvas) {
      toggled(unitOf(placeOf(cell)));
      announce();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  view.root.addEventListener("keydown", keyed);
  view.csv.addEventListener("click", () => download("sweep.csv", csvText(sweepRows(data, pair, namedCell)), "text/csv"));
  const unlisten = listen(model, {
    pair: settled, show: settled, slice: settled, selection: settled, cell: lockMoved, _interval: refresh,
    _means: received, _sent: received, _values: received, _failed: () => view.settle(model),
  });
  compute();
  view.settle(model);
  const unmount = mount(el, view.root, redraw);
  map.reveal();
  const unnest = nestedView(model, el);
  return () => {
    unlisten();
    unnest();
    unmount();
  };
}

// ---- without a kernel ------------------------------------------------------------------------------------

export function standalone(el, { traits, bytes, attention }) {
  const numbers = Object.fromEntries(Object.entries(bytes).map(([name, text]) => [name, fromBase64(text)]));
  render({ model: offlineModel({ ...traits, ...numbers, attention: null, _failed: "" }), el });
  if (attention) framedView(el, traits._sweep, traits._opened, attention);
}

export default { render };
