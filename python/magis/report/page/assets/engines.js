"use strict";
// The three engines: computing, copying to the host, copying from it.

const ENGINES = ["from the host", "to the host", "computing"];
const MOST_BARS = 1500;
const BARS = {
  forward: { light: "#2f9e77", dark: "#52c49a" },
  backward: { light: "#c9573f", dark: "#e8806a" },
  "computed again": { light: "#d9a400", dark: "#f2c744" },
  optimizer: { light: "#8fb8e8", dark: "#a9cbf2" },
  waiting: { light: "#14181f", dark: "#ffffff" },
  copying: { light: "#3b6fb6", dark: "#5f94dc" },
};

function categoryOf(run, moment) {
  const { kind, operator, copy } = run.moments;
  if (kind[moment] === MOMENTS.wait) return "waiting";
  if (copy[moment]) return "computed again";
  const row = operator[moment];
  if (row >= 0 && text(run.operators.source[row]).startsWith("optimizer ")) return "optimizer";
  return row >= 0 && run.operators.backward[row] ? "backward" : "forward";
}

// Bars of what takes time between two times. Neighbours too short to be seen are one bar, of the
// kind that takes most of it.
function bars(run, from, to) {
  const { moment, start, end, count } = run.steps;
  const found = [], short = (to - from) / MOST_BARS;
  for (let step = Math.max(0, lowerBound(start, from) - 1); step < count && start[step] <= to; step++) {
    if (end[step] < from || end[step] === start[step]) continue;
    const kind = categoryOf(run, moment[step]), seconds = end[step] - start[step];
    const hit = state.query !== "" && isHitMoment(run, moment[step]);
    const last = found[found.length - 1];
    if (last && end[step] - last.start < short) {
      last.seconds[kind] = (last.seconds[kind] || 0) + seconds;
      Object.assign(last, { end: end[step], last: step, hit: last.hit || hit });
    } else found.push({ seconds: { [kind]: seconds }, hit, start: start[step], end: end[step], first: step, last: step });
  }
  for (const bar of found) bar.category = Object.keys(bar.seconds).reduce((a, b) => (bar.seconds[b] > bar.seconds[a] ? b : a));
  return found;
}

function enginesFigure(from, to) {
  const run = data.runs[state.run];
  if (!run.count) return;
  const engines = run.copies.start.length ? ENGINES : ENGINES.slice(2);
  const traces = computing(run, bars(run, from, to));
  if (run.copies.start.length) traces.push(copying(run, true, from, to), copying(run, false, from, to));
  const look = layout(engines.length > 1 ? 230 : 150, {
    barmode: "overlay",
    bargap: 0.25,
    dragmode: "zoom",
    showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    xaxis: axis({ range: [from, to], ...SECONDS, zeroline: false }),
    yaxis: axis({ fixedrange: true, categoryorder: "array", categoryarray: engines, automargin: true }),
    margin: { l: 110, r: 20, t: 30, b: 34 },
    hovermode: "closest",
  });
  draw("engines-figure", traces, look);
  listenToEngines();
  enginesNote(run);
}

function computing(run, found) {
  return Object.keys(BARS).filter((category) => found.some((bar) => bar.category === category)).map((category) => {
    const own = found.filter((bar) => bar.category === category);
    const colour = BARS[category][state.theme];
    return {
      type: "bar", orientation: "h", name: category,
      y: own.map(() => "computing"), base: own.map((bar) => bar.start), x: own.map((bar) => bar.end - bar.start),
      marker: { color: own.map((bar) => (bar.hit ? hitColour() : colour + (state.query ? "60" : ""))), line: { width: 0 } },
      text: own.map((bar) => barText(run, bar)), textposition: "none",
      hovertemplate: "%{text}<extra></extra>",
    };
  });
}

function barText(run, bar) {
  if (bar.first === bar.last) return [bar.category, ...stepLines(run, bar.first)].map(escaped).join("<br>");
  const count = plural(bar.last - bar.first + 1, "operator");
  const ends = [stepLines(run, bar.first)[0], stepLines(run, bar.last)[0]];
  return [`${Object.keys(bar.seconds).length > 1 ? "mostly " : ""}${bar.category}: ${count}, ${secondsText(bar.end - bar.start)}`, `from ${ends[0]}`, `to ${ends[1]}`, "zoom in to tell them apart"].map(escaped).join("<br>");
}

// Copies in one direction between two times, neighbours too short to be seen as one.
function copyBars(run, toHost, from, to) {
  const found = [], short = (to - from) / MOST_BARS;
  const own = run.steps.copies.filter(({ row, start, end }) => Boolean(run.copies.to_host[row]) === toHost && start <= to && end >= from);
  for (const { row, start, end } of own.sort((a, b) => a.start - b.start)) {
    const hit = isHitName(text(run.copies.tensor[row]));
    const last = found[found.length - 1];
    if (last && end - last.start < short) Object.assign(last, { end: Math.max(end, last.end), count: last.count + 1, hit: last.hit || hit });
    else found.push({ row, start, end, count: 1, hit });
  }
  return found;
}

function copying(run, toHost, from, to) {
  const own = copyBars(run, toHost, from, to);
  const engine = toHost ? "to the host" : "from the host";
  const what = ({ row, count }) => (count > 1 ? `${plural(count, "tensor")} ${engine}, from %${text(run.copies.tensor[row])} on` : `%${text(run.copies.tensor[row])} ${engine}`);
  return {
    type: "bar", orientation: "h", name: "copying", legendgroup: "copying", showlegend: toHost,
    y: own.map(() => engine), base: own.map((bar) => bar.start), x: own.map((bar) => bar.end - bar.start),
    marker: { color: own.map((bar) => (bar.hit ? hitColour() : BARS.copying[state.theme] + (state.query ? "60" : ""))), line: { width: own.length > 100 ? 0 : 0.5, color: css("--back") } },
    text: own.map((bar) => [what(bar), `${secondsText(bar.end - bar.start)}, from ${secondsText(bar.start)} on`].map(escaped).join("<br>")),
    textposition: "none",
    hovertemplate: "%{text}<extra></extra>",
  };
}

function enginesNote(run) {
  const words = [`${run.label}: ${secondsText(run.seconds)} a step by the profile ${run.device}.`];
  if (run.copies.start.length) {
    words.push(`Of ${secondsText(run.copy_seconds)} of copying the step waits for ${secondsText(run.exposed_seconds)}; ${bytesText(run.bytes_to_host)} go to the host, which holds ${bytesText(run.host_peak_bytes)} at most.`);
  }
  if (run.tree.inner.length) words.push("Loops are drawn part by part; parts of a loop share its time evenly.");
  byId("engines-note").textContent = words.join(" ");
}

function listenToEngines() {
  const figure = byId("engines-figure");
  if (figure.dataset.listens) return;
  figure.dataset.listens = "yes";
  figure.on("plotly_relayout", (change) => {
    const range = newRange(figure, change, data.runs[state.run].seconds);
    if (range) enginesFigure(...range);
  });
  onDoubleClick(figure, () => enginesFigure(0, data.runs[state.run].seconds));
}
