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
  const nested = nestedView(model, el);

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
  nested.open();
  return () => {
    unlisten();
    nested.close();
    unmount();
  };
}

// ---- signs on cells --------------------------------------------------------------------------------------

const excludesZero = (data, at) => {
  const interval = data.interval(at);
  return interval !== null && (interval[0] > 0 || interval[1] < 0);
};

function drawDot(pen, [left, top, width, height], ink) {
  pen.fillStyle = ink;
  pen.beginPath();
  if (Math.min(width, height) < 9) pen.arc(left + width / 2, top + height / 2, 1, 0, 7);
  else pen.arc(left + width - 4.5, top + 4.5, 2, 0, 7);
  pen.fill();
}

function drawFrame(pen, [left, top, width, height], ink) {
  pen.strokeStyle = ink;
  pen.lineWidth = Math.min(width, height) < 10 ? 1 : 2;
  pen.strokeRect(left + 1.5, top + 1.5, width - 3, height - 3);
}

// A short dash in the middle: nothing could happen here.
function drawUnchanged(pen, [left, top, width, height], colours) {
  pen.fillStyle = css(colours.soft);
  pen.globalAlpha = 0.45;
  const length = Math.min(6, width / 2);
  pen.fillRect(left + (width - length) / 2, Math.round(top + height / 2 - 0.5), length, 1);
  pen.globalAlpha = 1;
}

// ---- names -----------------------------------------------------------------------------------------------

const pairName = (about, pair) => (pair < 0 ? `all ${plural(about.pairs, nounOf(about))}` : `${nounOf(about)} ${pair}`);

// The text of a token at a place of an axis, where it is known: of the pair looked at, or of the sweep's only text.
function tokenAt(data, axis, i, pair, run = "clean") {
  const known = data.texts(pair)[run];
  if (known) return known[axis.places[i]];
  return run === "clean" && axis.names[i] !== `${axis.places[i]}` ? axis.names[i] : undefined;
}

const columnNames = (data, pair) =>
  data.about.across.tokens
    ? data.about.across.names.map((name, i) => tokenAt(data, data.about.across, i, pair) ?? name)
    : data.about.across.names;

// The parts of a cell's name, in the order of the sweep's axes: [word, token or undefined, number or name].
function nameParts(data, at, pair) {
  const { sheets, down, across } = data.about;
  const places = data.places(at);
  return [sheets, down, across]
    .map((axis, i) => ({ axis, i: places[i] }))
    .filter(({ axis }) => axis.at >= 0)
    .sort((a, b) => a.axis.at - b.axis.at)
    .map(({ axis, i }) => [axis.word, axis.tokens ? tokenAt(data, axis, i, pair) : undefined, axis.tokens ? axis.places[i] : axis.names[i]]);
}

const placeName = (data, at, pair) =>
  nameParts(data, at, pair).map(([word, token, name]) => `${word} ${name}${token ? ` ${token}` : ""}`).join(", ") || "the only cell";

function sayNumbers(data, at, pair, show) {
  const [value, effect, interval] = [data.value(at, pair), data.effect(at, pair), data.interval(at)];
  if (!Number.isFinite(show === "value" ? value : effect)) return remark(data, at, pair, hasToken(data, at, pair));
  const between = pair < 0 && interval ? `, 95 % ${change(interval[0])} to ${change(interval[1])}` : "";
  return show === "value" ? `metric ${written(value)}` : `effect ${change(effect)}${between}${data.unchanged(at) ? ", unchanged" : ""}`;
}

// Whether there is a token at a cell's position; undefined where that is not known.
function hasToken(data, at, pair) {
  const known = data.texts(pair).clean;
  const [, ...places] = data.places(at);
  const axes = [data.about.down, data.about.across];
  const of = axes.map((axis, i) => (axis.tokens && known ? known[axis.places[places[i]]] !== "" : undefined));
  return of.find((each) => each !== undefined);
}

function sweepRows(data, pair, namedCell) {
  const axes = [data.about.sheets, data.about.down, data.about.across].filter((axis) => axis.at >= 0).sort((a, b) => a.at - b.at);
  const chance = pair < 0 && data.about.means.includes("low");
  const head = [...axes.map((axis) => axis.name), "value", "effect", ...(chance ? ["low", "high"] : [])];
  const rows = Array.from({ length: data.n }, (_, at) => [
    ...namedCell(at).map((place, i) => (axes[i].tokens ? place : axes[i].names[axes[i].places.indexOf(place)])),
    data.value(at, pair), data.effect(at, pair), ...(chance ? data.interval(at) ?? [NaN, NaN] : []),
  ]);
  return [head, ...rows];
}

// ---- the attention of a cell -----------------------------------------------------------------------------

function attentionHead() {
  const title = element("p", { class: "wb-opened-title" });
  return { root: element("div", { class: "wb-view wb-opened", hidden: "" }, title), title };
}

const attentionTitle = (about, opened) =>
  `Attention of ${nounOf(about)} ${opened}${about.direction === "ablate" ? "" : ", the clean text beside the corrupted one"}`;

// Another widget's view below this one, once there is one. It stands beside our root and not in it: it has its own styles.
function nestedView(model, el) {
  const { root, title } = attentionHead();
  const holder = element("div", { "data-testid": "attention" });
  let [shown, close, ended] = ["", () => {}, false];

  async function open() {
    const ref = model.get("attention");
    if (ref && !root.isConnected) el.append(root, holder);
    root.hidden = !ref;
    title.textContent = attentionTitle(model.get("_sweep"), model.get("_opened"));
    if (ref === shown) return;
    shown = ref;
    close();
    holder.replaceChildren();
    if (!ref) return;
    const manager = model.widget_manager;
    const child = await manager.get_model(ref.replace("IPY_MODEL_", ""));
    const made = await manager.create_view(child);
    if (ended || shown !== ref) return made.remove();
    holder.append(made.el);
    close = () => made.remove();
  }

  const unlisten = listen(model, { attention: open, _opened: open });
  return {
    open,
    close() {
      ended = true;
      unlisten();
      close();
      root.remove();
      holder.remove();
    },
  };
}

// ---- without a kernel ------------------------------------------------------------------------------------

export function standalone(el, { traits, bytes, attention }) {
  const numbers = Object.fromEntries(Object.entries(bytes).map(([name, text]) => [name, fromBase64(text)]));
  render({ model: offlineModel({ ...traits, ...numbers, attention: null, _failed: "" }), el });
  if (!attention) return;
  // A frame of ours: it holds a page whose tokens were escaped when it was written.
  const frame = new DOMParser().parseFromString(attention, "text/html").querySelector("iframe");
  const { root, title } = attentionHead();
  root.hidden = false;
  title.textContent = attentionTitle(traits._sweep, traits._opened);
  el.append(root, document.adoptNode(frame));
}

export default { render };
