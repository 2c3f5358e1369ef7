"use strict";
// Colours, axes and the small parts that figures share.

const KIND_COLOURS = {
  light: ["#3b6fb6", "#8fb8e8", "#b7bcc6", "#d9822b", "#2f9e77", "#c9573f", "#8e63b0", "#5b5f66"],
  dark: ["#5f94dc", "#a9cbf2", "#7b8494", "#eda35a", "#52c49a", "#e8806a", "#b48ad8", "#c3c8d0"],
};
// Room for Plotly's buttons above a figure, so that they lie on nothing.
const BUTTONS = 34;
// Figures that are narrower have no room for words on their lines.
const NARROW = 600;
const GREEN = { light: "#1f7a4d", dark: "#6fd3a0" };
const lineColour = (name) => ({ limit: css("--accent"), "lower bound": GREEN[state.theme], "time bound": css("--link") })[name] || css("--faint");
const kindColour = (kind) => KIND_COLOURS[state.theme][kind];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const byId = (id) => document.getElementById(id);

// What can be read on a colour.
function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  const faded = colour.length > 7; // what is below shines through
  if (faded) return css("--text");
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.2 ? "#14181f" : "#ffffff";
}

function layout(height, more) {
  return {
    height,
    margin: { l: 76, r: 20, t: 12, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12.5, color: css("--text") },
    hoverlabel: { align: "left", bgcolor: css("--panel"), bordercolor: css("--line"), font: { color: css("--text"), size: 12.5 }, namelength: -1 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--faint"), activecolor: css("--text") },
    showlegend: false,
    ...more,
  };
}

function axis(more) {
  return { gridcolor: css("--line"), linecolor: css("--line"), zerolinecolor: css("--line"), ...more };
}

const CONFIG = { displaylogo: false, doubleClick: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

function draw(id, traces, look) {
  return Plotly.react(id, traces, look, CONFIG);
}

// The range of a figure whose reader has zoomed, at most from 0 to `end`; null if that is not what
// changed. The event comes late: by then the figure may have been drawn with another range, and that
// is the one that counts.
function newRange(figure, change, end) {
  if (!Object.keys(change).some((key) => key.startsWith("xaxis."))) return null;
  const { range, autorange } = figure.layout.xaxis;
  return autorange ? [0, end] : [Math.max(0, range[0]), Math.min(end, range[1])];
}

// Plotly takes any two presses in short succession for a double click: a quick drag, and then a click
// elsewhere, is none.
function onDoubleClick(figure, back) {
  let presses = [];
  figure.addEventListener("mousedown", (event) => { presses = [presses[presses.length - 1], event]; }, true);
  figure.on("plotly_doubleclick", () => {
    const [first, second] = presses;
    if (first && Math.hypot(second.clientX - first.clientX, second.clientY - first.clientY) < 10) back();
    return false;
  });
}

// Ticks at round numbers of a unit of 1024s.
function byteTicks(highest) {
  let unit = 1;
  while (highest / unit >= 1024 && unit < 1024 ** 4) unit *= 1024;
  const step = roundStep(highest / unit / 5) * unit;
  const values = [];
  for (let at = 0; at <= highest * 1.0001; at += step) values.push(at);
  return { tickvals: values, ticktext: values.map((value) => (value ? bytesText(value).replace(/\.?0+ /, " ") : "0")) };
}

// The same for seconds.
function secondTicks(longest) {
  const step = roundStep(longest / 5);
  const values = Array.from({ length: Math.floor(longest / step) + 1 }, (_, at) => at * step);
  return { tickvals: values, ticktext: values.map(shortSeconds) };
}

// For an axis of powers of ten: at 1, 2 and 5 of each, where there is room for them.
function powerTicks(first, last) {
  const powers = Math.log10(last / first);
  const factors = powers < 2.5 ? [1, 2, 5] : [1];
  const values = [];
  for (let power = Math.floor(Math.log10(first)); power <= Math.log10(last); power++) {
    for (const factor of factors) if (factor * 10 ** power >= first && factor * 10 ** power <= last) values.push(factor * 10 ** power);
  }
  return { tickvals: values, ticktext: values.map(shortSeconds) };
}

const shortSeconds = (seconds) => secondsText(seconds).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");

function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
}

// Ticks as "5ms", "20us".
const SECONDS = { tickformat: ".9~s", ticksuffix: "s" };

function timeAxis(more) {
  if (state.axis !== "time") return axis({ title: { text: "moment, in program order" }, ...more });
  return axis({ title: { text: "time" }, ...SECONDS, ...more });
}

// A row of buttons, of which one is down.
function choice(parent, label, options, current, chosen) {
  const group = document.createElement("span");
  group.className = "group";
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", label);
  for (const [value, words] of options) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = words;
    button.dataset.value = value;
    button.setAttribute("aria-pressed", String(value === current));
    button.addEventListener("click", () => {
      for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
      chosen(value);
    });
    group.append(button);
  }
  parent.append(group);
}

function element(name, words, className) {
  const made = document.createElement(name);
  if (words !== undefined) made.textContent = words;
  if (className) made.className = className;
  return made;
}

// The same for names of modules, operators and files: broken after dots, slashes and underlines,
// but not before a number or a file's ending.
function named(name, words, className) {
  const pieces = words.split(/(?<=[./_])(?![./_\d]|\w+:\d)/).flatMap((piece, at) => (at ? [document.createElement("wbr"), piece] : [piece]));
  const whole = element("span");
  whole.append(...pieces);
  const made = element(name, undefined, className);
  made.append(whole);
  return made;
}

// What colours and lines of the memory figures mean: kinds that hold something in some run, levels
// of memory, bounds on time.
function legend(parent) {
  const legend = element("span", undefined, "legend");
  data.kinds.forEach((name, kind) => {
    if (!data.runs.some((run) => run.byKind[kind].some((bytes) => bytes > 0))) return;
    const entry = element("span", name);
    const swatch = element("i");
    swatch.style.background = kindColour(kind);
    entry.prepend(swatch);
    legend.append(entry);
  });
  const dashed = (line, amount, className) => {
    const entry = element("span", `${line.name} ${amount}${line.run && data.subject === "diff" ? ` (${line.run})` : ""}`);
    const dash = element("i", undefined, className);
    dash.style.borderColor = lineColour(line.name);
    entry.prepend(dash);
    legend.append(entry);
  };
  data.lines.forEach((line) => dashed(line, bytesText(line.bytes), "level"));
  data.times.forEach((line) => dashed(line, secondsText(line.seconds), "upright"));
  parent.append(legend);
}

function hitColour() {
  return state.theme === "dark" ? "#ffd54a" : "#101418";
}
