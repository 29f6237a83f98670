// The text, token by token, each coloured by what the token looked at gives it. Click or Enter locks a token, with Ctrl,
// Shift or Space several, which are summed; again or Escape unlocks.

function tokenStrip({ pointed, locked, hide }) {
  const id = uniqueId();
  const root = element("div", { role: "listbox", tabindex: "0", class: "wb-strip", "data-testid": "token-strip", "aria-orientation": "horizontal",
    "aria-multiselectable": "true", "aria-label": "Tokens: arrow keys move, Enter locks, Space adds, Escape unlocks, h hides a column" });
  let options = [];
  let cursor = 0;
  let chosen = []; // indices
  let looks = []; // what each token looks like, as a text

  function build(tokens, against, positions) {
    options = tokens.map((token, i) =>
      element("span", { id: `${id}-${i}`, role: "option", tabindex: "-1", class: "wb-token", "data-testid": `token-${positions[i]}`, title: `position ${positions[i]}` }, token,
        ...(against[i] !== undefined && against[i] !== token ? [element("small", { title: "in the second run" }, against[i])] : [])));
    root.replaceChildren(...options);
    looks = [];
    cursor = tokens.length - 1;
  }

  // colour(i): [r, g, b], or null where nothing is given.
  function show({ colour, looking, source, hidden, chosenNow }) {
    chosen = chosenNow;
    const [lookedAt, locked] = [new Set(looking), new Set(chosen)];
    // Of a thousand tokens few change from one moment to the next, and each that is touched costs style and paint.
    options.forEach((option, i) => {
      const [filled, before] = [colour(i), looks[i]];
      const now = { fill: filled ? css(filled) : "", ink: filled ? onTop(filled) : "", selected: `${locked.has(i)}`, marks: "wb-token" };
      if (!filled) now.marks += " wb-nothing";
      if (lookedAt.has(i)) now.marks += " wb-query";
      if (i === source) now.marks += " wb-source";
      if (hidden.has(i)) now.marks += " wb-struck";
      if (before?.fill !== now.fill) option.style.backgroundColor = now.fill;
      if (before?.ink !== now.ink) option.style.color = now.ink;
      if (before?.marks !== now.marks) option.className = now.marks;
      if (before?.selected !== now.selected) option.setAttribute("aria-selected", now.selected);
      looks[i] = now;
    });
    if (options[cursor]) root.setAttribute("aria-activedescendant", options[cursor].id);
  }

  function toggle(i, several) {
    cursor = i;
    const others = chosen.filter((other) => other !== i);
    if (several) locked(chosen.includes(i) ? others : [...others, i]);
    else locked(chosen.includes(i) && !others.length ? [] : [i]);
  }

  function move(to) {
    cursor = clamp(to, 0, options.length - 1);
    options[cursor].scrollIntoView({ block: "nearest" });
    if (document.activeElement !== root) options[cursor].focus({ preventScroll: true });
    pointed(cursor, true);
  }

  const indexOf = (event) => options.indexOf(event.target.closest?.("[role=option]"));
  root.addEventListener("pointerover", (event) => {
    const i = indexOf(event);
    if (i < 0) return;
    cursor = i;
    pointed(i);
  });
  root.addEventListener("pointerleave", () => pointed(-1));
  root.addEventListener("click", (event) => {
    const i = indexOf(event);
    if (i >= 0) toggle(i, event.ctrlKey || event.metaKey || event.shiftKey);
  });
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (indexOf(event) >= 0) cursor = indexOf(event);
    const to = walked(event.key, [0, cursor], 1, options.length);
    const line = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (line) move(cursor + line);
    else if (to) move(to[1]);
    else if (event.key === "Enter" || event.key === " ") toggle(cursor, event.key === " ");
    else if (event.key === "Escape" && chosen.length) locked([]);
    else if (event.key === "h") hide(cursor);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return { root, build, show, toggle, get cursor() { return cursor; }, set cursor(i) { cursor = i; } };
}
