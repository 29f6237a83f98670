// The lens dashboard: layers by positions with the top token of each place, what the place looked at says in full, and
// how sure the layers become of a token.
//
// The model has `example`, `show`, `target`, `layer` and `pos` (the locked cell, -1 for none), the names `_labels`,
// `_targets` and `_examples` ([number, name]), a `_note`, and the `_page` of one example. Pointing stays in here.

const TEXTED = 64; // positions up to which tokens are written into cells
const WIDEST = 72; // px of a cell
const LEAST = { texted: 36, plain: 4 }; // px of a cell, below which the map scrolls
const SCROLLED = { texted: 48, plain: 4 }; // px of a cell then
const CANVAS = 8192; // px of a canvas, whatever the cells
const TALL = 620; // px that rows share
const GUESSES = 12; // top tokens listed
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
    showScale(view.scale, show(), mostOf(show(), value, page), rampOf(page, colours));
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
    if (to && byKey && locked()) chosen(to, null, true);
    else if (to && !locked() && (to[0] !== cell[0] || to[1] !== cell[1])) {
      cell = to;
      refresh();
    } else map.point(cell);
    if (byKey) announce();
  }

  function chosen([row, column], event, moved = false) {
    const same = locked() && row === cell[0] && column === cell[1];
    cell = [row, column];
    if (same && !moved) choose(model, { layer: -1, pos: -1 });
    else choose(model, { layer: row, pos: page.positions[column] });
    if (event) announce();
  }

  function escaped() {
    if (!locked()) return;
    choose(model, { layer: -1, pos: -1 });
    announce();
  }

  function announce() {
    const [row, column] = cell;
    const at = place(cell);
    const shown = value(at);
    view.live.textContent = [
      `${labels[row]}, after ${page.prompt[column]} at ${page.positions[column]}: ${page.word(page.token(at))}`,
      `${percent(Math.exp(page.logprob(at)))} %${page.right(at) ? ", as the text goes on" : ""}`,
      ...(model.get("show") === "prob" || Number.isNaN(shown) ? [] : [`${show().name} ${show().written(shown)}`]),
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

  view.png.addEventListener("click", () => savePicture(map.canvas, page, labels, show().name, readColours(view.root)));
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

function showScale(scale, show, most, ramp) {
  const [weak, strong] = show.share(0, most) > 0.5 ? [most, 0] : [0, most];
  const bar = element("i", {});
  bar.style.background = `linear-gradient(to right, ${[0, 0.2, 0.4, 0.6, 0.8, 1].map((s) => css(ramp(s))).join(", ")})`;
  scale.replaceChildren(show.written(weak), bar, show.written(strong));
  scale.setAttribute("aria-label", `Colours go from ${show.written(weak)} to ${show.written(strong)}, the strongest`);
}

// ---- the map ---------------------------------------------------------------------------------------------

// Pale colours are behind words, full ones where there are none.
const rampOf = (page, colours) => (page.columns <= TEXTED ? colours.pale : colours.weight);
const mostOf = (show, value, page) => show.most(value, page.rows * page.columns);

function cellWidth(columns, room, kind) {
  const fitting = Math.floor(room / columns);
  if (fitting >= LEAST[kind]) return Math.min(fitting, WIDEST);
  return Math.max(1, Math.min(SCROLLED[kind], Math.floor(CANVAS / columns)));
}

function drawLens(map, page, labels, show, value, colours, room) {
  const texted = page.columns <= TEXTED;
  const width = cellWidth(page.columns, room, texted ? "texted" : "plain");
  const height = clamp(Math.floor(TALL / page.rows), texted ? 16 : 8, 22);
  const ramp = rampOf(page, colours);
  const most = mostOf(show, value, page);
  const place = (row, column) => row * page.columns + column;
  const tint = (row, column) => {
    const at = value(place(row, column));
    return Number.isNaN(at) ? null : ramp(show.share(at, most));
  };
  const text = (row, column) => {
    const at = place(row, column);
    return shorten(page.word(page.token(at)), lettersIn(width) - (page.right(at) ? 1 : 0));
  };
  map.draw({ rows: labels, columns: page.prompt, width, height, colour: tint, text: texted ? text : undefined, colours, room });
  drawStars(map.canvas.getContext("2d"), page, tint, width, height, texted, colours);
}

// A star, beside the token or alone; a dot where cells are too small for one.
function drawStars(pen, page, tint, width, height, texted, colours) {
  if (Math.min(width, height) < 4) return;
  pen.font = `9px ${colours.mono}`;
  pen.textBaseline = "middle";
  const small = Math.min(width, height) < 10;
  for (let row = 0; row < page.rows; row++)
    for (let column = 0; column < page.columns; column++) {
      if (!page.right(row * page.columns + column)) continue;
      pen.fillStyle = onTop(tint(row, column) ?? colours.field);
      const [left, middle] = [column * width, (row + 0.5) * height];
      if (small) pen.fillRect(Math.floor(left + width / 2 - 1), Math.floor(middle - 1), 2, 2);
      else pen.fillText("★", texted ? left + width - 11 : left + width / 2 - 4, middle + 0.5);
    }
}

// The map with its edges, as a picture.
function savePicture(map, page, labels, title, colours) {
  const ratio = map.width / Number.parseFloat(map.style.width);
  const [across, down] = [map.width / ratio, map.height / ratio];
  const [left, top, below] = [72, 30, 96];
  const sheet = element("canvas", {});
  const pen = sized(sheet, left + Math.max(across, 240) + 16, top + down + below);
  pen.fillStyle = css(colours.field);
  pen.fillRect(0, 0, left + Math.max(across, 240) + 16, top + down + below);
  pen.drawImage(map, left, top, across, down);
  pen.fillStyle = css(colours.ink);
  pen.textBaseline = "middle";
  pen.font = "13px sans-serif";
  pen.fillText(`logit lens: ${title}`, left, top / 2);
  pen.font = `11px ${colours.mono}`;
  pen.textAlign = "right";
  const [height, width] = [down / page.rows, across / page.columns];
  const [everyRow, everyColumn] = [height, width].map((size) => Math.ceil(LABEL_STEP / size));
  labels.forEach((label, row) => row % everyRow || pen.fillText(label, left - 6, top + (row + 0.5) * height));
  page.prompt.forEach((token, column) => {
    if (column % everyColumn) return;
    pen.save();
    pen.translate(left + (column + 0.5) * width, top + down + 6);
    pen.rotate(-Math.PI / 2);
    pen.fillText(shorten(token, 12), 0, 0);
    pen.restore();
  });
  sheet.toBlob((made) => download("lens.png", made, "image/png"));
}

// ---- the readout -----------------------------------------------------------------------------------------

function fillReadout(root, page, [row, column], labels, targets, target, locked) {
  const at = row * page.columns + column;
  const followed = [
    ["★", "next token", page.next(at), page.nextRank(at), page.nextLogprob(at)],
    ["◆", "target", page.targets[target], page.targetRank(at, target), page.targetLogprob(at, target)],
  ];
  const marks = (token) => followed.filter(([, , other]) => other === token).map(([mark]) => mark).join("");
  const guesses = Array.from({ length: Math.min(page.k, GUESSES) }, (_, n) => {
    const [token, share] = [page.token(at, n), Math.exp(page.logprob(at, n))];
    const bar = element("i", {});
    bar.style.width = `${100 * share}%`;
    return element("tr", {}, wordCell(page.word(token), "", marks(token)),
      element("td", { class: "wb-share" }, bar), element("td", { class: "wb-number" }, `${percent(share)} %`));
  });
  root.replaceChildren(
    element("p", { "data-testid": "looked-at" }, tokenText(shorten(page.prompt[column], 40), "wb-looking"),
      ` at ${page.positions[column]}, ${labels[row]}`, ...(locked ? [element("span", { class: "wb-lock" }, "locked")] : [])),
    element("table", { "data-testid": "guesses", "aria-label": "Most probable tokens" }, element("tbody", {}, ...guesses)),
    element("table", { class: "wb-followed", "data-testid": "followed", "aria-label": "Tokens that are followed" },
      element("colgroup", {}, element("col", {}), element("col", { class: "wb-number" }), element("col", { class: "wb-number" })),
      element("tbody", {}, ...followed.filter(([mark]) => mark === "★" || targets.length).map((entry) => followedRow(page, ...entry)))),
    element("p", { "data-testid": "spread" }, `entropy ${page.entropy[at].toFixed(2)}, KL from the final output ${page.kl[at].toFixed(2)} nats`));
}

// A token between words; a long one is cut off at the cell's end by the style sheet.
function wordCell(word, before, after = "") {
  const parts = [...(before ? [element("span", {}, `${before} `)] : []), tokenText(word), ...(after ? [element("span", {}, ` ${after}`)] : [])];
  return element("td", { title: word }, element("div", { class: "wb-word" }, ...parts));
}

function followedRow(page, mark, name, token, rank, logprob) {
  if (token < 0) return element("tr", {}, element("td", { colspan: "3", class: "wb-soft" }, "★ no next token: the text ends here"));
  return element("tr", {},
    wordCell(page.word(token), `${mark} ${name}`),
    element("td", { class: "wb-number" }, `rank ${rank}`),
    element("td", { class: "wb-number" }, `${percent(Math.exp(logprob))} %`));
}

// The lines of one position. Where the text has no next token and nothing is followed, the answer that the model ends
// with: known where it is among the top tokens.
function chartOf(page, [row, column], labels, targets, target, ranked, most) {
  const places = labels.map((_, r) => r * page.columns + column);
  const line = (kind, name, token, ranks, logprobs) => ({
    kind, name, text: page.word(token), values: places.map((at) => (ranked ? ranks(at) : Math.exp(logprobs(at)))),
  });
  const lines = [];
  if (page.next(column) >= 0) lines.push(line("next", "★ next token", page.next(column), page.nextRank, page.nextLogprob));
  if (targets.length)
    lines.push(line("target", "◆ target", page.targets[target], (at) => page.targetRank(at, target), (at) => page.targetLogprob(at, target)));
  if (!lines.length) {
    const answer = page.token(places.at(-1));
    const found = (at) => Array.from({ length: page.k }, (_, n) => n).find((n) => page.token(at, n) === answer) ?? NaN;
    lines.push(line("said", `the model's answer, where in its top ${page.k}:`, answer, found, (at) => page.logprob(at, found(at))));
  }
  return { lines, labels, row, ranked, most };
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
