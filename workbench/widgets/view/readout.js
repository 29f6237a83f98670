// What is looked at, in words and numbers.

const SOURCES = 8; // tokens listed
const BACK = 3; // of those of the other direction

const weightText = {
  attention: (value) => value.toFixed(4),
  value_weighted: (value) => (Math.abs(value) >= 1000 ? value.toFixed(0) : Number(value.toPrecision(4)).toString()),
  contribution: (value) => signed(value, 4),
};

function readout() {
  const root = element("div", { class: "wb-readout", "data-testid": "readout" });

  // runs: what is shown of each;  looking: indices;  source: the index pointed at, -1 for none.
  function show({ runs, tokens, positions, looking, source, byKey, locked, quantity, names, most, notes, second }) {
    const [first, other] = runs.map((shown) => sourcesOf(shown, looking, byKey));
    const value = weightText[quantity];
    const beside = new Map((other ?? []).map(({ key, weight }) => [key, weight]));
    const listed = first.filter(({ key }, i) => i < SOURCES || key === source);
    const rest = first.filter((entry) => !listed.includes(entry));
    const rows = listed.map(({ key, weight }) => {
      const share = element("i", {});
      share.style.width = `${clamp((100 * Math.abs(weight)) / most, 0, 100) || 0}%`;
      share.classList.toggle("wb-less", weight < 0);
      const against = beside.get(key) ?? 0;
      return element("tr", { "data-testid": `source-${positions[key]}`, class: key === source ? "wb-source" : undefined },
        element("td", { class: "wb-number wb-soft" }, `${positions[key]}`), element("td", {}, tokenText(tokens[key])),
        element("td", { class: "wb-number wb-weight" }, value(weight)),
        ...(other ? [element("td", { class: "wb-number" }, value(against)), element("td", { class: "wb-number" }, signed(weight - against, 4))] : []),
        element("td", { class: "wb-share", "aria-hidden": "true" }, share));
    });
    const heading = other ? [element("thead", {}, element("tr", {}, ...["at", "token", names[0], names[1], "difference"].map((name, i) => element("th", { class: i === 1 ? undefined : "wb-number", scope: "col" }, name)), element("td", {})))] : [];
    const sum = rest.reduce((total, { weight }) => total + weight, 0);
    root.replaceChildren(
      element("p", {}, ...subject(tokens, positions, looking, second), said(looking.length, byKey, quantity),
        element("span", { class: "wb-lock" }, locked ? "locked" : "")),
      element("table", {}, ...heading, element("tbody", {}, ...rows)),
      element("p", {}, rest.length ? `${rest.length} more share ${value(sum)}` : ""),
      ...(quantity === "contribution" ? [] : [theOtherWay(runs[0], tokens, positions, looking, !byKey, value)]),
      ...notes.map((note) => element("p", { class: "wb-small" }, note)),
    );
    return first;
  }
  return { root, show };
}

// Beside where a token looks, who looks at it, in a line.
function theOtherWay(shown, tokens, positions, looking, byKey, value) {
  const best = sourcesOf(shown, looking, byKey).slice(0, BACK);
  const named = best.flatMap(({ key, weight }, i) => [i ? ", " : " ", tokenText(tokens[key]), ` at ${positions[key]} (${value(weight)})`]);
  const verb = byKey ? "Attended to most by" : "Attends most to";
  return element("p", { class: "wb-small wb-soft", "data-testid": "other-way" }, verb, ...(best.length ? named : [" nothing shown"]));
}

function subject(tokens, positions, looking, second) {
  const named = looking.flatMap((i, at) => [
    ...(at ? [" + "] : []), tokenText(tokens[i], "wb-looking"),
    ...(second[i] !== undefined && second[i] !== tokens[i] ? [" (", tokenText(second[i]), ")"] : []), ` at ${positions[i]}`,
  ]);
  return looking.length > 1 ? [...named, ", summed"] : named;
}

function said(n, byKey, quantity) {
  if (quantity === "contribution") return byKey ? " adds, as a source, at" : n > 1 ? " get from" : " gets from";
  if (byKey) return n > 1 ? " are attended to by" : " is attended to by";
  return n > 1 ? " attend to" : " attends to";
}
