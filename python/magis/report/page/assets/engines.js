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
  "a loop's other parts": { light: "#b7bcc6", dark: "#7b8494" },
  copying: { light: "#3b6fb6", dark: "#5f94dc" },
};

function categoryOf(run, moment) {
  const { kind, operator, copy } = run.moments;
  if (kind[moment] === MOMENTS.wait) return "waiting";
  if (kind[moment] === MOMENTS.repeat) return "a loop's other parts";
  if (copy[moment]) return "computed again";
  const row = operator[moment];
  if (row >= 0 && text(run.operators.source[row]).startsWith("optimizer ")) return "optimizer";
  return row >= 0 && run.operators.backward[row] ? "backward" : "forward";
}

// Bars of what takes time between two times; neighbours of a kind too short to be seen are one.
function bars(run, from, to) {
  const { start, end, kind } = run.moments;
  const found = [];
  const short = (to - from) / MOST_BARS;
  for (let m = Math.max(0, lowerBound(start, from) - 1); m < run.count && start[m] <= to; m++) {
    if (kind[m] === MOMENTS.load || end[m] < from || end[m] === start[m]) continue;
    const category = categoryOf(run, m);
    const hit = state.query !== "" && isHitMoment(run, m);
    const last = found[found.length - 1];
    const joins = last && last.category === category && last.hit === hit && end[m] - last.start < short;
    if (joins) Object.assign(last, { end: end[m], last: m });
    else found.push({ category, hit, start: start[m], end: end[m], first: m, last: m });
  }
  return found;
}

function enginesFigure(from, to) {
  const run = data.runs[state.run];
  if (!run.count) return;
  const engines = run.copies.start.length ? ENGINES : ENGINES.slice(2);
  const traces = computing(run, bars(run, from, to));
  if (run.copies.start.length) traces.push(copying(run, true), copying(run, false));
  const look = layout(engines.length > 1 ? 230 : 150, {
    barmode: "overlay",
    bargap: 0.25,
    dragmode: "zoom",
    showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    xaxis: axis({ range: [from, to], ticksuffix: " s", exponentformat: "none", zeroline: false }),
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
  if (bar.first === bar.last) return [bar.category, ...momentLines(run, bar.first)].map(escaped).join("<br>");
  const count = plural(bar.last - bar.first + 1, "operator");
  const ends = [momentLines(run, bar.first)[0], momentLines(run, bar.last)[0]];
  return [`${bar.category}: ${count}, ${secondsText(bar.end - bar.start)}`, `from ${ends[0]}`, `to ${ends[1]}`, "zoom in to tell them apart"].map(escaped).join("<br>");
}

function copying(run, toHost) {
  const own = [];
  run.copies.start.forEach((_, row) => { if (Boolean(run.copies.to_host[row]) === toHost) own.push(row); });
  const engine = toHost ? "to the host" : "from the host";
  const { start, end, tensor } = run.copies;
  const colours = own.map((row) => (isHitName(text(tensor[row])) ? hitColour() : BARS.copying[state.theme] + (state.query ? "60" : "")));
  return {
    type: "bar", orientation: "h", name: "copying", legendgroup: "copying", showlegend: toHost,
    y: own.map(() => engine), base: own.map((row) => start[row]), x: own.map((row) => end[row] - start[row]),
    marker: { color: colours, line: { width: 0.5, color: css("--back") } },
    text: own.map((row) => [`%${text(tensor[row])} ${engine}`, `${secondsText(end[row] - start[row])}, from ${secondsText(start[row])} on`].map(escaped).join("<br>")),
    textposition: "none",
    hovertemplate: "%{text}<extra></extra>",
  };
}

function enginesNote(run) {
  const words = [`${run.label}: ${secondsText(run.seconds)} a step by the profile ${data.device}.`];
  if (run.copies.start.length) {
    words.push(`Of ${secondsText(run.copy_seconds)} of copying the step waits for ${secondsText(run.exposed_seconds)}; ${bytesText(run.bytes_to_host)} go to the host, which holds ${bytesText(run.host_peak_bytes)} at most.`);
  }
  if (run.loops.length) words.push("An operator in a loop is drawn once, with the time of all its parts, unless the loop copies: then its first part is.");
  byId("engines-note").textContent = words.join(" ");
}

function listenToEngines() {
  const figure = byId("engines-figure");
  if (figure.dataset.listens) return;
  figure.dataset.listens = "yes";
  figure.on("plotly_relayout", (change) => {
    if (change["xaxis.range[0]"] === undefined) return;
    const run = data.runs[state.run];
    enginesFigure(Math.max(0, change["xaxis.range[0]"]), Math.min(run.seconds, change["xaxis.range[1]"]));
  });
  figure.on("plotly_doubleclick", () => enginesFigure(0, data.runs[state.run].seconds));
}
