// The attention dashboard: layer and head to choose, the pattern, the tokens, and what one token looks at.
//
// `render` is an anywidget view. Its model has `layer`, `head`, `query` (locked position, -1 for none), the
// visible token texts `_tokens`, the choices `_layers` and `_heads`, and one pattern: `_pattern` (bytes),
// `_coding` ({dtype, half}) and `_shown` ([layer, head] it belongs to). `_failed` ([layer, head, why]) says
// which pattern could not be had. Pointing at things stays in here.
// Token text is foreign text: it goes in as text nodes and never as HTML.

const SIDE = 440; // px of the pattern's side, at most
const CELL = 30; // px of a cell's side, at most
const LABELLED = 40; // tokens up to which the pattern is labelled
const GRIDDED = 64; // tokens up to which cells are drawn apart from each other
const SOURCES = 8; // tokens listed in the readout

function render({ model, el }) {
  const tokens = model.get("_tokens");
  const view = build(tokens, model.get("_layers"), model.get("_heads"));
  let weights = decode(model, tokens.length);
  let colours = null; // null until there is a page to read them from
  let cursor = tokens.length - 1; // the query last pointed at, shown while none is locked
  let source = -1; // the key pointed at

  const locked = () => model.get("query");
  const query = () => (locked() >= 0 ? locked() : cursor);

  function redraw() {
    if (!view.root.isConnected) return; // no styles to read yet: `attached` comes back
    colours = readColours(view.root);
    drawPattern(view.canvas, weights, tokens, colours);
    refresh();
  }

  function refresh() {
    if (!colours) return;
    showTokens(view, weights, colours, query(), locked(), source);
    showReadout(view.readout, weights, tokens, query(), locked(), source);
    showMarks(view, weights, query(), source);
  }

  function showChoice() {
    view.layer.value = model.get("layer");
    view.head.value = model.get("head");
    const [layer, head] = model.get("_shown");
    view.canvas.setAttribute("aria-label", `Attention pattern of layer ${layer}, head ${head}`);
    const chosen = (l, h) => l === model.get("layer") && h === model.get("head");
    const [failedLayer, failedHead, why] = model.get("_failed") ?? [];
    const failed = chosen(failedLayer, failedHead);
    view.error.textContent = failed
      ? `Layer ${failedLayer}, head ${failedHead} could not be computed (${why}). Still shown: layer ${layer}, head ${head}.`
      : "";
    view.root.setAttribute("aria-busy", !failed && !chosen(layer, head));
  }

  function newPattern() {
    weights = decode(model, tokens.length);
    showChoice();
    redraw();
  }

  function choose(name, value) {
    model.set(name, value);
    model.save_changes();
  }

  function point(q, k) {
    if (locked() >= 0) source = k >= 0 ? k : q;
    else [cursor, source] = [q, k];
    refresh();
  }

  function toggle(position) {
    cursor = position;
    source = -1;
    choose("query", locked() === position ? -1 : position);
    view.strip.focus({ preventScroll: true });
  }

  function move(to) {
    const position = Math.max(0, Math.min(tokens.length - 1, to));
    cursor = position;
    source = -1;
    if (locked() >= 0) choose("query", position);
    else refresh();
    view.options[position].scrollIntoView({ block: "nearest" });
    announce();
  }

  function announce() {
    const [best] = ranked(weights, query());
    view.live.textContent =
      `${tokens[query()]}, position ${query()}, attends most to ${tokens[best.key]}, ` +
      `position ${best.key}, ${best.weight.toFixed(4)}${locked() >= 0 ? ", locked" : ""}`;
  }

  function onKey(event) {
    const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) move(query() + steps[event.key]);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(tokens.length - 1);
    else if (event.key === "Enter" || event.key === " ") {
      toggle(query());
      announce();
    } else if (event.key === "Escape" && locked() >= 0) {
      choose("query", -1);
      announce();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  const overToken = (event, then) => {
    const option = event.target.closest("[role=option]");
    if (option) then(view.options.indexOf(option));
  };
  const overCell = (event, then) => {
    const { q, k } = cellAt(view.canvas, weights, event);
    if (q >= 0) then(q, k);
  };
  const leave = () => {
    source = -1;
    refresh();
  };
  view.layer.addEventListener("change", () => choose("layer", Number(view.layer.value)));
  view.head.addEventListener("change", () => choose("head", Number(view.head.value)));
  view.strip.addEventListener("keydown", onKey);
  view.strip.addEventListener("pointerover", (event) => overToken(event, (position) => point(position, -1)));
  view.strip.addEventListener("click", (event) => overToken(event, toggle));
  view.strip.addEventListener("pointerleave", leave);
  view.canvas.addEventListener("pointermove", (event) => overCell(event, point));
  view.canvas.addEventListener("click", (event) => overCell(event, toggle));
  view.canvas.addEventListener("pointerleave", leave);

  const listeners = { "change:layer": showChoice, "change:head": showChoice, "change:_shown": newPattern, "change:_failed": showChoice, "change:query": refresh };
  for (const [name, listener] of Object.entries(listeners)) model.on(name, listener);
  const unwatch = watchTheme(redraw);
  const attached = new ResizeObserver(() => colours ?? redraw()); // a notebook attaches a view after drawing it
  attached.observe(view.root);
  el.append(view.root);
  showChoice();
  redraw();
  return () => {
    for (const [name, listener] of Object.entries(listeners)) model.off(name, listener);
    unwatch();
    attached.disconnect();
    view.root.remove();
  };
}

export default { render };

// The dashboard without a kernel: `state` has the traits and every pattern in base64.
export function standalone(el, state) {
  const values = { ...state.traits };
  const listeners = {};
  const model = {
    get: (name) => values[name],
    set(name, value) {
      if (values[name] === value) return;
      values[name] = value;
      if (name === "layer" || name === "head") load();
      for (const listener of listeners[`change:${name}`] ?? []) listener();
    },
    save_changes() {},
    on: (name, listener) => (listeners[name] ??= new Set()).add(listener),
    off: (name, listener) => listeners[name]?.delete(listener),
  };
  function load() {
    const { data, ...coding } = state.patterns[`${values.layer}.${values.head}`];
    values._pattern = new DataView(Uint8Array.from(atob(data), (char) => char.charCodeAt(0)).buffer);
    values._coding = coding;
    model.set("_shown", [values.layer, values.head]);
  }
  load();
  return render({ model, el });
}

// ---- the numbers -----------------------------------------------------------------------------------------

// {n, half, at(query, key)}; `half`: keys end at the query.
function decode(model, n) {
  const { dtype, half } = model.get("_coding");
  const view = model.get("_pattern");
  const bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  const values = dtype === "uint16" ? new Uint16Array(bytes) : new Float32Array(bytes);
  const weight = dtype === "uint16" ? (i) => (values[i] / 65535) ** 2 : (i) => values[i];
  if (!half) return { n, half, at: (q, k) => weight(q * n + k) };
  return { n, half, at: (q, k) => (k > q ? 0 : weight((q * (q + 1)) / 2 + k)) };
}

// The keys of one query, most attended first, and in order where they are equal.
function ranked(weights, q) {
  const keys = weights.half ? q + 1 : weights.n;
  return Array.from({ length: keys }, (_, key) => ({ key, weight: weights.at(q, key) })).sort(
    (a, b) => b.weight - a.weight || a.key - b.key,
  );
}

// ---- elements --------------------------------------------------------------------------------------------

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function build(tokens, layers, heads) {
  const id = `wb-${Math.random().toString(36).slice(2)}`; // two dashboards on a page must not share ids
  const select = (name, values) =>
    element("select", { "data-testid": `${name}-select` }, ...values.map((v) => element("option", { value: v }, `${v}`)));
  const layer = select("layer", layers);
  const head = select("head", heads);
  const canvas = element("canvas", { role: "img", "data-testid": "attention-canvas" });
  const row = element("div", { class: "wb-mark wb-row" });
  const cell = element("div", { class: "wb-mark wb-cell" });
  const options = tokens.map((token, i) =>
    element("span", { id: `${id}-${i}`, role: "option", class: "wb-token", "data-testid": `token-${i}`, title: `position ${i}` }, token),
  );
  const strip = element(
    "div",
    { role: "listbox", tabindex: "0", class: "wb-strip", "data-testid": "token-strip", "aria-orientation": "horizontal",
      "aria-label": "Tokens: arrow keys move, Enter locks, Escape unlocks" },
    ...options,
  );
  const readout = element("div", { class: "wb-readout", "data-testid": "readout" });
  const live = element("div", { class: "wb-live", "aria-live": "polite" });
  const error = element("div", { class: "wb-error", role: "alert", "data-testid": "error" });
  const root = element(
    "div",
    { class: "wb-attention", "data-lm-suppress-shortcuts": "true" }, // keys are ours while we have the focus
    element("div", { class: "wb-bar" }, element("label", {}, "Layer ", layer), element("label", {}, "Head ", head),
      element("span", { class: "wb-hint" }, "hover a token · click to lock")),
    error,
    element("div", { class: "wb-body" }, element("div", { class: "wb-map" }, canvas, row, cell),
      element("div", { class: "wb-side" }, strip, readout)),
    live,
  );
  return { root, layer, head, canvas, row, cell, strip, options, readout, live, error };
}

function showTokens(view, weights, colours, q, locked, source) {
  view.options.forEach((option, k) => {
    const hidden = weights.half && k > q;
    const colour = hidden ? null : colours.at(weights.at(q, k));
    option.style.backgroundColor = hidden ? "" : css(colour);
    option.style.color = hidden ? "" : onTop(colour);
    option.classList.toggle("wb-hidden", hidden);
    option.classList.toggle("wb-query", k === q);
    option.classList.toggle("wb-source", k === source);
    option.setAttribute("aria-selected", k === locked);
  });
  view.strip.setAttribute("aria-activedescendant", view.options[q].id);
}

function showReadout(readout, weights, tokens, q, locked, source) {
  const all = ranked(weights, q);
  const shown = all.filter(({ key }, i) => i < SOURCES || key === source);
  const rest = all.filter((entry) => !shown.includes(entry));
  const rows = shown.map(({ key, weight }) => {
    const share = element("i", {});
    share.style.width = `${100 * Math.max(0, Math.min(1, weight || 0))}%`;
    return element("tr", { "data-testid": `source-${key}`, class: key === source ? "wb-source" : "" },
      element("td", { class: "wb-number wb-soft" }, `${key}`), element("td", {}, element("bdi", { class: "wb-text" }, tokens[key])),
      element("td", { class: "wb-number wb-weight" }, weight.toFixed(4)), element("td", { class: "wb-share", "aria-hidden": "true" }, share));
  });
  const sum = rest.reduce((total, { weight }) => total + weight, 0);
  readout.replaceChildren(
    element("p", {}, element("bdi", { class: "wb-text wb-looking" }, tokens[q]), ` at ${q} attends to`,
      element("span", { class: "wb-lock" }, locked >= 0 ? "locked" : "")),
    element("table", {}, element("tbody", {}, ...rows)),
    element("p", { class: "wb-soft" }, rest.length ? `${rest.length} more share ${sum.toFixed(4)}` : ""),
  );
}

// ---- the pattern -----------------------------------------------------------------------------------------

function drawPattern(canvas, weights, tokens, colours) {
  const { n } = weights;
  const cell = n <= SIDE ? Math.min(CELL, Math.floor(SIDE / n)) : SIDE / n;
  const side = cell * n;
  const pen = canvas.getContext("2d");
  const font = `11px ${colours.mono}`;
  pen.font = font;
  // A causal pattern leaves its upper half free: a label there names both its row and its column.
  const labels = n > LABELLED ? [] : tokens.map((text, q) => ({ text: shorten(text, 18), x: (weights.half ? (q + 1) * cell : side) + 6 }));
  const width = Math.ceil(Math.max(side, ...labels.map(({ text, x }) => x + pen.measureText(text).width)));
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(side * ratio);
  canvas.style.width = `${width}px`;
  canvas.dataset.side = side; // what of the width is pattern
  canvas.dataset.width = width;
  pen.scale(ratio, ratio);
  if (n <= GRIDDED) drawCells(pen, weights, colours, cell);
  else drawImage(pen, weights, colours, side, Math.min(n, Math.round(side * ratio)));
  pen.font = font;
  pen.fillStyle = colours.soft;
  pen.textBaseline = "middle";
  labels.forEach(({ text, x }, q) => pen.fillText(text, x, (q + 0.5) * cell + 0.5));
}

function drawCells(pen, weights, colours, cell) {
  for (let q = 0; q < weights.n; q++)
    for (let k = 0; k < (weights.half ? q + 1 : weights.n); k++) {
      pen.fillStyle = css(colours.at(weights.at(q, k)));
      pen.fillRect(k * cell, q * cell, cell - 1, cell - 1);
    }
}

// Where a pixel stands for several cells it shows the largest: a thin stripe must not fade.
function drawImage(pen, weights, colours, side, pixels) {
  const { n, half } = weights;
  const most = new Float32Array(pixels * pixels).fill(-1);
  for (let q = 0; q < n; q++) {
    const line = Math.floor((q * pixels) / n) * pixels;
    for (let k = 0; k < (half ? q + 1 : n); k++) {
      const i = line + Math.floor((k * pixels) / n);
      const weight = weights.at(q, k);
      if (weight > most[i]) most[i] = weight;
    }
  }
  const image = new ImageData(pixels, pixels);
  most.forEach((weight, i) => weight >= 0 && image.data.set([...colours.at(weight), 255], 4 * i));
  const sheet = element("canvas", { width: pixels, height: pixels });
  sheet.getContext("2d").putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(sheet, 0, 0, side, side);
}

function cellAt(canvas, { n, half }, event) {
  const box = canvas.getBoundingClientRect();
  const share = canvas.dataset.side / canvas.dataset.width;
  const q = Math.floor(((event.clientY - box.top) / box.height) * n);
  const k = Math.floor(((event.clientX - box.left) / (box.width * share)) * n);
  return { q: q >= 0 && q < n ? q : -1, k: k >= 0 && k < (half ? q + 1 : n) ? k : -1 };
}

function showMarks({ canvas, row, cell }, { n, half }, q, k) {
  const across = (100 * canvas.dataset.side) / canvas.dataset.width / n;
  const place = (mark, x, width) => {
    mark.style.top = `${(100 * q) / n}%`;
    mark.style.height = `${100 / n}%`;
    mark.style.left = `${x * across}%`;
    mark.style.width = `${width * across}%`;
  };
  place(row, 0, half ? q + 1 : n);
  place(cell, k, 1);
  cell.hidden = k < 0 || (half && k > q);
}

const shorten = (text, length) => ([...text].length <= length ? text : `${[...text].slice(0, length - 1).join("")}…`);

// ---- colours ---------------------------------------------------------------------------------------------

// The style sheet owns the colours; they are read back as numbers. `at(weight)` follows the square root.
function readColours(root) {
  const probe = element("span", { hidden: "" });
  root.append(probe);
  const read = (name) => {
    probe.style.color = `var(--wb-${name})`;
    return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  };
  const ramp = [0, 1, 2, 3, 4, 5].map((i) => read(`ramp-${i}`));
  const soft = css(read("soft"));
  const mono = getComputedStyle(root).getPropertyValue("--wb-mono") || "monospace";
  probe.remove();
  const steps = Array.from({ length: 256 }, (_, i) => between(ramp, (i / 255) * (ramp.length - 1)));
  return { soft, mono, at: (weight) => steps[Math.round(255 * Math.sqrt(Math.max(0, Math.min(1, weight || 0))))] };
}

function between(ramp, at) {
  const low = Math.min(Math.floor(at), ramp.length - 2);
  return ramp[low].map((a, c) => Math.round(a + (ramp[low + 1][c] - a) * (at - low)));
}

const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

// Black or white, whichever is read better on this colour (WCAG's relative luminance).
function onTop(colour) {
  const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#17191c" : "#ffffff";
}

function watchTheme(changed) {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const observer = new MutationObserver(changed);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  scheme.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    scheme.removeEventListener("change", changed);
  };
}
