// A line chart over layers of one position: where the model becomes sure of a token.
//
// chart.draw({lines: [{kind, name, values}], labels, row, ranked, most}): values are probabilities, or ranks on a log
// scale with 0 at the top that ends at `most`; NaN leaves a gap. Kinds differ in colour and in stroke.

const CHART = { width: 344, height: 150, left: 40, right: 14, top: 10, bottom: 22 };

function drawn(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function layerChart() {
  const { width, height, left, right, top, bottom } = CHART;
  const svg = drawn("svg", { class: "wb-chart", role: "img", width, height, viewBox: `0 0 ${width} ${height}` });
  const keys = element("div", { class: "wb-keys", "data-testid": "chart-keys" });
  const root = element("div", { "data-testid": "chart" }, svg, keys);

  function draw({ lines, labels, row, ranked, most }) {
    const across = (i) => left + ((width - left - right) * i) / Math.max(1, labels.length - 1);
    const down = (share) => top + (height - top - bottom) * (1 - share);
    const share = (value) => (ranked ? 1 - Math.log1p(value) / Math.log1p(most) : value);
    const at = (value) => down(share(value));
    svg.replaceChildren(
      ...levels(ranked, most).flatMap(([value, text]) => [
        drawn("line", { class: "wb-grid", x1: left, x2: width - right, y1: at(value), y2: at(value) }),
        drawn("text", { x: left - 6, y: at(value) + 4, "text-anchor": "end" }, text),
      ]),
      ...ticks(labels, (width - left - right) / Math.max(1, labels.length - 1)).map((i) =>
        drawn("text", { x: across(i), y: height - 4, "text-anchor": "middle" }, labels[i])),
      drawn("line", { class: "wb-here", x1: across(row), x2: across(row), y1: down(1) - 4, y2: down(0) }),
      ...lines.map(({ kind, values }) => drawn("path", { class: `wb-line wb-${kind}`, d: path(values, across, at) })),
      ...lines.filter(({ values }) => !Number.isNaN(values[row])).map(({ kind, values }) =>
        drawn("circle", { class: `wb-dot wb-${kind}`, cx: across(row), cy: at(values[row]), r: 3.5 })));
    svg.setAttribute("aria-label", spoken(lines, labels, ranked));
    keys.replaceChildren(...lines.map(key));
  }
  return { root, draw };
}

function key({ kind, name, text }) {
  const stroke = drawn("svg", { width: 22, height: 8, "aria-hidden": "true" },
    drawn("path", { class: `wb-line wb-${kind}`, d: "M1 4H21" }));
  return element("span", { class: "wb-key" }, stroke, ` ${name} `, tokenText(shorten(text, 16)));
}

// Values with a line across and how they are written.
function levels(ranked, most) {
  if (!ranked) return [[0, "0 %"], [0.5, "50 %"], [1, "100 %"]];
  const powers = [10, 100, 1000, 10_000, 100_000].filter((n) => n <= most);
  return [0, ...powers].map((n) => [n, n < 1000 ? `${n}` : `${n / 1000}k`]);
}

// Rows named below: the last, and every so many before it that names do not touch.
function ticks(labels, step) {
  const every = [1, 2, 5, 10, 20, 50].find((n) => n * step >= 52) ?? 100;
  const last = labels.length - 1;
  return [...labels.keys()].filter((i) => i === last || (i % every === 0 && (last - i) * step >= 46));
}

function path(values, across, at) {
  let pen = "M";
  return values.map((value, i) => {
    if (Number.isNaN(value)) return (pen = "M") && "";
    const step = `${pen}${across(i).toFixed(1)} ${at(value).toFixed(1)}`;
    pen = "L";
    // A value alone between gaps is a line of no length, which round ends make a point.
    return step + (Number.isNaN(values[i - 1] ?? NaN) && Number.isNaN(values[i + 1] ?? NaN) ? "h0" : "");
  }).join("");
}

function spoken(lines, labels, ranked) {
  const written = (value) => (Number.isNaN(value) ? "nothing" : ranked ? `${value}` : `${percent(value)} %`);
  const ends = lines.map(({ name, text, values }) =>
    `${name} ${text}: ${written(values[0])} at ${labels[0]}, ${written(values.at(-1))} at ${labels.at(-1)}`);
  return `${ranked ? "Rank" : "Probability"} over layers. ${ends.join("; ") || "No token to follow"}`;
}
