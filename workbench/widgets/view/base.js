// What every view is made of: elements, the host's theme, colours, keys, and a model for pages without a kernel.
//
// The files of this folder are put one behind the other into one module (`widgets/assets.py` says which for whom), so
// they share their names and import nothing. Token text is foreign text: it goes in as text nodes, never as HTML.

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Two views on a page must not share ids.
const uniqueId = () => `wb-${Math.random().toString(36).slice(2)}`;

// A <select> in its label; `options` are [value, text]. `show(value)` chooses without telling.
function selectBox(testid, label, options, chosen) {
  const input = element("select", { "data-testid": testid });
  const fill = (given) => input.replaceChildren(...given.map(([value, text]) => element("option", { value }, text)));
  fill(options);
  input.addEventListener("change", () => chosen(input.value));
  return { root: element("label", {}, `${label} `, input), input, fill, show: (value) => (input.value = value) };
}

function checkBox(testid, label, changed) {
  const input = element("input", { type: "checkbox", "data-testid": testid });
  input.addEventListener("change", () => changed(input.checked));
  return { root: element("label", { class: "wb-check" }, input, ` ${label}`), input, show: (on) => (input.checked = on) };
}

function button(testid, label, pressed, title) {
  const made = element("button", { type: "button", "data-testid": testid, title }, label);
  made.addEventListener("click", pressed);
  return made;
}

// A token among other text: its direction stays its own.
const tokenText = (text, cls = "") => element("bdi", { class: `wb-text ${cls}` }, text);

const shorten = (text, length) => ([...text].length <= length ? text : `${[...text].slice(0, length - 1).join("")}…`);
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const signed = (value, digits = 3) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

// ---- keys ------------------------------------------------------------------------------------------------

// Where an arrow key leads in a grid of rows x columns, as [row, column]; null for any other key.
function walked(key, [row, column], rows, columns) {
  const to = {
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [row, 0], End: [row, columns - 1], PageUp: [0, column], PageDown: [rows - 1, column],
  }[key];
  return to ? [clamp(to[0], 0, rows - 1), clamp(to[1], 0, columns - 1)] : null;
}

// ---- the model -------------------------------------------------------------------------------------------

function choose(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

// Calls listeners ({trait: function}) for changes of the model's traits, until the returned function is called.
function listen(model, listeners) {
  const named = Object.entries(listeners).map(([name, listener]) => [`change:${name}`, listener]);
  for (const [event, listener] of named) model.on(event, listener);
  return () => named.forEach(([event, listener]) => model.off(event, listener));
}

// A message changes several traits; what they ask for is done when all are there: each step once, in this order.
// `later(...steps)` is a listener that asks for these.
function inTurn(...order) {
  const due = new Set();
  const now = () => {
    const asked = order.filter((step) => due.has(step));
    due.clear();
    asked.forEach((step) => step());
  };
  return (...steps) => () => {
    if (!due.size) queueMicrotask(now);
    steps.forEach((step) => due.add(step));
  };
}

// The model of a page without a kernel: its traits are `values`; `answer(name)` does what the kernel would when a trait
// has changed.
function offlineModel(values, answer = () => {}) {
  const listeners = {};
  const model = {
    get: (name) => values[name],
    set(name, value) {
      if (JSON.stringify(values[name]) === JSON.stringify(value) && !(value instanceof DataView)) return;
      values[name] = value;
      answer(name, model);
      for (const listener of [...(listeners[`change:${name}`] ?? [])]) listener();
    },
    save_changes() {},
    on: (event, listener) => (listeners[event] ??= new Set()).add(listener),
    off: (event, listener) => listeners[event]?.delete(listener),
  };
  return model;
}

const fromBase64 = (text) => new DataView(Uint8Array.from(atob(text), (char) => char.charCodeAt(0)).buffer);

// ---- files -----------------------------------------------------------------------------------------------

// Hands a file to the reader, without any server.
function download(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// A field of a CSV file; what a spreadsheet would run as a formula is kept as text.
const csvField = (value) => {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : `${value}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const csvText = (rows) => rows.map((row) => row.map(csvField).join(",")).join("\n") + "\n";

// ---- colours ---------------------------------------------------------------------------------------------

// The style sheet owns the colours; here they are read back as numbers. `weight(share)` runs from nothing (0) to most
// (1), `signed(share)` from -1 to 1 with 0 the colour of nothing.
function readColours(root) {
  const probe = element("span", { hidden: "" });
  root.append(probe);
  const read = (name) => {
    probe.style.color = `var(--wb-${name})`;
    return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  };
  const names = (prefix, ...ends) => ends.map((end) => read(`${prefix}-${end}`));
  const ramp = steps(names("ramp", 0, 1, 2, 3, 4, 5));
  const both = steps([...names("minus", 3, 2, 1), read("ramp-0"), ...names("plus", 1, 2, 3)], 257); // with one in the middle
  const pale = steps(names("pale", 0, 1, 2));
  const [ink, soft, field, paper] = ["ink", "soft", "field", "paper"].map(read);
  const mono = getComputedStyle(root).getPropertyValue("--wb-mono") || "monospace";
  probe.remove();
  const at = (colours, share) => colours[Math.round((colours.length - 1) * clamp(share || 0, 0, 1))];
  return {
    ink, soft, field, paper, mono,
    weight: (share) => at(ramp, share),
    pale: (share) => at(pale, share),
    signed: (share) => at(both, (share + 1) / 2),
  };
}

const steps = (stops, n = 256) =>
  Array.from({ length: n }, (_, i) => {
    const at = (i / (n - 1)) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((a, c) => Math.round(a + (stops[low + 1][c] - a) * (at - low)));
  });

const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

// Black or white, whichever is read better on this colour (WCAG's relative luminance).
function onTop(colour) {
  const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

// How large a value looks, from 0 to 1, on a scale that ends at `most`.
const SHARES = {
  linear: (value, most) => value / most,
  sqrt: (value, most) => Math.sqrt(Math.max(0, value) / most),
  log: (value, most) => (value > 0 ? 1 + Math.log10(value / most) / 4 : 0), // four decades
};

// ---- the life of a view ----------------------------------------------------------------------------------

// A key pressed in a view is the view's: a notebook would take an arrow or a letter for a command of its own. JupyterLab
// asks the very element that has the focus.
function keepKeys(root) {
  root.addEventListener("focusin", (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
  root.addEventListener("keydown", (event) => !event.ctrlKey && !event.metaKey && !event.altKey && event.stopPropagation());
}

// Puts `root` into `el`; calls `draw` once it is on a page with styles to read, again when the theme changes, and when
// its width does. Returns what ends that.
function mount(el, root, draw) {
  let width = 0;
  const now = () => {
    if (!root.isConnected) return;
    if (root.clientWidth) draw(readColours(root));
    else requestAnimationFrame(() => root.clientWidth && draw(readColours(root))); // a notebook hides it for a moment
  };
  const sized = new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    now();
  });
  const themed = new MutationObserver(now);
  themed.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  const queries = ["(prefers-color-scheme: dark)", "(forced-colors: active)", "(prefers-contrast: more)"].map((q) => matchMedia(q));
  queries.forEach((query) => query.addEventListener("change", now));
  keepKeys(root);
  el.append(root);
  sized.observe(root);
  width = root.clientWidth;
  now();
  return () => {
    sized.disconnect();
    themed.disconnect();
    queries.forEach((query) => query.removeEventListener("change", now));
    root.remove();
  };
}
