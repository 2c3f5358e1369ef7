"use strict";
// Memory over time, one figure a run, stacked by kind.

function memoryControls() {
  const controls = byId("memory-controls");
  controls.replaceChildren();
  choice(controls, "horizontal axis", [["time", "by time"], ["order", "by operator"]], state.axis, (axis) => {
    state.axis = axis;
    memoryFigures();
  });
  kindLegend(controls);
}

function memoryFigures() {
  const parent = byId("memory-figures");
  if (!byId("memory-0")) {
    parent.replaceChildren();
    data.runs.forEach((run, index) => {
      parent.append(element("h3", `${run.label}: ${bytesText(run.peak_bytes)} in ${secondsText(run.seconds)} (${run.source})`));
      const figure = element("div", undefined, "figure");
      figure.id = `memory-${index}`;
      parent.append(figure);
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
  const moments = drawn(run, from, to, [run.peak]);
  const look = layout(data.runs.length > 1 ? 310 : 400, {
    hovermode: "x",
    hoverdistance: -1,
    dragmode: "zoom",
    xaxis: timeAxis({ range: [from, to], zeroline: false }),
    yaxis: axis({ range: [0, highest() * 1.12], fixedrange: true, ...byteTicks(highest()) }),
    shapes: [],
    annotations: [],
  });
  addLines(look, run);
  addPeak(look, run);
  const traces = [...areas(run, moments), hoverTrace(run, moments)];
  if (run.host_peak_bytes) traces.push(hostTrace(run, moments));
  if (state.query) traces.push(hitTrace(run, moments));
  draw(id, traces, look);
  listen(id, run, index);
}

// A point where each moment begins, and one where the last one ends.
function steps(run, moments, values) {
  const at = axisOf(run);
  if (!moments.length) return { x: [], y: [] };
  const last = moments[moments.length - 1];
  const end = last === run.count - 1 ? axisEnd(run) : at[last + 1];
  return {
    x: [...moments.map((m) => at[m]), end],
    y: [...moments.map((m) => values[m]), values[last]],
  };
}

function areas(run, moments) {
  const sum = new Float64Array(run.count);
  const traces = [];
  data.kinds.forEach((name, kind) => {
    if (!run.byKind[kind].some((bytes) => bytes > 0)) return;
    for (let m = 0; m < run.count; m++) sum[m] += run.byKind[kind][m];
    traces.push({
      ...steps(run, moments, sum),
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

// Invisible points amid the moments: what the mouse finds.
function hoverTrace(run, moments) {
  const { start, end } = run.moments;
  const middle = (m) => (state.axis === "time" ? (start[m] + end[m]) / 2 : m + 0.5);
  return {
    x: moments.map(middle),
    y: moments.map((m) => run.total[m]),
    customdata: moments,
    text: moments.map((m) => hoverText(run, m)),
    type: "scatter",
    mode: "markers",
    marker: { size: 1, opacity: 0 },
    name: "hover",
    hovertemplate: "%{text}<extra></extra>",
  };
}

function hoverText(run, moment) {
  const lines = [`<b>${bytesText(run.total[moment])}</b>`, ...momentLines(run, moment).map(escaped)];
  data.kinds.forEach((name, kind) => {
    const bytes = run.byKind[kind][moment];
    if (bytes > 0) lines.push(`${bytesText(bytes)} ${name}`);
  });
  if (run.host_live[moment] > 0) lines.push(`${bytesText(run.host_live[moment])} on the host`);
  return lines.join("<br>");
}

function hostTrace(run, moments) {
  return {
    ...steps(run, moments, run.host_live),
    type: "scatter",
    mode: "lines",
    name: "on the host",
    line: { shape: "hv", width: 1.6, dash: "dot", color: css("--text") },
    hoverinfo: "skip",
  };
}

function hitTrace(run, moments) {
  return {
    ...steps(run, moments, hitBytes(run)),
    type: "scatter",
    mode: "lines",
    name: "found",
    line: { shape: "hv", width: 2, color: hitColour() },
    fill: "tozeroy",
    fillcolor: state.theme === "dark" ? "rgba(255,213,74,0.5)" : "rgba(255,200,0,0.6)",
    hoverinfo: "skip",
  };
}

function addLines(look, run) {
  for (const line of data.lines) {
    if (line.run && line.run !== run.label) continue;
    const colour = state.theme === "dark" && LINE_COLOURS[line.name] === "#1f7a4d" ? "#6fd3a0" : line.name === "limit" ? css("--accent") : LINE_COLOURS[line.name] || css("--faint");
    look.shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: line.bytes, y1: line.bytes, line: { color: colour, width: 1.5, dash: "dash" } });
    look.annotations.push({ xref: "paper", x: 1, xanchor: "right", y: line.bytes, yanchor: "bottom", showarrow: false, text: `${escaped(line.name)} ${bytesText(line.bytes)}`, font: { color: colour, size: 12 }, bgcolor: css("--back") + "b0" });
  }
  if (run.host_peak_bytes) {
    const fullest = run.host_live.indexOf(most(run.host_live));
    look.annotations.push({ x: axisOf(run)[fullest], y: run.host_live[fullest], xanchor: "left", yanchor: "bottom", showarrow: false, text: `on the host ${bytesText(run.host_live[fullest])}`, bgcolor: css("--back") + "b0" });
  }
}

function addPeak(look, run) {
  if (!run.count) return;
  const at = axisOf(run)[run.peak], left = at > 0.6 * axisEnd(run);
  look.annotations.push({ x: at, y: run.peak_bytes, text: `peak ${bytesText(run.peak_bytes)}, ${escaped(peakPlace(run, run.peak))}`, ax: left ? -40 : 40, ay: -16, xanchor: left ? "right" : "left", arrowhead: 2, arrowcolor: css("--text"), bgcolor: css("--back") + "b0" });
  const chosen = data.runs.indexOf(run) === state.run && state.moment !== run.peak;
  if (chosen) {
    const x = axisOf(run)[state.moment];
    look.shapes.push({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { color: css("--text"), width: 1 } });
  }
}

function listen(id, run, index) {
  const figure = byId(id);
  if (figure.dataset.listens) return;
  figure.dataset.listens = "yes";
  figure.on("plotly_relayout", (change) => {
    if (change["xaxis.autorange"] || change["xaxis.range[0]"] !== undefined) {
      const whole = change["xaxis.autorange"] === true;
      const from = whole ? 0 : Math.max(0, change["xaxis.range[0]"]);
      const to = whole ? axisEnd(run) : Math.min(axisEnd(run), change["xaxis.range[1]"]);
      memoryFigure(run, index, from, to);
      if (state.axis === "time" && index === state.run) enginesFigure(from, to);
    }
  });
  figure.on("plotly_doubleclick", () => {
    memoryFigure(run, index, 0, axisEnd(run));
    if (index === state.run) enginesFigure(0, run.seconds);
    return false;
  });
  figure.on("plotly_click", (event) => {
    const point = event.points.find((found) => found.customdata !== undefined);
    if (point) showMoment(index, point.customdata);
  });
}
