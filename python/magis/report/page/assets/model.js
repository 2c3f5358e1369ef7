"use strict";
// The page's data, and what figures ask of it. `data` is what `magis.report.page.data` makes.

let data = null;
const state = { run: 0, step: 0, axis: "time", view: null, query: "", theme: "light" };
const MOMENTS = { run: 0, load: 1, wait: 2 };

async function unpacked(id) {
  const packed = atob(document.getElementById(id).textContent.trim());
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

// Adds to each run what is counted once: bytes by kind at each moment, totals, and its steps.
function prepare(found) {
  data = found;
  for (const run of data.runs) {
    const count = run.moments.start.length;
    const kinds = data.kinds.map(() => new Float64Array(count));
    addUp(run, kinds, (row) => run.tensors.kind[row]);
    const scratch = data.kinds.indexOf("workspace");
    for (let m = 0; m < count; m++) kinds[scratch][m] += run.moments.scratch[m];
    run.byKind = kinds;
    run.total = run.moments.live.map((live) => live + run.persistent_bytes);
    run.host_live = new Float64Array(count);
    run.host.tensor.forEach((_, row) => spread(run.host_live, run.host, row));
    sums(run.host_live);
    run.count = count;
    unfold(run);
  }
  state.run = data.runs.length - 1;
  state.step = data.runs[state.run].peakStep;
}

// Differences at both ends, then running sums: each lifetime is looked at once.
function spread(into, table, row) {
  into[table.first[row]] += table.bytes[row];
  if (table.last[row] + 1 < into.length) into[table.last[row] + 1] -= table.bytes[row];
}

function sums(values) {
  for (let m = 1; m < values.length; m++) values[m] += values[m - 1];
  return values;
}

function addUp(run, series, which) {
  for (let row = 0; row < run.tensors.name.length; row++) {
    const place = which(row);
    if (place >= 0) spread(series[place], run.tensors, row);
  }
  series.forEach(sums);
}

// The largest of numbers, of however many.
const most = (values) => values.reduce((largest, value) => Math.max(largest, value), 0);

const text = (number) => data.texts[number];

// The moment that is looked at.
const chosenMoment = () => data.runs[state.run].steps.moment[state.step];

function liveRows(run, moment) {
  const { first, last } = run.tensors;
  const rows = [];
  for (let row = 0; row < first.length; row++) {
    if (first[row] <= moment && moment <= last[row]) rows.push(row);
  }
  return rows;
}

// ---- words

function bytesText(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = count, unit = 0;
  while (Math.abs(Number(value.toFixed(2))) >= 1024 && unit < 4) { value /= 1024; unit++; }
  return unit === 0 ? `${count} B` : `${value.toFixed(2)} ${units[unit]}`;
}

function secondsText(seconds) {
  for (const [scale, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "us"]]) {
    if (Math.abs(seconds) >= scale || (unit === "us" && seconds !== 0)) {
      const value = seconds / scale, size = Math.abs(value);
      return `${value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)} ${unit}`;
    }
  }
  return "0 s";
}

const number = (count) => count.toLocaleString("en");
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "-");

// For Plotly's labels, which read a little HTML, and for innerHTML.
function escaped(words) {
  return String(words).replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

// What happens at a step, in lines.
function stepLines(run, step) {
  const { kind, operator, copy } = run.moments;
  const moment = run.steps.moment[step];
  const lines = [];
  const row = operator[moment];
  if (kind[moment] === MOMENTS.wait) lines.push("waiting for copies");
  if (row >= 0) {
    const table = run.operators;
    const what = text(table.operator[row]);
    const name = `%${text(table.name[row])}${copy[moment] ? `.${copy[moment]}` : ""}`;
    if (kind[moment] === MOMENTS.load) lines.push(`coming back from the host: ${name}`);
    else lines.push(`${what}  ${name}${copy[moment] ? " (computed again)" : ""}`);
    lines.push(text(table.shapes[row]));
    const place = [text(table.module[row]) || "(outside any module)", text(table.source[row])];
    lines.push(place.filter((word) => word).join("  "));
  }
  const parts = partsText(run, step);
  if (parts) lines.push(parts);
  const { start, end } = run.steps;
  lines.push(`${secondsText(end[step] - start[step])}, from ${secondsText(start[step])} on`);
  return lines;
}

function peakPlace(run, moment) {
  const row = run.moments.operator[moment];
  if (row === undefined || row < 0) return "";
  const where = text(run.operators.module[row]) || text(run.operators.source[row]).split("/").pop();
  return text(run.operators.operator[row]) + (where ? ` of ${where}` : "");
}

// ---- which steps are drawn

const MOST_DRAWN = 1200;

// Steps between two values of the axis: all of them, or of each stretch the first, the last, the
// highest and the lowest, which drawn as narrow as that look the same as all.
function drawn(run, from, to) {
  const first = Math.max(0, stepAt(run, from) - 1), last = Math.min(run.steps.count - 1, stepAt(run, to));
  if (last - first < MOST_DRAWN) return { steps: Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i), all: true };
  const kept = [], width = (4 * (to - from)) / MOST_DRAWN, moment = run.steps.moment;
  for (let step = first; step <= last;) {
    const begin = step, end = from + width * (1 + Math.floor((axisAt(run, step) - from) / width));
    let high = step, low = step;
    do {
      if (run.total[moment[step]] > run.total[moment[high]]) high = step;
      if (run.total[moment[step]] < run.total[moment[low]]) low = step;
      step++;
    } while (step <= last && axisAt(run, step) < end);
    kept.push(...new Set([begin, high, low, step - 1].sort((a, b) => a - b)));
  }
  return { steps: kept, all: false };
}

const axisAt = (run, step) => (state.axis === "time" ? run.steps.start[step] : step);
const stepAt = (run, value) => (state.axis === "time" ? lowerBound(run.steps.start, value) : Math.max(0, Math.ceil(value)));
const axisEnd = (run) => (state.axis === "time" ? run.seconds : run.steps.count);

function lowerBound(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
