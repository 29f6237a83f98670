// The lens dashboard: layers by positions with the top token of each place, what the place looked at says in full, and
// how sure the layers become of a token.
//
// The model has `example`, `show`, `target`, `layer` and `pos` (the locked cell, -1 for none), the names `_labels`,
// `_targets` and `_examples` ([number, name]), a `_note`, and the `_page` of one example. Pointing stays in here.

const [SIDE, BETWEEN, NARROW, EDGES] = [344, 24, 760, 95]; // px: the readout, the gap to it, where it goes below, labels

function render({ model, el }) {
  const labels = model.get("_labels");
  const targets = model.get("_targets");
  const view = lensView(model, labels, targets, { pointed, chosen, escaped });
  const { map } = view;
  let page = readPage(model.get("_page"), labels.length);
  let cell = [labels.length - 1, page.columns - 1]; // last looked at, as [row, column]
  let opened = false;
  let width = NARROW; // px of the page
  let most = 9; // the largest rank that a chart shows

  const show = () => LENS_SHOWS[model.get("show")];
  const target = () => model.get("target");
  const place = ([row, column]) => row * page.columns + column;
  const value = (at) => show().at(page, at, target());

  function locked() {
    const [row, column] = [model.get("layer"), page.positions.indexOf(model.get("pos"))];
    return row >= 0 && column >= 0 ? [row, column] : null;
  }

  function redraw(colours) {
    width = view.body.clientWidth || width; // a notebook that changes its theme may show nothing for a moment
    const narrow = width < NARROW;
    view.root.classList.toggle("wb-narrow", narrow);
    const room = width - EDGES - (narrow ? 0 : SIDE + BETWEEN);
    drawLens(map, page, labels, show(), value, colours, room);
    showScale(view.scale, show(), scaleOf(show(), value, page), rampOf(page, colours));
    most = Math.max(...["rank", "target_rank"].map((name) => mostOf(LENS_SHOWS[name], (at) => LENS_SHOWS[name].at(page, at, target()), page)));
    refresh();
    if (!opened) map.reveal();
    opened = true;
  }

  function refresh() {
    cell = locked() ?? cell;
    map.point(cell);
    map.lock(locked());
    fillReadout(view.readout, page, cell, labels, targets, target(), Boolean(locked()));
    view.chart.draw(chartOf(page, cell, labels, targets, target(), model.get("show").endsWith("rank"), most));
  }

  function pointed(to, byKey) {
    if (to && byKey && locked()) lockAt(to);
    else if (to && (to[0] !== cell[0] || to[1] !== cell[1])) {
      cell = to;
      refresh();
    } else map.point(cell);
    if (byKey) announce();
  }

  const lockAt = ([row, column]) => choose(model, { layer: row, pos: page.positions[column] });
  const unlock = () => choose(model, { layer: -1, pos: -1 });

  function chosen(to) {
    if (locked() && to[0] === cell[0] && to[1] === cell[1]) unlock();
    else lockAt(to);
    announce();
  }

  function escaped() {
    if (!locked()) return;
    unlock();
    announce();
  }

  function announce() {
    const [row, column] = cell;
    const at = place(cell);
    const shown = value(at);
    view.live.textContent = [
      `${labels[row]}, after ${page.prompt[column]} at ${page.positions[column]}: ${page.word(page.token(at))}`,
      `${percent(Math.exp(page.logprob(at)))} %${page.right(at) ? ", as the text goes on" : ""}`,
      ...(model.get("show") === "prob" || Number.isNaN(shown) ? [] : [`${show().name}: ${show().written(shown)}`]),
      ...(locked() ? ["locked"] : []),
    ].join(", ");
  }

  function turned() {
    page = readPage(model.get("_page"), labels.length);
    cell = [cell[0], Math.min(cell[1], page.columns - 1)];
    settled();
  }

  // The kernel may take a while to send the page of an example that was chosen.
  function named() {
    view.settle(model);
    view.root.setAttribute("aria-busy", model.get("example") !== page.example);
  }

  function settled() {
    named();
    if (view.root.isConnected) redraw(readColours(view.root));
  }

  view.png.addEventListener("click", () => savePicture(map.canvas, page, labels, titleOf(show(), value, page), readColours(view.root)));
  view.csv.addEventListener("click", () => download("lens.csv", csvText(lensRows(page, labels, targets)), "text/csv"));
  const unlisten = listen(model, { example: named, show: settled, target: settled, layer: refresh, pos: refresh, _page: turned });
  view.settle(model);
  const unmount = mount(el, view.root, redraw);
  return () => {
    unlisten();
    unmount();
  };
}

// ---- the page --------------------------------------------------------------------------------------------

function lensView(model, labels, targets, { pointed, chosen, escaped }) {
  const options = (given) => given.map(([number, name]) => [number, `${number}: ${name}`]);
  const shows = Object.entries(LENS_SHOWS).filter(([name]) => targets.length || !name.startsWith("target"));
  const numbered = targets.map((text, i) => [i, text]);
  const examples = model.get("_examples");
  const example = selectBox("example-select", "Text", options(examples), (value) => choose(model, { example: Number(value) }));
  const show = selectBox("show-select", "Colour", shows.map(([name, { name: text }]) => [name, text]), (value) => choose(model, { show: value }));
  const target = selectBox("target-select", "Target", numbered, (value) => choose(model, { target: Number(value) }));
  example.root.hidden = examples.length < 2;
  target.root.hidden = !targets.length;
  const png = button("png-button", "PNG", () => {}, "Save the map as a picture");
  const csv = button("csv-button", "CSV", () => {}, "Save the numbers as a table");
  const scale = element("span", { class: "wb-scale", role: "img", "data-testid": "scale" });
  const star = element("span", { class: "wb-soft" }, "★ the text goes on with the top token");
  const map = cellMap({ testid: "lens-map", name: "Top token by layer and position", down: "layer", across: "position", pointed, chosen, escaped });
  const readout = element("div", { class: "wb-readout", "data-testid": "readout" });
  const chart = layerChart();
  const live = element("div", { class: "wb-live", "aria-live": "polite", "data-testid": "live" });
  const body = element("div", { class: "wb-body" }, map.root, element("div", { class: "wb-side" }, readout, chart.root));
  const root = element("div", { class: "wb-view wb-lens" },
    element("div", { class: "wb-bar" }, example.root, show.root, target.root, element("span", { class: "wb-buttons" }, png, csv)),
    element("p", { class: "wb-note" }, model.get("_note") ?? ""),
    element("div", { class: "wb-bar" }, scale, star),
    body, live);
  const settle = (from) => {
    example.show(from.get("example"));
    show.show(from.get("show"));
    target.show(from.get("target"));
  };
  return { root, body, map, readout, chart, scale, live, png, csv, settle };
}

function showScale(scale, show, [weak, strong], ramp) {
  const bar = element("i", {});
  bar.style.background = `linear-gradient(to right, ${[0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => css(ramp(share))).join(", ")})`;
  scale.replaceChildren(weak, bar, strong);
  scale.setAttribute("aria-label", `${show.name}: colours go from ${weak} to ${strong}, the strongest`);
}

// ---- without a kernel ------------------------------------------------------------------------------------

export function standalone(el, { traits, pages }) {
  const open = (example) => ({ ...pages[example], data: fromBase64(pages[example].data) });
  const model = offlineModel({ ...traits, _page: open(traits.example) }, (name) => {
    if (name === "example") model.set("_page", open(model.get("example")));
  });
  render({ model, el });
}

export default { render };
