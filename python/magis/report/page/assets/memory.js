"use strict";
// Memory over time, one figure a run, stacked by kind.

function memoryControls() {
  const controls = byId("memory-controls");
  controls.replaceChildren();
  choice(controls, "horizontal axis", [["time", "by time"], ["order", "by operator"]], state.axis, (axis) => {
    state.axis = axis;
    memoryFigures();
  });
  legend(controls);
}

function memoryFigures() {
  const parent = byId("memory-figures");
  if (!byId("memory-0")) {
    parent.replaceChildren();
    data.runs.forEach((run, index) => {
      parent.append(element("h3", `${run.label}: ${bytesText(run.peak_bytes)} in ${secondsText(run.seconds)} (${run.source})`));
      const figure = element("div", undefined, "figure");
      figure.id = `memory-${index}`;
      const note = element("p", undefined, "hint");
      note.id = `memory-note-${index}`;
      const place = peakPlace(run, run.peak);
      if (place) parent.append(named("p", `At its peak runs ${place}.`, "faint place"));
      parent.append(figure, note);
    });
  }
  data.runs.forEach((run, index) => memoryFigure(run, index, 0, axisEnd(run)));
}

// Peaks, and lines that are not far above them.
function highest() {
  const peak = most(data.runs.map((run) => run.peak_bytes));
  return most([peak, ...data.lines.map((line) => line.bytes).filter((bytes) => bytes < 1.5 * peak)]);
}

function memoryFigure(run, index, from, to) {
  const id = `memory-${index}`;
  const { steps, all } = drawn(run, from, to);
  const look = layout(data.runs.length > 1 ? 320 : 410, {
    margin: { l: 76, r: 20, t: BUTTONS, b: 40 },
    hovermode: "x",
    hoverdistance: -1,
    dragmode: "zoom",
    xaxis: timeAxis({ range: [from, to], zeroline: false }),
    yaxis: axis({ range: [0, highest() * 1.12], fixedrange: true, ...byteTicks(highest()) }),
    shapes: [],
    annotations: [],
  });
  const at = run.count ? axisAt(run, run.peakStep) : 0;
  // Words on the peak stand where there is more room, those on lines at the other end.
  addLines(look, run, at > 0.25 * axisEnd(run), byId(id).clientWidth >= NARROW);
  addPeak(look, run, at, at > 0.6 * axisEnd(run));
  const traces = [...areas(run, steps), hoverTrace(run, steps)];
  if (run.host_peak_bytes) traces.push(hostTrace(run, steps));
  if (state.query) traces.push(hitTrace(run, steps));
  draw(id, traces, look);
  byId(`memory-note-${index}`).textContent = memoryNote(run, all);
  listen(id, run, index);
}

// What is not drawn as it is.
function memoryNote(run, all) {
  const words = [];
  const loops = run.tree.inner.map((loop) => `${loop.name} in ${plural(loop.parts, "part")}`);
  if (loops.length) words.push(`Loops are drawn part by part: ${loops.join(", ")}; a shorter last part like a full one.`);
  if (run.steps.folded.size) words.push("There is no room for all parts of inner loops: after the first, all others are drawn as high as they get.");
  if (!all) words.push(`${number(run.steps.count)} moments: drawn are the highest and the lowest of each stretch; zoom in to see every one.`);
  return words.join(" ");
}

// A point where each step begins, and one where the last one ends.
function corners(run, steps, values) {
  if (!steps.length) return { x: [], y: [] };
  const last = steps[steps.length - 1], moment = run.steps.moment;
  const end = last === run.steps.count - 1 ? axisEnd(run) : axisAt(run, last + 1);
  return {
    x: [...steps.map((step) => axisAt(run, step)), end],
    y: [...steps.map((step) => values[moment[step]]), values[moment[last]]],
  };
}

function areas(run, drawnSteps) {
  const sum = new Float64Array(run.count);
  const traces = [];
  data.kinds.forEach((name, kind) => {
    if (!run.byKind[kind].some((bytes) => bytes > 0)) return;
    for (let m = 0; m < run.count; m++) sum[m] += run.byKind[kind][m];
    traces.push({
      ...corners(run, drawnSteps, sum),
      type: "scatter",
      mode: "lines",
      name,
      line: { shape: "hv", width: 0.4, color: kindColour(kind), simplify: false },
      fill: traces.length ? "tonexty" : "tozeroy",
      fillcolor: kindColour(kind) + (state.query ? "55" : "d0"),
      hoverinfo: "skip",
    });
  });
  return traces;
}

// Invisible points amid the steps: what the mouse finds.
function hoverTrace(run, steps) {
  const { start, end, moment } = run.steps;
  const middle = (step) => (state.axis === "time" ? (start[step] + end[step]) / 2 : step + 0.5);
  return {
    x: steps.map(middle),
    y: steps.map((step) => run.total[moment[step]]),
    customdata: steps,
    text: steps.map((step) => hoverText(run, step)),
    type: "scatter",
    mode: "markers",
    marker: { size: 1, opacity: 0 },
    name: "hover",
    hovertemplate: "%{text}<extra></extra>",
  };
}

function hoverText(run, step) {
  const moment = run.steps.moment[step];
  const lines = [`<b>${bytesText(run.total[moment])}</b>`, ...stepLines(run, step).map(escaped)];
  data.kinds.forEach((name, kind) => {
    const bytes = run.byKind[kind][moment];
    if (bytes > 0) lines.push(`${bytesText(bytes)} ${name}`);
  });
  if (run.host_live[moment] > 0) lines.push(`${bytesText(run.host_live[moment])} on the host`);
  return lines.join("<br>");
}

function hostTrace(run, steps) {
  return {
    ...corners(run, steps, run.host_live),
    type: "scatter",
    mode: "lines",
    name: "on the host",
    line: { shape: "hv", width: 1.6, dash: "dot", color: css("--text") },
    hoverinfo: "skip",
  };
}

function hitTrace(run, steps) {
  return {
    ...corners(run, steps, hitBytes(run)),
    type: "scatter",
    mode: "lines",
    name: "found",
    line: { shape: "hv", width: 2, color: hitColour() },
    fill: "tozeroy",
    fillcolor: state.theme === "dark" ? "rgba(255,213,74,0.5)" : "rgba(255,200,0,0.6)",
    hoverinfo: "skip",
  };
}

const ofRun = (run) => (line) => !line.run || line.run === run.label;

// Levels of memory, with their names where there is room for them, and bounds on time.
function addLines(look, run, left, wide) {
  for (const { name, seconds } of state.axis === "time" ? data.times.filter(ofRun(run)) : []) {
    look.shapes.push({ type: "line", x0: seconds, x1: seconds, yref: "paper", y0: 0, y1: 1, line: { color: lineColour(name), width: 1.5, dash: "dash" } });
  }
  for (const line of data.lines.filter(ofRun(run))) {
    const colour = lineColour(line.name);
    look.shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: line.bytes, y1: line.bytes, line: { color: colour, width: 1.5, dash: "dash" } });
    if (!wide) continue;
    const below = data.lines.some((other) => other.bytes > line.bytes) && line.bytes > 0.1 * highest();
    look.annotations.push({ xref: "paper", x: left ? 0 : 1, xanchor: left ? "left" : "right", y: line.bytes, yanchor: below ? "top" : "bottom", showarrow: false, text: `${escaped(line.name)} ${bytesText(line.bytes)}`, font: { color: colour, size: 12 }, bgcolor: css("--back") + "b0" });
  }
  if (run.host_peak_bytes) {
    const full = run.host_live.indexOf(most(run.host_live));
    const x = axisAt(run, run.steps.moment.indexOf(full));
    look.annotations.push({ x, y: run.host_live[full], xanchor: "left", yanchor: "bottom", showarrow: false, text: `on the host ${bytesText(run.host_live[full])}`, bgcolor: css("--back") + "b0" });
  }
}

function addPeak(look, run, at, left) {
  if (!run.count) return;
  look.annotations.push({ x: at, y: run.peak_bytes, text: `peak ${bytesText(run.peak_bytes)}`, ax: left ? -40 : 40, ay: -16, xanchor: left ? "right" : "left", arrowhead: 2, arrowcolor: css("--text"), bgcolor: css("--back") + "b0" });
  const chosen = data.runs.indexOf(run) === state.run && state.step !== run.peakStep;
  if (chosen) {
    const x = axisAt(run, state.step);
    look.shapes.push({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { color: css("--text"), width: 1 } });
  }
}

function listen(id, run, index) {
  const figure = byId(id);
  if (figure.dataset.listens) return;
  figure.dataset.listens = "yes";
  figure.on("plotly_relayout", (change) => {
    const range = newRange(figure, change, axisEnd(run));
    if (!range) return;
    memoryFigure(run, index, ...range);
    if (state.axis === "time" && index === state.run) enginesFigure(...range);
  });
  onDoubleClick(figure, () => {
    memoryFigure(run, index, 0, axisEnd(run));
    if (index === state.run) enginesFigure(0, run.seconds);
  });
  figure.on("plotly_click", ({ event }) => showStep(index, stepUnder(figure, event.clientX)));
}

// The step that a place on the screen shows. The points that come with a click are those the mouse
// hovered over up to 50 ms before.
function stepUnder(figure, clientX) {
  const { left, width } = figure.querySelector(".nsewdrag").getBoundingClientRect();
  const [from, to] = figure.layout.xaxis.range;
  const at = from + (clientX - left) / width * (to - from);
  const { x, customdata } = figure.data.find((trace) => trace.name === "hover");
  const distance = (place) => Math.abs(x[place] - at);
  return customdata[x.reduce((nearest, _, place) => (distance(place) < distance(nearest) ? place : nearest), 0)];
}
