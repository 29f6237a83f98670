// The map of a lens: the colours of what is shown, tokens where there is room, a star where the text goes on with them.

const TEXTED = 64; // positions up to which tokens are written into cells
const WIDEST = 72; // px of a cell
const LEAST = { texted: 36, plain: 4 }; // px of a cell, below which the map scrolls
const SCROLLED = { texted: 48, plain: 4 }; // px of a cell then
const CANVAS = 8192; // px of a canvas, whatever the cells
const TALL = 620; // px that rows share

// Pale colours are behind words, full ones where there are none.
const rampOf = (page, colours) => (page.columns <= TEXTED ? colours.pale : colours.weight);
const mostOf = (show, value, page) => show.most(value, page.rows * page.columns);

// The ends of the colours, weak and strong, as they are written.
function scaleOf(show, value, page) {
  const most = mostOf(show, value, page);
  return (show.share(0, most) > 0.5 ? [most, 0] : [0, most]).map(show.written);
}
const titleOf = (show, value, page) => `logit lens: ${show.name}, from ${scaleOf(show, value, page).join(" to ")}`;

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
  const pen = sized(sheet, left + Math.max(across, 420) + 16, top + down + below);
  pen.fillStyle = css(colours.field);
  pen.fillRect(0, 0, left + Math.max(across, 420) + 16, top + down + below);
  pen.drawImage(map, left, top, across, down);
  pen.fillStyle = css(colours.ink);
  pen.textBaseline = "middle";
  pen.font = "13px sans-serif";
  pen.fillText(title, left, top / 2);
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
