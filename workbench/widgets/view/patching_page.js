// The patching dashboard's page: what can be chosen, the readout, the lists.

const UNITS = {
  head: { one: "a head", many: "heads" }, kv_head: { one: "a kv head", many: "kv heads" },
  expert: { one: "an expert", many: "experts" }, d_mlp: { one: "a neuron", many: "neurons" },
};

function patchingView(model, about, { pointed, chosen, escaped, locks, stepped, toggled }) {
  const noun = nounOf(about);
  const show = selectBox("show-select", "Show", [["effect", "effect"], ["value", "metric"]], (value) => choose(model, { show: value }));
  const pairs = [[-1, `all ${plural(about.pairs, noun)}`], ...about.offers.map((n) => [n, `${noun} ${n}`])];
  const pair = selectBox("pair-select", noun === "pair" ? "Pairs" : "Texts", pairs, (value) => choose(model, { pair: Number(value) }));
  const previous = button("pair-previous", "‹", () => stepped(-1), `The ${noun} before (key [)`);
  const next = button("pair-next", "›", () => stepped(1), `The next ${noun} (key ])`);
  previous.setAttribute("aria-label", `The ${noun} before`);
  next.setAttribute("aria-label", `The next ${noun}`);
  const sheets = [[-1, "the strongest"], ...about.sheets.places.map((place, i) => [place, sheetName(about.sheets, i)])];
  const slice = selectBox("slice-select", about.sheets.word, sheets, (value) => choose(model, { slice: Number(value) }));
  slice.root.hidden = about.sheets.at < 0;
  const pairGroup = element("span", { class: "wb-pairs" }, pair.root, previous, next);
  pairGroup.hidden = about.pairs < 2;
  const csv = button("csv-button", "CSV", () => {}, "Save the numbers as a table");
  const scale = element("span", { class: "wb-scale", role: "img", "data-testid": "scale" });
  const error = element("p", { class: "wb-error", role: "alert", "data-testid": "error" });
  const what = [about.down.word, about.across.word].filter(Boolean).join(" and ");
  const map = cellMap({
    testid: "patching-map", name: `Sweep by ${what}`, down: about.down.word, across: about.across.word, pointed, chosen, escaped,
  });
  const keys = ["arrow keys move", "Enter locks a cell", "Escape lets go", about.unit && `x selects ${UNITS[about.unit].one}`, about.pairs > 1 && "[ and ] change the pair"];
  map.canvas.setAttribute("aria-label", `Sweep by ${what}: ${keys.filter(Boolean).join(", ")}`);
  const readout = element("div", { class: "wb-readout", "data-testid": "readout" });
  const list = element("ol", { class: "wb-strongest", "data-testid": "strongest", "aria-label": "Strongest effects" });
  const chips = element("p", { class: "wb-chips", "data-testid": "selection" });
  const live = element("div", { class: "wb-live", "aria-live": "polite", "data-testid": "live" });
  const signs = [about.means.includes("low") && "● 95 % interval without 0", "– unchanged"].filter(Boolean);
  const root = element("div", { class: "wb-view wb-patching" },
    element("p", { class: "wb-heading" }, about.title),
    element("div", { class: "wb-bar" }, show.root, pairGroup, slice.root, element("span", { class: "wb-buttons" }, csv)),
    element("p", { class: "wb-note" }, about.note ?? ""), error,
    element("div", { class: "wb-bar" }, scale, ...signs.map((sign) => element("span", { class: "wb-soft" }, sign))),
    element("div", { class: "wb-body" }, map.root,
      element("div", { class: "wb-side" }, readout,
        element("p", { class: "wb-list-title" }, "Strongest effects"), list, ...(about.unit ? [chips] : []))), live);


  return {
    root, map, csv,
    say: (text) => (live.textContent = text),
    settle(from) {
      show.show(from.get("show"));
      pair.show(from.get("pair"));
      slice.show(from.get("slice"));
      error.textContent = from.get("_failed") ? `The attention could not be shown (${from.get("_failed")}).` : "";
    },
    showScale(bound, quantity, colours) {
      const bar = element("i", {});
      bar.style.background = `linear-gradient(to right, ${[-1, -0.67, -0.33, 0, 0.33, 0.67, 1].map((s) => css(colours.signed(s))).join(", ")})`;
      scale.replaceChildren(change(-bound), bar, change(bound));
      scale.setAttribute("aria-label", `Colours of the ${quantity === "value" ? "metric" : "effect"} go from ${change(-bound)} over 0 to ${change(bound)}`);
    },
    readout: (...looked) => readout.replaceChildren(...readoutOf(...looked)),
    list(data, cells, of, locked) {
      const items = cells.map((at) => strongItem(data, at, of, at === locked, () => locks(at === locked ? null : at)));
      fill(list, items);
    },
    selected: (selection) => fill(chips, chipsOf(about, selection, toggled)),
  };
}

// Puts items in place of others; the one in the place of what had the focus has it.
function fill(root, items) {
  const buttons = () => [...root.querySelectorAll("button")];
  const at = buttons().indexOf(document.activeElement);
  root.replaceChildren(...items);
  if (at >= 0) buttons()[Math.min(at, buttons().length - 1)]?.focus();
}

const sheetName = (axis, i) => (axis.tokens ? `${axis.places[i]} ${axis.names[i]}` : axis.names[i]);

// The same rows for every cell, so that nothing jumps.
function readoutOf(data, at, pair, locked, ofLocked) {
  const { about } = data;
  const [base, other] = runNames(about);
  const interval = data.interval(at) ?? (ofLocked?.length ? ofLocked : null);
  const excludes = interval !== null && (interval[0] > 0 || interval[1] < 0);
  const unmade = about.means.includes("low") || ofLocked ? "none" : about.kernel ? "lock the cell" : "not in this page";
  const between = interval ? `${change(interval[0])} to ${change(interval[1])}` : unmade;
  const number = (value) => element("td", { class: "wb-number" }, value);
  const row = (name, ...cells) => element("tr", {}, element("th", { scope: "row" }, name), ...cells);
  const bold = (text, on) => (on ? element("b", {}, `● ${text}`) : text);
  const rows = [row("effect", number(element("b", {}, change(data.effect(at, pair)))))];
  if (about.pairs > 1 && pair >= 0) rows.push(row(`of all ${about.pairs} ${nounOf(about)}s`, number(change(data.effect(at, -1)))));
  if (about.pairs > 1) rows.push(row(`95 % over ${nounOf(about)}s`, number(bold(between, excludes))));
  if (about.means.includes("p")) rows.push(row("p-value", number(written(data.p(at)))));
  rows.push(row("metric", number(written(data.value(at, pair)))), row(base, number(written(data.base(at, pair)))));
  if (other) rows.push(row(other, number(written(data.other(at, pair)))));
  return [
    element("p", { class: "wb-name", "data-testid": "looked-at" }, ...nameOf(data, at, pair), ...(locked ? [element("span", { class: "wb-lock" }, "locked")] : [])),
    ...corruptedOf(data, at, pair),
    element("table", { "data-testid": "numbers", "aria-label": "Numbers of the cell" }, element("tbody", {}, ...rows)),
    element("p", { class: "wb-meaning" }, meaningOf(about)),
    element("p", { class: "wb-remark", "data-testid": "remark" }, remark(data, at, pair, hasToken(data, at, pair))),
  ];
}

function nameOf(data, at, pair) {
  const parts = nameParts(data, at, pair).map(([word, token, name]) =>
    element("span", { class: "wb-part" }, `${word} ${name}`, ...(token ? [" ", tokenText(shorten(token, 16), "wb-looking")] : [])));
  return parts.length ? parts.flatMap((part, i) => (i ? [", ", part] : [part])) : ["the only cell"];
}

// Which token stands there in the corrupted text, where the tokens are known.
function corruptedOf(data, at, pair) {
  if (!data.texts(pair).corrupted) return [];
  const places = data.places(at);
  const axes = [data.about.sheets, data.about.down, data.about.across];
  const i = axes.findIndex((axis) => axis.tokens);
  const token = tokenAt(data, axes[i], places[i], pair, "corrupted");
  const same = token === tokenAt(data, axes[i], places[i], pair);
  return [element("p", { "data-testid": "corrupted-token" }, ...(same ? ["the same token in both texts"] : ["corrupted ", tokenText(shorten(token, 16))]))];
}

function strongItem(data, at, pair, locked, pressed) {
  const name = placeName(data, at, pair);
  const made = element("button", { type: "button", "aria-pressed": locked, title: locked ? "Let go" : "Lock this cell" },
    element("span", {}, name), element("span", { class: "wb-number" }, `${pair < 0 && excludesZero(data, at) ? "● " : ""}${change(data.effect(at, pair))}`));
  made.addEventListener("click", pressed);
  return element("li", {}, made);
}

function chipsOf(about, selection, toggled) {
  const word = UNITS[about.unit]?.many;
  if (!selection.length) return [`Selected ${word}: none. x or Ctrl+click adds one.`];
  const title = ([layer, unit]) => `Take layer ${layer}, ${about.unit} ${unit} out of the selection`;
  const chips = selection.map((unit) =>
    button(`selected-${unit.join("-")}`, `${unit.join(".")} ×`, () => toggled(unit), title(unit)));
  return [`Selected ${word}: `, ...chips];
}
