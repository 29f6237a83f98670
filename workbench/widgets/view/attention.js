// The attention dashboard. `render` is an anywidget view; `opened.py` says what each of its model's traits holds.
// Pointing at things stays in here: only choices and locks are told to the kernel.

const QUANTITIES = { attention: "attention", value_weighted: "value-weighted", contribution: "contribution to a logit" };
const EXPLAINED = { value_weighted: "Value-weighted: attention times the norm of v W_O." };

function render({ model, el }) {
  const get = (name) => model.get(name);
  let index = new Map(); // position in the text -> index among those shown
  let heads; // decoded patterns of the head shown, one for each run
  let shown = []; // the same as they are shown
  let colours = null; // null until there is a page to read them from
  let most = 1;
  let source = -1;
  let preview = null; // a head pointed at in the grid
  let drawn = 0; // px of a pattern's side, at most, when all were drawn last

  // ---- controls
  const set = (name) => (value) => choose(model, { [name]: value });
  const number = (name) => (value) => choose(model, { [name]: Number(value) });
  const layer = selectBox("layer-select", "Layer", [], (value) => choose(model, { layer: Number(value), ...fitting(Number(value)) }));
  const head = selectBox("head-select", "Head", [], number("head"));
  const example = selectBox("example-select", "Text", Array.from({ length: get("_examples") }, (_, i) => [i, `${i}`]), number("example"));
  const view = selectBox("view-select", "Show", [], set("quantity"));
  const direction = selectBox("direction-select", "of a token", [["attends_to", "what it attends to"], ["attended_by", "who attends to it"]], set("direction"));
  const scale = selectBox("scale-select", "Colours", [["sqrt", "square root"], ["linear", "linear"], ["log", "logarithm"]], set("scale"));
  const hideFirst = checkBox("hide-first", "hide first token", (on) => hideColumn(0, on));
  const renormalise = checkBox("renormalise", "renormalise", set("renormalise"));
  const unhide = button("unhide", "show all columns", () => choose(model, { hidden: [] }), "Show the columns that are hidden");
  const score = selectBox("score-select", "Mark heads by", [], set("score"));
  const ordered = checkBox("ordered", "sort", set("ordered"));
  const minimum = element("input", { type: "number", step: "any", "data-testid": "minimum", "aria-label": "Least score shown", placeholder: "least" });
  minimum.addEventListener("change", () => choose(model, { minimum: minimum.value === "" ? null : Number(minimum.value) }));
  const arrangement = selectBox("arrangement-select", "Arrange", [["grid", "grid"], ["scatter", "scatter"]], set("arrangement"));
  const [x, y] = ["x", "y"].map((name) => selectBox(`${name}-select`, name, [], set(name)));
  const saves = [
    button("save-png", "PNG", () => savePng(maps.filter(used).map((map) => map.canvas), name()), "Save the pattern as a picture"),
    button("save-svg", "SVG", () => saveSvg(drawings(), tokens(), notes(), name()), "Save the pattern as shapes"),
    button("save-csv", "CSV", () => saveCsv(shown, cellsShown(), tokens(), get("_positions"), get("quantity"), get("_names"), name()), "Save the numbers shown"),
  ];

  // ---- parts
  const error = element("div", { class: "wb-error", role: "alert", "data-testid": "error" });
  const note = element("p", { class: "wb-note", "data-testid": "note" });
  const live = element("div", { class: "wb-live", "aria-live": "polite", "data-testid": "live" });
  const grid = headGrid(model, { pointed: pointHead, chosen: lockHead });
  const strip = tokenStrip({ pointed: (i, byKey) => point(i, -1, byKey), locked: lock, hide: (i) => hideColumn(i, !hidden().has(i)) });
  const maps = ["attention-canvas", "against-canvas", "difference-canvas"].map((testid) => patternMap({ testid, pointed: pointCell, locked: lockCell }));
  const used = (_, i) => i === 0 || Boolean(heads[1]);
  const words = readout();
  const scoreBar = element("div", { class: "wb-bar" }, score.root, ordered.root, minimum, arrangement.root, x.root, y.root);
  const side = element("div", { class: "wb-side" }, strip.root, words.root);
  const root = element("div", { class: "wb-view wb-attention" },
    element("div", { class: "wb-bar" }, layer.root, head.root, example.root, view.root, direction.root, scale.root, element("span", { class: "wb-saves" }, ...saves)),
    element("div", { class: "wb-bar" }, hideFirst.root, renormalise.root, unhide),
    error, note, scoreBar, grid.root,
    element("div", { class: "wb-body" }, element("div", { class: "wb-maps" }, ...maps.map((map) => map.root)), side), live);
  example.root.hidden = get("_examples") < 2;

  // ---- what is shown
  const tokens = () => get("_tokens");
  // A slider may be tied to `query` alone, and Python, which follows with `queries`, be busy.
  const locks = () => (get("query") < 0 ? [] : get("queries").at(-1) === get("query") ? get("queries") : [get("query")]);
  const chosen = () => locks().map((position) => index.get(position)).filter((i) => i !== undefined);
  const byKey = () => get("direction") === "attended_by";
  // A contribution is made at one query, whichever is locked.
  const looking = () => (isSigned() && !byKey() ? [shown[0].only] : chosen().length ? chosen() : [strip.cursor]);
  const hidden = () => new Set(get("hidden").map((position) => index.get(position)));
  const name = () => `attention-layer-${get("layer")}-head-${get("head")}`;
  const numbers = (at) => get("_heads").filter(([l]) => l === at).map(([, h]) => h);
  const fitting = (at) => (numbers(at).includes(get("head")) ? {} : { head: numbers(at)[0] });
  const matches = (of) => of && of.layer === get("layer") && of.head === get("head");

  function newText() {
    index = new Map(get("_positions").map((position, i) => [position, i]));
    strip.build(tokens(), get("_against"), get("_positions"));
    const layers = [...new Set(get("_heads").map(([l]) => l))];
    layer.fill(layers.map((l) => [l, `${l}`]));
    view.fill(get("_quantities").map((quantity) => [quantity, QUANTITIES[quantity]]));
    view.root.hidden = get("_quantities").length < 2;
  }

  function newHeads() {
    preview = null;
    grid.build();
    if (colours) grid.paint(colours, root.clientWidth);
  }

  function newPattern() {
    heads = decodeHead(model, tokens().length);
  }

  // What the kernel has sent of the present choice: all of it, or we wait.
  const columnsThere = () => get("quantity") === "attention" || (matches(get("_columns_of")) && get("_columns_of").quantity === get("quantity"));
  const there = () => matches(get("_shown")) && get("_shown").example === get("example") && columnsThere();

  function weighAll() {
    const quantity = columnsThere() ? get("quantity") : "attention";
    const factors = quantity === "attention" ? [] : runsOf(get("_columns"));
    const only = quantity === "contribution" ? index.get(get("_columns_of").query) : undefined;
    const exact = exactRows();
    shown = heads.map((pattern, i) => weigh(pattern, { hidden: hidden(), renormalise: get("renormalise"), factors: factors[i], only, exact: exact[i] }));
    most = Math.max(...shown.map((each) => mostOf(each, quantity === "attention" && !get("renormalise") && !hidden().size)));
  }

  // One Float32Array for each run.
  function runsOf(view) {
    const values = new Float32Array(bytesOf(view));
    const n = values.length / heads.length;
    return heads.map((_, i) => values.subarray(i * n, (i + 1) * n));
  }

  // Locked rows as they are and not as 16 bits: (q, k) => weight, undefined for others.
  function exactRows() {
    const of = get("_row_of");
    if (!matches(of) || !get("_row").byteLength) return [];
    const n = tokens().length;
    const at = new Map(of.queries.map((position, i) => [index.get(position), i * n]));
    const across = of.direction === "attended_by";
    return runsOf(get("_row")).map((values) => (q, k) => {
      const start = at.get(across ? k : q);
      return start === undefined ? undefined : values[start + (across ? q : k)];
    });
  }

  const isSigned = () => get("quantity") === "contribution" && columnsThere();
  function colourOf(each) {
    if (isSigned()) return (value) => (each.only === undefined || value ? colours.signed(value / most) : null);
    return (value) => colours.weight(SHARES[get("scale")](value, most));
  }

  function redraw() {
    if (!root.isConnected || !colours) return; // no styles to read yet: `mount` comes back
    const two = heads.length > 1;
    const size = two ? clamp(Math.floor((root.clientWidth - 90) / 3), 150, 300) : SIDE;
    maps.forEach((map, i) => (map.root.hidden = !used(map, i)));
    if (!preview || drawn !== size) drawAll(size);
    drawn = size;
    if (preview) {
      const whole = preview.rows === tokens().length; // a thumbnail of as many cells as the pattern
      maps[0].draw({ n: preview.rows, ...preview }, (value) => colours.weight(Math.sqrt(value)), whole && !two ? tokens() : [], size);
      maps[0].mark(null);
    } else refresh();
  }

  // What the maps show, each with its colours and in words: each run, and of two the difference.
  function drawings() {
    const each = shown.map((cells, i) => ({ cells, colour: colourOf(cells), words: caption(i), canvas: maps[i].canvas }));
    if (shown.length < 2) return each;
    const [one, other] = shown;
    const difference = { ...one, half: one.half && other.half, end: (q) => Math.max(one.end(q), other.end(q)), at: (q, k) => one.at(q, k) - other.at(q, k) };
    const largest = mostOf(difference, false);
    const words = `${get("_names")[0]} less ${get("_names")[1]}, to ±${largest.toFixed(2)}`;
    return [...each, { cells: difference, colour: (value) => colours.signed(value / largest), words, canvas: maps[2].canvas }];
  }

  function drawAll(size) {
    const labels = shown.length > 1 ? [] : tokens();
    drawings().forEach(({ cells, colour, words }, i) => {
      maps[i].draw(cells, colour, labels, size);
      maps[i].caption.textContent = words;
    });
  }

  // [query, key] of the cells that are looked at: of what is locked, of all where nothing is.
  function cellsShown() {
    const all = tokens().map((_, i) => i);
    const [first, ends] = [shown[0], (q) => Math.max(...shown.map((each) => each.end(q)))];
    if (byKey()) return (chosen().length ? chosen() : all).flatMap((k) => all.filter((q) => k < ends(q)).map((q) => [q, k]));
    const queries = first.only !== undefined ? [first.only] : chosen().length ? chosen() : all;
    return queries.flatMap((q) => all.slice(0, ends(q)).map((k) => [q, k]));
  }

  // What follows the pointer.
  function refresh() {
    if (!colours || preview) return;
    const at = looking();
    const found = new Map(sourcesOf(shown[0], at, byKey()).map(({ key, weight }) => [key, weight]));
    const tint = colourOf(shown[0]);
    strip.show({ colour: (i) => (found.has(i) ? tint(found.get(i) / at.length) : null), looking: at, source, hidden: hidden(), chosenNow: chosen() });
    words.show({
      runs: shown, tokens: tokens(), positions: get("_positions"), looking: at, source, byKey: byKey(), locked: at.every((i) => chosen().includes(i)),
      quantity: columnsThere() ? get("quantity") : "attention", names: get("_names"), most: most * at.length, notes: notes(), second: get("_against"),
    });
    maps.filter(used).forEach((map) => map.mark(at, source, byKey()));
  }

  function caption(i) {
    const { layer: l, head: h } = get("_shown");
    return heads.length > 1 ? get("_names")[i] : `layer ${l}, head ${h}`;
  }

  function notes() {
    const of = get("_columns_of");
    const columns = get("hidden");
    const how = get("renormalise") ? "the rest renormalised to 1" : "the rest not renormalised";
    return [
      columns.length ? `${columns.length === 1 ? `Column ${columns[0]} is` : `Columns ${columns.join(", ")} are`} hidden, ${how}.` : "",
      isSigned() ? `Contribution to the ${of.metric} at ${of.query}: attention times v W_O along that logit, made at query ${of.query} only, the scales of norms as in the run. The head adds ${of.adds.map((value) => signed(value)).join(" and ")} in all.${of.changed ? " A hook changed what it gathered, so that its parts do not sum to that." : ""}` : EXPLAINED[columnsThere() ? get("quantity") : ""] ?? "",
      get("quantity") === "attention" && columnsThere() ? "" : `Colours end at ${most.toPrecision(3)}.`,
    ].filter(Boolean);
  }

  function showChoice() {
    layer.show(get("layer"));
    head.fill(numbers(get("layer")).map((h) => [h, `${h}`]));
    head.show(get("head"));
    example.show(get("example"));
    view.show(get("quantity"));
    direction.show(get("direction"));
    scale.show(get("scale"));
    hideFirst.root.hidden = get("_positions")[0] !== 0;
    hideFirst.show(hidden().has(0));
    renormalise.show(get("renormalise"));
    unhide.hidden = !get("hidden").length;
    note.textContent = get("_note");
    const of = get("_shown");
    const failed = get("_failed");
    const broken = failed?.why && failed.layer === get("layer") && failed.head === get("head") && failed.quantity === get("quantity");
    error.textContent = broken ? `Layer ${failed.layer}, head ${failed.head} could not be shown (${failed.why}). Still shown: layer ${of.layer}, head ${of.head}.` : "";
    root.setAttribute("aria-busy", !broken && !there());
    const titles = heads.length > 1 ? [...get("_names"), "difference"] : [""];
    maps.forEach((map, i) => {
      if (used(map, i)) map.canvas.setAttribute("aria-label", `Attention pattern of layer ${of.layer}, head ${of.head}${titles[i] ? `, ${titles[i]}` : ""}`);
      else map.canvas.removeAttribute("aria-label");
    });
    grid.mark();
  }

  function showScores() {
    const kinds = get("_scores").map(({ name }) => [name, kindLabel(name)]);
    const scatter = get("arrangement") === "scatter";
    score.fill([["", "nothing"], ...kinds]);
    score.show(get("score"));
    ordered.show(get("ordered"));
    minimum.value = get("minimum") ?? "";
    arrangement.show(get("arrangement"));
    [x, y].forEach((box, i) => {
      box.fill(kinds);
      box.show(get("xy"[i]) || kinds[i]?.[0] || kinds[0]?.[0]);
      box.root.hidden = !scatter;
    });
    scoreBar.hidden = !kinds.length;
    ordered.root.hidden = minimum.hidden = !get("score") || scatter;
    minimum.hidden = !get("score");
    grid.arrange();
  }

  // ---- what a person does
  // i: what is pointed at; other: the other end, where a cell is. While something is locked they are what is read out.
  function point(i, other, byKeys) {
    if (chosen().length) source = other >= 0 ? other : i;
    else {
      if (i >= 0) strip.cursor = i;
      source = other;
    }
    refresh();
    if (byKeys) announce();
  }
  function pointCell(q, k) {
    if (byKey()) point(k, q);
    else point(q, k);
  }
  function lock(indices) {
    source = -1;
    const positions = indices.map((i) => get("_positions")[i]);
    choose(model, { queries: positions, query: positions.at(-1) ?? -1 });
    strip.root.focus({ preventScroll: true });
    announce();
  }
  function lockCell(q, k, several) {
    strip.toggle(byKey() ? k : q, several);
  }

  function hideColumn(i, on) {
    const position = get("_positions")[i];
    const others = get("hidden").filter((each) => each !== position);
    choose(model, { hidden: on ? [...others, position].sort((a, b) => a - b) : others });
  }

  function lockHead(chosenHead, selection) {
    const before = preview;
    preview = null;
    choose(model, { ...(chosenHead ? { layer: chosenHead.layer, head: chosenHead.head } : {}), selection });
    if (before) redraw();
  }

  function pointHead(over, byKeys) {
    const before = preview;
    preview = over && !get("selection").length && !(over.layer === get("layer") && over.head === get("head")) ? grid.preview(over) : null;
    if (preview || before) redraw();
    maps[0].caption.textContent = preview ? `layer ${over.layer}, head ${over.head}: a preview` : caption(0);
    if (byKeys) live.textContent = grid.describe(over);
  }

  function announce() {
    const at = looking();
    const [best] = sourcesOf(shown[0], at, byKey());
    const named = (i) => `${tokens()[i]}, position ${get("_positions")[i]}`;
    const value = weightText[columnsThere() ? get("quantity") : "attention"];
    const pointed = source >= 0 ? `; ${named(source)}: ${value(sourcesOf(shown[0], at, byKey()).find(({ key }) => key === source)?.weight ?? 0)}` : "";
    live.textContent = `${at.map(named).join(" and ")}, ${byKey() ? "is attended to most by" : "attends most to"} ${best ? `${named(best.key)}, ${value(best.weight)}` : "nothing"}${chosen().length ? ", locked" : ""}${pointed}`;
  }

  // ---- life
  const later = inTurn(newHeads, newText, newPattern, weighAll, showScores, showChoice, redraw, refresh);
  const text = later(newText, newPattern, weighAll, showChoice, redraw);
  const pattern = later(newPattern, weighAll, showChoice, redraw);
  const weighed = later(weighAll, showChoice, redraw);
  const locked = () => ((source = -1), later(refresh)());
  const scored = later(showScores);
  const chose = later(showChoice);
  const stop = listen(model, {
    _thumbs: later(newHeads, showScores), _heads: later(newHeads, newText, showScores), _tokens: text, _against: text, _positions: text,
    _shown: pattern, _pattern: pattern, _columns: weighed, _columns_of: weighed, _row: weighed, _row_of: weighed,
    hidden: weighed, renormalise: weighed, quantity: weighed, scale: later(showChoice, redraw), direction: later(showChoice, refresh), query: locked, queries: locked,
    layer: chose, head: chose, selection: chose, example: chose, _failed: chose, _note: chose,
    score: scored, ordered: scored, minimum: scored, arrangement: scored, x: scored, y: scored, _scores: scored,
  });
  [newText, newPattern, weighAll, showChoice, showScores].forEach((step) => step());
  const unmount = mount(el, root, (read) => {
    colours = read;
    grid.paint(colours, root.clientWidth);
    redraw();
  });
  return () => {
    stop();
    unmount();
    grid.close();
  };
}

export default { render };

// The dashboard without a kernel: `state` has the traits and, by "layer.head", what a kernel would send.
export function standalone(el, { traits, sent }) {
  const plain = (value) => (value?.base64 === undefined ? value : fromBase64(value.base64));
  const empty = new DataView(new ArrayBuffer(0));
  const values = { _pattern: empty, _columns: empty, _row: empty, _shown: {}, _columns_of: {}, _row_of: {}, _failed: {} };
  for (const [name, value] of Object.entries(traits)) values[name] = plain(value);
  const take = (message, model) => Object.entries(message).forEach(([name, value]) => model.set(name, plain(value)));
  const answer = (name, model) => {
    if (!["layer", "head", "quantity"].includes(name)) return;
    const messages = sent[`${values.layer}.${values.head}`];
    if (!messages) return void model.set("_failed", { layer: values.layer, head: values.head, quantity: values.quantity, why: "it is not in this file" });
    model.set("_failed", {});
    const [pattern, ...columns] = messages;
    if (values._shown.layer !== values.layer || values._shown.head !== values.head) take(pattern, model);
    const wanted = columns.find((message) => message._columns_of.quantity === values.quantity);
    if (wanted && JSON.stringify(values._columns_of) !== JSON.stringify(wanted._columns_of)) take(wanted, model);
  };
  const model = offlineModel(values, answer);
  answer("layer", model);
  return render({ model, el });
}
