// What stands on the cells of a sweep's map beside their colour, and what cells are called.

// ---- signs -----------------------------------------------------------------------------------------------

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
