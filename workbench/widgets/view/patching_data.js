// The numbers of a sweep, as sweep_bytes.py packs them. A cell is a number: its place by (sheet, down, across).

const floats = ({ buffer, byteOffset, byteLength }) => new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength));

function readSweep(model) {
  const about = model.get("_sweep");
  const [sheets, rows, columns] = [about.sheets, about.down, about.across].map((axis) => axis.places.length);
  const n = sheets * rows * columns;
  const part = (all, i, length) => all.subarray(i * length, (i + 1) * length);
  const numbers = floats(model.get("_means"));
  const means = Object.fromEntries(about.means.map((name, i) => [name, part(numbers, i, n)]));
  const runs = floats(model.get("_runs"));
  const [base, other, by] = [0, 1, 2].map((i) => part(runs, i, about.pairs));
  const values = floats(model.get("_values"));
  const sent = model.get("_sent");
  const texts = model.get("_texts");

  const value = (cell, pair) => (pair < 0 ? means.value[cell] : values[sent.indexOf(pair) * n + cell]);
  return {
    about, sheets, rows, columns, n, value,
    cell: (sheet, row, column) => (sheet * rows + row) * columns + column,
    places: (cell) => [Math.floor(cell / (rows * columns)), Math.floor(cell / columns) % rows, cell % columns],
    has: (pair) => pair < 0 || sent.includes(pair),
    // As SweepResult.effect_each, in its float32.
    effect: (cell, pair) => (pair < 0 ? means.effect[cell] : Math.fround(Math.fround(value(cell, pair) - base[pair]) / by[pair])),
    base: (cell, pair) => (pair < 0 ? means.base[cell] : base[pair]),
    other: (cell, pair) => (pair < 0 ? means.other[cell] : other[pair]),
    unchanged: (cell) => means.unchanged[cell] === 1,
    interval: (cell) => (means.low && Number.isFinite(means.low[cell]) ? [means.low[cell], means.high[cell]] : null),
    p: (cell) => means.p?.[cell] ?? NaN,
    // Tokens of a pair by column, as {clean, corrupted}; of the only pair also where all are looked at.
    texts: (pair) => texts[sent.indexOf(about.pairs === 1 ? 0 : pair)] ?? {},
  };
}

// The cells of one sheet in rows; without a sheet, the one of the largest effect at each place.
function pickedCells(data, sheet, pair) {
  const strength = (cell) => {
    const effect = Math.abs(data.effect(cell, pair));
    return Number.isNaN(effect) ? -1 : effect;
  };
  const best = (row, column) => {
    let found = data.cell(0, row, column);
    for (let other = 1; other < data.sheets; other++)
      if (strength(data.cell(other, row, column)) > strength(found)) found = data.cell(other, row, column);
    return found;
  };
  return Array.from({ length: data.rows * data.columns }, (_, i) => {
    const [row, column] = [Math.floor(i / data.columns), i % data.columns];
    return sheet < 0 ? best(row, column) : data.cell(sheet, row, column);
  });
}

// The cells of the largest effects of either sign, largest first, as SweepResult.top.
function strongestCells(data, pair, n) {
  const found = [];
  for (let cell = 0; cell < data.n; cell++) {
    const size = Math.abs(data.effect(cell, pair));
    if (!Number.isFinite(size) || (found.length === n && size <= found[n - 1][0])) continue;
    found.splice(found.findIndex(([other]) => other < size) >>> 0, 0, [size, cell]);
    found.length = Math.min(found.length, n);
  }
  return found.map(([, cell]) => cell);
}

// Where the colours end on both sides: the same for all sheets.
function boundOf(data, quantity) {
  let most = 0;
  for (let cell = 0; cell < data.n; cell++) {
    const size = Math.abs(quantity(cell));
    if (size > most && size < Infinity) most = size;
  }
  return most || 1;
}

// ---- words -----------------------------------------------------------------------------------------------

const minus = (text) => text.replaceAll("-", "−");

// A number in full: three decimals, or as many figures where it is small or very large.
function written(value) {
  if (!Number.isFinite(value)) return "none";
  const size = Math.abs(value);
  return minus(size > 0 && (size < 0.001 || size >= 1e6) ? value.toExponential(2) : value.toFixed(3));
}
const change = (value) => (value > 0 ? `+${written(value)}` : written(value));

// In five letters, for a cell.
function brief(value) {
  const size = Math.abs(value);
  return (value < 0 ? "−" : "+") + size.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

const runNames = ({ direction }) =>
  direction === "ablate" ? ["untouched run", ""] : direction === "denoise" ? ["corrupted run", "clean run"] : ["clean run", "corrupted run"];

function meaningOf(about) {
  const [base, other] = runNames(about);
  return other ? `0: as the ${base}, 1: as the ${other}` : "The effect is the change of the metric";
}

// Why a cell has no colour, or nothing happened in it; "" where there is nothing to say.
function remark(data, cell, pair, hasToken) {
  const [value, effect] = [data.value(cell, pair), data.effect(cell, pair)];
  if (Number.isNaN(value)) return hasToken === false ? `Blank: this ${nounOf(data.about)} has no token here.` : "Blank: no token here, or not computed.";
  if (!Number.isFinite(value)) return "Blank: the metric is infinite here.";
  if (!Number.isFinite(effect)) return "No effect: clean and corrupted measure the same.";
  return data.unchanged(cell) ? "Unchanged: the same values are put back." : "";
}

const nounOf = (about) => (about.direction === "ablate" ? "text" : "pair");
