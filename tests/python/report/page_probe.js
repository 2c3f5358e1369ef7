// What tests ask of an open page, beside its own functions.

const traceOf = (index, name) => byId(`memory-${index}`).data.find((trace) => trace.name === name);
const highestDrawn = (index) => Math.max(...traceOf(index, "hover").y);

function rootValue(id) {
  const trace = byId(id).data[0];
  return trace.values[trace.parents.indexOf("")];
}

const shapesDrawn = (id) => document.querySelectorAll(`#${id} .main-svg path`).length;
const fadedLeaves = () =>
  byId("live-modules").data[0].marker.colors.filter((colour) => colour.endsWith("40")).length;

function rangeOf(index) {
  const range = byId(`memory-${index}`).layout.xaxis.range;
  return range[1] - range[0];
}

// Of each step its moment, times, and the parts of loops around it.
function stepsOfRun(run) {
  const { moment, start, end, count } = run.steps;
  return Array.from({ length: count }, (_, step) => [
    moment[step], start[step], end[step], partsAt(run, step).map(({ loop, part }) => [loop.name, part]),
  ]);
}

// The upper edge of the areas, at each corner.
function heightsDrawn(id) {
  const areas = byId(id).data.filter((trace) => trace.fill && trace.name !== "found");
  return areas[areas.length - 1].y;
}

// Where on the screen a step of a memory figure is found, at half its height.
function pointOf(index, step) {
  const figure = byId(`memory-${index}`);
  figure.scrollIntoView({ block: "center" });
  const box = figure.getBoundingClientRect();
  const { _size: size, xaxis, yaxis } = figure._fullLayout;
  const hover = traceOf(index, "hover");
  const at = hover.customdata.indexOf(step);
  return [box.left + size.l + xaxis.l2p(hover.x[at]), box.top + size.t + yaxis._length / 2];
}

// Bytes at the peak of all tensors with a word in a name, a module, a source line or an operator.
function bytesAtPeakOf(index, word) {
  const run = data.runs[index], table = run.tensors;
  let sum = 0;
  table.name.forEach((_, row) => {
    const texts = [table.name[row], table.module[row], table.source[row]];
    if (table.operator[row] >= 0) texts.push(run.operators.operator[table.operator[row]]);
    const found = texts.some((number) => text(number).toLowerCase().includes(word.toLowerCase()));
    if (found && table.first[row] <= run.peak && run.peak <= table.last[row]) sum += table.bytes[row];
  });
  return sum;
}

// Draws anew with a minute between the two presses of a double click.
function slowDoubleClicks() {
  CONFIG.doubleClickDelay = 60_000;
  data.runs.forEach((_, index) => { delete byId(`memory-${index}`).dataset.listens; });
  memoryFigures();
}

// Texts of a figure that lie on each other (boxes are higher than letters): labels of axes, words on
// lines and on the peak.
function overlaps(id) {
  const texts = [...document.querySelectorAll(`#${id} .xtick text, #${id} .ytick text, #${id} .y2tick text, #${id} .annotation-text, #${id} .xtitle, #${id} .ytitle, #${id} .y2title`)];
  const boxes = texts.map((entry) => [entry.textContent, entry.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
  const found = [];
  boxes.forEach(([words, a], at) => boxes.slice(at + 1).forEach(([others, b]) => {
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 1 && down > 6) found.push(`${words} | ${others}`);
  }));
  return found;
}

// Words in a figure that lie under Plotly's buttons.
function underButtons(id) {
  const buttons = [...document.querySelectorAll(`#${id} .modebar-group`)].map((entry) => entry.getBoundingClientRect());
  return [...document.querySelectorAll(`#${id} .annotation-text`)].filter((entry) => {
    const a = entry.getBoundingClientRect();
    return buttons.some((b) => b.width > 0 && Math.min(a.right, b.right) > Math.max(a.left, b.left) && Math.min(a.bottom, b.bottom) > Math.max(a.top, b.top));
  }).map((entry) => entry.textContent);
}

// Whether one word of an element stands on two lines.
function breaksAWord(cell) {
  const range = document.createRange(), words = cell.firstChild;
  return [...words.data.matchAll(/\S+/g)].some((found) => {
    range.setStart(words, found.index);
    range.setEnd(words, found.index + found[0].length);
    return new Set([...range.getClientRects()].map((box) => box.top)).size > 1;
  });
}

// Boxes of a tree whose inner ones do not come to as many bytes.
function unevenParents(id) {
  const { ids, parents, values } = byId(id).data[0], sums = new Map();
  parents.forEach((parent, at) => sums.set(parent, (sums.get(parent) || 0) + values[at]));
  return ids.filter((box, at) => sums.has(box) && sums.get(box) !== values[at]);
}
