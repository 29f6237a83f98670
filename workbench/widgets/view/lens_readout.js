// What one place of a lens says, in full, and the lines of its position over layers.

const GUESSES = 12; // top tokens listed

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
