// The numbers of an attention view: patterns from bytes, and what of them is shown.

// {n, half, at(query, key)} of bytes; `half`: keys end at the query.
function decodePattern(bytes, n, { dtype, half }) {
  const values = dtype === "uint16" ? new Uint16Array(bytes) : new Float32Array(bytes);
  const weight = dtype === "uint16" ? (i) => (values[i] / 65535) * (values[i] / 65535) : (i) => values[i];
  const within = dtype === "uint16"; // 16 bits hold nothing beyond 1
  if (!half) return { n, half, within, at: (q, k) => weight(q * n + k) };
  return { n, half, within, at: (q, k) => (k > q ? 0 : weight((q * (q + 1)) / 2 + k)) };
}

const bytesOf = (view) => view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);

// The patterns of one head, one for each run.
function decodeHead(model, n) {
  const bytes = bytesOf(model.get("_pattern"));
  let start = 0;
  return model.get("_shown").parts.map((part) => {
    const own = bytes.slice(start, start + part.bytes);
    start += part.bytes;
    return decodePattern(own, n, part);
  });
}

// Thumbnails: {side, of(i) -> pattern} by the head's place among all.
function decodeThumbs(model) {
  const { side, half } = model.get("_thumbs_of");
  const values = new Uint8Array(bytesOf(model.get("_thumbs")));
  const size = half ? (side * (side + 1)) / 2 : side * side;
  const at = (i, row, column) => values[i * size + (half ? (row * (row + 1)) / 2 + column : row * side + column)];
  const of = (i) => ({
    rows: side, columns: side, half,
    end: (row) => (half ? row + 1 : side),
    at: (row, column) => (at(i, row, column) / 255) ** 2,
  });
  // All of them side by side, of `cells` x `cells` bytes each, the largest where several fall together; 0 where none is.
  const sheet = (across, down, cells) => {
    const bytes = new Uint8Array(across * cells * down * cells);
    const place = Int32Array.from({ length: side }, (_, at) => Math.floor((at * cells) / side));
    for (let i = 0, k = 0; k < values.length; i++)
      for (let row = 0; row < side; row++) {
        const start = ((Math.floor(i / across) * cells + place[row]) * across + (i % across)) * cells;
        for (let column = 0, end = half ? row + 1 : side; column < end; column++) {
          const to = start + place[column];
          bytes[to] = Math.max(1, bytes[to], values[k++]);
        }
      }
    return bytes;
  };
  return { side, half, of, sheet };
}

// What is shown of a pattern: columns hidden, rows perhaps divided by what remains, columns weighed, at one query only.
// `exact(q, k)` is the weight of a locked row (or column) as it is, undefined for others.
function weigh(pattern, { hidden, renormalise, factors, only, exact }) {
  const { n, half } = pattern;
  const end = (q) => (half ? q + 1 : n);
  const raw = exact ? (q, k) => exact(q, k) ?? pattern.at(q, k) : pattern.at;
  const sums = new Map(); // of the rows that were asked for
  const sum = (q) => {
    if (!sums.has(q)) {
      let total = 0;
      for (let k = 0; k < end(q); k++) if (!hidden.has(k)) total += raw(q, k);
      sums.set(q, total);
    }
    return sums.get(q);
  };
  const kept = hidden.size ? (q, k) => (hidden.has(k) ? 0 : raw(q, k)) : raw;
  const divided = renormalise && hidden.size ? (q, k) => (sum(q) > 0 ? kept(q, k) / sum(q) : 0) : kept;
  const at = factors ? (q, k) => divided(q, k) * factors[k] : divided;
  const there = only === undefined ? at : (q, k) => (q === only ? at(q, k) : 0);
  return { n, half, within: pattern.within, rows: n, columns: n, end, at: there, hides: (k) => hidden.has(k), only };
}

// The largest size of what is shown; 1 for attention as it is, so that patterns compare.
function mostOf(shown, plain) {
  let most = plain ? 1 : 0;
  if (plain && shown.within) return 1;
  const rows = shown.only === undefined ? Array.from({ length: shown.n }, (_, q) => q) : [shown.only];
  for (const q of rows) for (let k = 0; k < shown.end(q); k++) most = Math.max(most, Math.abs(shown.at(q, k)));
  return most || 1;
}

// [{key, weight}] of what these queries attend to, summed, or of who attends to these keys; the strongest first.
function sourcesOf(shown, positions, byKey) {
  const weights = new Float64Array(shown.n);
  const there = new Uint8Array(shown.n);
  for (const p of positions)
    for (let other = 0; other < shown.n; other++) {
      const [q, k] = byKey ? [other, p] : [p, other];
      if (k >= shown.end(q) || shown.hides(k)) continue;
      weights[other] += shown.at(q, k);
      there[other] = 1;
    }
  const found = [];
  for (let key = 0; key < shown.n; key++) if (there[key]) found.push({ key, weight: weights[key] });
  return found.sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight) || a.key - b.key);
}
