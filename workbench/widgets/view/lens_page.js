// One text of a lens: its bytes as arrays, and what can be shown of it. A place is row * columns + column.

// `page` is what `lens_packing.Pages.page` makes; its data are little-endian, as is every machine with a browser.
function readPage(page, rows) {
  const [columns, k, followed] = [page.positions.length, page.k, page.targets.length];
  const { buffer, byteOffset, byteLength } = page.data;
  const bytes = buffer.slice(byteOffset, byteOffset + byteLength); // arrays want an even start
  let start = 0;
  const take = (Kind, each) => {
    const made = new Kind(bytes, start, rows * columns * each);
    start += made.byteLength;
    return made;
  };
  const [logprobs, entropy, kl, nextLogprobs] = [k, 1, 1, 1].map((each) => take(Float32Array, each));
  const targetLogprobs = take(Float32Array, followed);
  const [nextRanks, targetRanks] = [1, followed].map((each) => take(Int32Array, each));
  const top = take(page.index === "uint16" ? Uint16Array : Uint32Array, k);
  const rank = (value) => (value < 0 ? NaN : value);
  return {
    ...page, rows, columns, entropy, kl,
    word: (token) => page.words[token],
    token: (place, n = 0) => top[place * k + n],
    logprob: (place, n = 0) => logprobs[place * k + n],
    next: (place) => page.next[place % columns],
    nextLogprob: (place) => nextLogprobs[place],
    nextRank: (place) => rank(nextRanks[place]),
    targetLogprob: (place, target) => targetLogprobs[place * followed + target] ?? NaN,
    targetRank: (place, target) => rank(targetRanks[place * followed + target] ?? NaN),
    right: (place) => top[place * k] === page.next[place % columns],
  };
}

// What the colours can say: `at` gives the value of a place (NaN: none); `most` the end of the scale, `share` how strong
// a value looks on it. Ranks and divergences run over orders of magnitude and are drawn by logarithm, a rank strong where
// it is small.
const probability = { most: () => 1, share: (value) => value, written: (value) => `${percent(value)} %` };
const nats = { most: largest, share: (value, most) => value / most, written: (value) => `${value.toFixed(2)} nats` };
const divergence = { ...nats, share: (value, most) => Math.log1p(value) / Math.log1p(most) };
const rank = {
  most: (at, places) => Math.max(9, largest(at, places)),
  share: (value, most) => 1 - Math.log1p(value) / Math.log1p(most),
  written: (value) => `${value}`,
};
const LENS_SHOWS = {
  prob: { ...probability, name: "probability of the top token", at: (page, place) => Math.exp(page.logprob(place)) },
  rank: { ...rank, name: "rank of the next token", at: (page, place) => page.nextRank(place) },
  entropy: { ...nats, name: "entropy", at: (page, place) => page.entropy[place] },
  kl: { ...divergence, name: "KL from the final output", at: (page, place) => page.kl[place] },
  target_prob: { ...probability, name: "probability of the target", at: (page, place, target) => Math.exp(page.targetLogprob(place, target)) },
  target_rank: { ...rank, name: "rank of the target", at: (page, place, target) => page.targetRank(place, target) },
};

function largest(at, places) {
  let most = 0;
  for (let place = 0; place < places; place++) if (at(place) > most) most = at(place);
  return most || 1;
}

// Three figures, as "41.2", "0.0123" or "1.2e-7".
function percent(share) {
  const value = 100 * share;
  if (!(value >= 0.001)) return value > 0 ? value.toExponential(1) : "0";
  return value >= 99.95 ? "100" : value.toPrecision(3);
}

// The table that `LensDashboard.to_dataframe` gives, with visible texts.
function lensRows(page, labels, targets) {
  const short = (value) => (Number.isNaN(value) ? "" : Number(value.toPrecision(7)));
  const whole = (value) => (Number.isNaN(value) ? -1 : value);
  const head = ["example", "layer", "pos", "token", "top", "logprob", "entropy", "kl", "next_logprob", "next_rank"];
  const rows = [[...head, ...targets.flatMap((text) => [`logprob of ${text}`, `rank of ${text}`])]];
  for (let place = 0; place < page.rows * page.columns; place++) {
    const column = place % page.columns;
    rows.push([
      page.example, labels[Math.floor(place / page.columns)], page.positions[column], page.prompt[column],
      page.word(page.token(place)), short(page.logprob(place)), short(page.entropy[place]), short(page.kl[place]),
      short(page.nextLogprob(place)), whole(page.nextRank(place)),
      ...targets.flatMap((_, t) => [short(page.targetLogprob(place, t)), whole(page.targetRank(place, t))]),
    ]);
  }
  return rows;
}
