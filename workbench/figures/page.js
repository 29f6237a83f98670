// Draws every figure of the page, in the reader's theme and in view order, and again when the theme changes.
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const config = { displaylogo: false, responsive: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
  const drawn = new Set();

  const look = (place) => THEMES[dark.matches ? "dark" : "light"][place.dataset.scale];

  function draw(place) {
    const figure = JSON.parse(place.firstElementChild.textContent);
    const canvas = document.createElement("div");
    place.append(canvas);
    for (const [path, value] of Object.entries(look(place))) assign(figure.layout, path.split("."), value);
    return Plotly.newPlot(canvas, figure.data, figure.layout, config).then(() => {
      drawn.add(place);
      place.dataset.drawn = "yes";
    });
  }

  function assign(layout, path, value) {
    const last = path.pop();
    for (const name of path) layout = layout[name] ??= {};
    layout[last] = value;
  }

  dark.addEventListener("change", () => {
    for (const place of drawn) Plotly.relayout(place.lastElementChild, look(place));
  });

  // One after another, so that the first is there at once.
  [...document.querySelectorAll(".figure")].reduce((before, place) => before.then(() => draw(place)), Promise.resolve());
})();
