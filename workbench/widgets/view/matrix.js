// A matrix on a canvas. `cells` is {rows, columns, at(row, column), end(row)}: keys at and beyond `end` are not there
// (a causal pattern's upper half). The canvas is exactly the matrix, so that a point on it is a cell.

const GRIDDED = 64; // rows and columns up to which cells are drawn apart from each other

// Sets the canvas to `width` x `height` CSS pixels, on a device with more pixels as many more, and returns its pen.
function sized(canvas, width, height) {
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.aspectRatio = `${width} / ${height}`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return pen;
}

// `colour(value)` is [r, g, b], or null for a cell that stays empty.
function drawMatrix(canvas, cells, colour, width, height) {
  const pen = sized(canvas, width, height);
  if (cells.rows <= GRIDDED && cells.columns <= GRIDDED) drawCells(pen, cells, colour, width, height);
  else drawPooled(pen, cells, colour, canvas.width, canvas.height, width, height);
  return pen;
}

function drawCells(pen, cells, colour, width, height) {
  const [across, down] = [width / cells.columns, height / cells.rows];
  const gap = Math.min(across, down) >= 8 ? 1 : 0;
  for (let row = 0; row < cells.rows; row++)
    for (let column = 0; column < cells.end(row); column++) {
      const filled = colour(cells.at(row, column));
      if (!filled) continue;
      pen.fillStyle = css(filled);
      pen.fillRect(column * across, row * down, across - gap, down - gap);
    }
}

// Where a pixel stands for several cells it shows the one largest in size: a thin stripe must not fade.
function drawPooled(pen, cells, colour, pixelsAcross, pixelsDown, width, height) {
  const [across, down] = [Math.min(cells.columns, pixelsAcross), Math.min(cells.rows, pixelsDown)];
  const most = new Float32Array(across * down).fill(NaN);
  const place = Int32Array.from({ length: cells.columns }, (_, column) => Math.floor((column * across) / cells.columns));
  const { at } = cells;
  for (let row = 0; row < cells.rows; row++) {
    const line = Math.floor((row * down) / cells.rows) * across;
    const end = cells.end(row);
    for (let column = 0; column < end; column++) {
      const i = line + place[column];
      const value = at(row, column);
      if (!(Math.abs(value) <= Math.abs(most[i]))) most[i] = value;
    }
  }
  const image = new ImageData(across, down);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < most.length; i++) {
    const filled = Number.isNaN(most[i]) ? null : colour(most[i]);
    if (filled) pixels[i] = (255 << 24) | (filled[2] << 16) | (filled[1] << 8) | filled[0];
  }
  const sheet = element("canvas", { width: across, height: down });
  sheet.getContext("2d").putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(sheet, 0, 0, width, height);
}

// The cell under a pointer, as [row, column]; null outside.
function cellAt(canvas, cells, event) {
  const box = canvas.getBoundingClientRect();
  const row = Math.floor(((event.clientY - box.top) / box.height) * cells.rows);
  const column = Math.floor(((event.clientX - box.left) / box.width) * cells.columns);
  return row >= 0 && row < cells.rows && column >= 0 && column < cells.end(row) ? [row, column] : null;
}

// Lays a mark (an element over the canvas) on some cells.
function placeMark(mark, cells, row, column, rows = 1, columns = 1) {
  mark.style.top = `${(100 * row) / cells.rows}%`;
  mark.style.height = `${(100 * rows) / cells.rows}%`;
  mark.style.left = `${(100 * column) / cells.columns}%`;
  mark.style.width = `${(100 * columns) / cells.columns}%`;
}

// A picture as a file that every browser reads (BMP): `bytes` are places in the palette, 256 colours [r, g, b].
function bitmap(bytes, width, palette) {
  const height = bytes.length / width;
  const padded = Math.ceil(width / 4) * 4;
  const start = 54 + 4 * 256;
  const file = new Uint8Array(start + padded * height);
  const view = new DataView(file.buffer);
  view.setUint16(0, 0x424d); // "BM"
  [[2, file.length], [10, start], [14, 40], [18, width], [22, -height]].forEach(([at, value]) => view.setInt32(at, value, true)); // rows from the top
  view.setUint16(26, 1, true);
  view.setUint16(28, 8, true); // bits
  palette.forEach(([r, g, b], i) => file.set([b, g, r], 54 + 4 * i));
  for (let row = 0; row < height; row++) file.set(bytes.subarray(row * width, (row + 1) * width), start + row * padded);
  return new Blob([file], { type: "image/bmp" });
}
