// Every head as a thumbnail: layers to the right, heads down, heads that share keys and values together; or in order of
// a score; or as points over two scores. Click or Enter locks a head, with Ctrl, Shift or Space several; again or Escape
// unlocks. Pointing at one previews it while none is locked.

const KINDS = {
  previous_token: "previous token", duplicate_token: "duplicate token", induction: "induction", first_token: "first token",
  entropy: "entropy", difference: "difference of the runs", direct_logit: "direct contribution to the logit",
};
const POINT = 22; // px of a thumbnail that is a point of a scatter
const BADGED = 56; // px, at least, of one with its name and score in full under it
const kindLabel = (name) => KINDS[name] ?? name.replaceAll("_", " ");
const scoreText = (value, digits = 3) => (value === null || value === undefined ? "–" : Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(digits).replace("-", "−"));

function headGrid(model, { pointed, chosen }) {
  const id = uniqueId();
  const grid = element("div", { class: "wb-heads", role: "listbox", tabindex: "0", "aria-multiselectable": "true", "data-testid": "head-grid",
    "aria-label": "Heads: arrow keys move, Enter locks, Space adds, Escape unlocks" });
  const info = element("div", { class: "wb-info wb-soft", "data-testid": "head-info" });
  const axes = [element("span", { class: "wb-axis-x wb-soft", "aria-hidden": "true" }), element("span", { class: "wb-axis-y wb-soft", "aria-hidden": "true" })];
  const root = element("div", { class: "wb-headbox" }, grid, info);
  let heads = []; // {layer, head, kv, i, option, thumb, badge}
  let shown = []; // those not filtered out, in the order of the arrow keys
  let thumbs;
  let colours = null;
  let columns = 1;
  // The address of one picture of all thumbnails: a canvas each would be a layer each, and every frame 20 ms and more.
  let sheet = null;
  let covered = 0; // cells of each in it
  let fitting = 18; // px of a thumbnail
  let cursor = 0; // place in `heads`

  function build() {
    thumbs = decodeThumbs(model);
    covered = 0;
    const layers = [...new Set(model.get("_heads").map(([layer]) => layer))];
    const numbers = [...new Set(model.get("_heads").map(([, head]) => head))].sort((a, b) => a - b);
    heads = model.get("_heads").map(([layer, head, kv], i) => {
      const thumb = element("i", { class: "wb-thumb", "aria-hidden": "true" });
      const badge = element("span", { class: "wb-badge", "aria-hidden": "true" });
      const option = element("div", { id: `${id}-${i}`, role: "option", tabindex: "-1", class: "wb-head", "data-testid": `head-${layer}-${head}` }, thumb, badge);
      return { layer, head, kv, i, option, thumb, badge, column: layers.indexOf(layer), row: numbers.indexOf(head) };
    });
    grid.style.setProperty("--wb-columns", layers.length);
    columns = layers.length;
    labels = [
      ...layers.map((layer, column) => place(element("span", { class: "wb-headlabel", "aria-hidden": "true" }, `${layer}`), 1, column + 2)),
      ...numbers.map((head, row) => place(element("span", { class: "wb-headlabel", "aria-hidden": "true" }, `${head}`), row + 2, 1)),
      place(element("span", { class: "wb-headlabel wb-corner", "aria-hidden": "true" }, "head╲layer"), 1, 1),
    ];
    cursor = 0;
  }
  let labels = [];
  const place = (made, row, column) => {
    [made.style.gridRow, made.style.gridColumn] = [row, column];
    return made;
  };

  const scoreNamed = (name) => model.get("_scores").find((score) => score.name === name);
  const valueOf = (score, head) => score?.values[head.i] ?? null;

  function describe(head) {
    const scores = model.get("_scores").map((score) => `${kindLabel(score.name)} ${scoreText(valueOf(score, head))}${score.chance ? ` (chance ${Number(score.chance.toPrecision(2))})` : ""}`);
    return [`Layer ${head.layer}, head ${head.head}`, ...(head.kv >= 0 ? [`kv head ${head.kv}`] : []), ...scores].join(" · ");
  }

  // Order, filter and arrangement, after a change of choices.
  function arrange() {
    const score = scoreNamed(model.get("score"));
    const least = model.get("minimum");
    const kept = (head) => !score || least === null || least === undefined || (valueOf(score, head) ?? -Infinity) >= least;
    const scatter = model.get("arrangement") === "scatter";
    const ordered = model.get("ordered") && score && !scatter;
    shown = heads.filter(kept);
    if (ordered) shown.sort((a, b) => (valueOf(score, b) ?? -Infinity) - (valueOf(score, a) ?? -Infinity) || a.i - b.i);
    grid.classList.toggle("wb-flow", Boolean(ordered));
    grid.classList.toggle("wb-scatter", scatter);
    grid.classList.toggle("wb-scored", Boolean(score) && !scatter);
    for (const head of heads) {
      head.option.setAttribute("aria-label", describe(head));
      head.badge.textContent = ordered ? `${head.layer}.${head.head} ${scoreText(valueOf(score, head))}` : score ? scoreText(valueOf(score, head), 2) : "";
      head.option.style.cssText = "";
      if (!scatter && !ordered) {
        place(head.option, head.row + 2, head.column + 2);
        const last = heads.every((other) => other.layer !== head.layer || other.row !== head.row + 1 || other.kv === head.kv);
        head.option.classList.toggle("wb-groupend", head.kv >= 0 && !last);
      }
    }
    if (scatter) scatterOut();
    cover();
    grid.replaceChildren(...(scatter ? axes : ordered ? [] : labels), ...shown.map((head) => head.option));
    tint();
    if (!shown.includes(heads[cursor])) cursor = shown[0]?.i ?? 0;
    mark();
    note();
  }

  function scatterOut() {
    const [x, y] = ["x", "y"].map((axis, i) => scoreNamed(model.get(axis)) ?? model.get("_scores")[i] ?? model.get("_scores")[0]);
    const spread = (score) => {
      const values = shown.map((head) => valueOf(score, head) ?? 0);
      const [low, high] = [Math.min(0, ...values), Math.max(...values, 1e-9)];
      return { low, high, share: (head) => ((valueOf(score, head) ?? 0) - low) / (high - low) };
    };
    const [across, up] = [spread(x), spread(y)];
    for (const head of shown) {
      head.option.style.left = `${5 + 91 * across.share(head)}%`;
      head.option.style.bottom = `${11 + 83 * up.share(head)}%`;
    }
    axes[0].textContent = `${kindLabel(x?.name ?? "")} → (${scoreText(across.low)} to ${scoreText(across.high)})`;
    axes[1].textContent = `${kindLabel(y?.name ?? "")} → (${scoreText(up.low)} to ${scoreText(up.high)})`;
  }

  // The score as a colour, beside its number: under a thumbnail, or around a point.
  function tint() {
    const score = scoreNamed(model.get("score"));
    const most = score ? Math.max(...score.values.map((value) => Math.abs(value ?? 0)), 1e-9) : 1;
    const negative = score?.values.some((value) => value < 0);
    for (const head of heads) {
      const share = (valueOf(score, head) ?? 0) / most;
      const filled = score && colours ? (negative ? colours.signed(share) : colours.weight(share)) : null;
      head.option.style.setProperty("--wb-tint", filled ? css(filled) : "var(--wb-line)");
      head.option.style.setProperty("--wb-on-tint", filled ? onTop(filled) : "var(--wb-soft)");
    }
  }

  // Thumbnails as large as lets all layers stand side by side; where that is too small to see, the grid scrolls.
  function paint(read, width) {
    colours = read;
    covered = 0;
    fitting = clamp(Math.floor((width - 84) / columns) - 3, 18, 64);
    tint();
    cover();
  }

  // Pictures of as many cells as there are pixels: of more, a browser would leave some out.
  function cover() {
    const arranged = (as) => grid.classList.contains(as);
    const size = arranged("wb-scatter") ? POINT : arranged("wb-flow") ? Math.max(fitting, BADGED) : fitting;
    grid.style.setProperty("--wb-size", `${size}px`);
    const cells = Math.min(thumbs.side, Math.round(size * (globalThis.devicePixelRatio || 1)));
    if (!colours || cells === covered) return;
    covered = cells;
    const across = Math.ceil(Math.sqrt(heads.length));
    const down = Math.ceil(heads.length / across);
    const share = (at, n) => (n > 1 ? `${(100 * at) / (n - 1)}%` : "0");
    for (const head of heads) head.thumb.style.backgroundPosition = `${share(head.i % across, across)} ${share(Math.floor(head.i / across), down)}`;
    close();
    const palette = [colours.paper, ...Array.from({ length: 255 }, (_, i) => colours.weight((i + 1) / 255))];
    sheet = URL.createObjectURL(bitmap(thumbs.sheet(across, down, cells), across * cells, palette));
    grid.style.setProperty("--wb-thumbs", `url(${sheet})`);
    grid.style.setProperty("--wb-thumbs-size", `${100 * across}% ${100 * down}%`);
  }
  const close = () => sheet && URL.revokeObjectURL(sheet);

  const isLocked = (head) => model.get("selection").some(([layer, number]) => layer === head.layer && number === head.head);
  const isChosen = (head) => head.layer === model.get("layer") && head.head === model.get("head");

  function mark() {
    for (const head of heads) {
      const locked = isLocked(head);
      head.option.setAttribute("aria-selected", locked);
      head.option.classList.toggle("wb-lockedhead", locked);
      head.option.classList.toggle("wb-chosen", isChosen(head));
      if (isChosen(head)) head.option.setAttribute("aria-current", "true");
      else head.option.removeAttribute("aria-current");
    }
    const at = heads[cursor];
    if (at && shown.includes(at)) grid.setAttribute("aria-activedescendant", at.option.id);
    else grid.removeAttribute("aria-activedescendant");
  }

  function note(head = heads.find(isChosen)) {
    const locked = model.get("selection").length;
    const hidden = heads.length - shown.length;
    const parts = [head ? describe(head) : "", locked ? `${plural(locked, "head")} locked` : "", hidden ? `${hidden} below the least score are not shown` : ""];
    info.textContent = parts.filter(Boolean).join(" · ");
  }

  function toggle(head, several) {
    cursor = head.i;
    const others = model.get("selection").filter(([layer, number]) => layer !== head.layer || number !== head.head);
    const locked = isLocked(head);
    if (several) chosen(head, locked ? others : [...others, [head.layer, head.head]]);
    else chosen(head, locked && !others.length ? [] : [[head.layer, head.head]]);
  }

  function step(key) {
    const at = shown.indexOf(heads[cursor]);
    if (key === "Home") return shown[0];
    if (key === "End") return shown.at(-1);
    const free = model.get("arrangement") === "scatter" || grid.classList.contains("wb-flow");
    const ways = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
    if (!ways) return undefined;
    if (free && !ways[0]) return shown[clamp(at + ways[1], 0, shown.length - 1)];
    if (free) return nearest(heads[cursor], ways[0]);
    const here = heads[cursor];
    const ahead = shown.filter((head) => (ways[0] ? head.column === here.column && (head.row - here.row) * ways[0] > 0 : head.row === here.row && (head.column - here.column) * ways[1] > 0));
    return ahead.sort((a, b) => Math.abs(a.row - here.row) + Math.abs(a.column - here.column) - Math.abs(b.row - here.row) - Math.abs(b.column - here.column))[0] ?? here;
  }

  // The next one above or below on the page.
  function nearest(from, way) {
    const box = (head) => head.option.getBoundingClientRect();
    const here = box(from);
    const ahead = shown.filter((head) => (box(head).top - here.top) * way > 2);
    const far = (head) => Math.abs(box(head).left - here.left) + 4 * Math.abs(box(head).top - here.top);
    return ahead.sort((a, b) => far(a) - far(b))[0] ?? from;
  }

  const headAt = (event) => heads.find((head) => head.option === event.target.closest?.("[role=option]"));
  grid.addEventListener("click", (event) => {
    const head = headAt(event);
    if (head) toggle(head, event.ctrlKey || event.metaKey || event.shiftKey);
  });
  grid.addEventListener("pointerover", (event) => {
    const head = headAt(event);
    if (!head) return;
    note(head);
    pointed(head);
  });
  grid.addEventListener("pointerleave", () => {
    note();
    pointed(null);
  });
  grid.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    cursor = headAt(event)?.i ?? cursor;
    const to = step(event.key);
    if (to) {
      cursor = to.i;
      mark();
      to.option.scrollIntoView({ block: "nearest", inline: "nearest" });
      if (document.activeElement !== grid) to.option.focus({ preventScroll: true });
      note(to);
      pointed(to, true);
    } else if (event.key === "Enter" || event.key === " ") {
      if (shown.includes(heads[cursor])) toggle(heads[cursor], event.key === " ");
    } else if (event.key === "Escape" && model.get("selection").length) chosen(null, []);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  grid.addEventListener("focusin", () => grid.classList.add("wb-focused"));
  grid.addEventListener("focusout", () => {
    grid.classList.remove("wb-focused");
    note();
    pointed(null);
  });
  build();
  return { root, build, arrange, paint, close, mark: () => (mark(), note()), describe, preview: (head) => thumbs.of(head.i) };
}
