"use strict";
// Loops, what is computed again or swapped, the frontier, the search, what differs.

const MOST_ROWS = 20;

// ---- loops, as a tree

function splitTree() {
  const loops = data.items.filter((item) => item.kind === "split");
  byId("split").hidden = loops.length === 0;
  const parent = byId("split-tree");
  const places = new Map([["", parent]]);
  for (const loop of loops) {
    const box = element("div", undefined, "loop");
    box.dataset.loop = loop.loop;
    box.append(element("h3", `${loop.loop}: ${loopTitle(loop)}`));
    box.append(element("div", `${plural(loop.operators, "operator")}${loop.first ? `, from ${placeText(loop.first)} to ${placeText(loop.last)}` : ""}`));
    if (loop.whole_bytes) {
      box.append(element("div", `Gain: ${bytesText(loop.whole_bytes)} of the old peak are ${bytesText(loop.part_bytes)} now.`));
      const rows = loop.held.map((group) => [`${number(group.tensors)} x ${group.operator}, ${group.module || NOWHERE}`, bytesText(group.whole_bytes), bytesText(group.part_bytes)]);
      box.append(tableOf(["made in it, and live at the old peak", "whole", "a part"], rows));
    }
    box.append(element("div", priceText(loop.price)));
    const whole = [[loop.concatenated_bytes, "put side by side"], [loop.combined_bytes, "added up over the parts"]].filter(([bytes]) => bytes);
    if (whole.length) box.append(element("div", `Whole from its begin on: ${whole.map(([bytes, words]) => `${bytesText(bytes)} ${words}`).join(", ")}.`));
    (places.get(loop.inside) || parent).append(box);
    places.set(loop.loop, box);
  }
}

function loopTitle(loop) {
  const rest = loop.length % loop.part;
  return `${loop.axis_text}, ${plural(loop.parts, "part")} of ${number(loop.part)}${rest ? `, the last of ${number(rest)}` : ""}`;
}

function placeText(place) {
  return `${place.operator} of ${place.module || place.source || NOWHERE}${place.backward ? " (backward)" : ""}`;
}

function priceText(price) {
  if (price.whole_seconds === null) {
    return `Price: its operators take ${secondsText(price.part_seconds)} in parts. As operators were rewritten too, what they would take whole is told below for all regions together.`;
  }
  const more = price.part_seconds - price.whole_seconds;
  return `Price: its operators take ${secondsText(price.part_seconds)} in parts and ${secondsText(price.whole_seconds)} whole, ${secondsText(Math.abs(more))} ${more < 0 ? "less" : "more"}.`;
}

// ---- tensors that move

const MOVED = [
  ["what", (row) => (row.kind === "swap" ? "on the host" : "computed again")],
  ["tensor", (row) => `%${row.tensor}`],
  ["operator", (row) => row.operator],
  ["module", (row) => [row.module || NOWHERE, row.source].filter((word) => word).join("  ")],
  ["size", (row) => row.bytes, (bytes, row) => bytesText(bytes) + (row.parts > 1 ? " a part" : "")],
  ["times a step", (row) => row.times, (times, row) => number(times) + (row.parts > 1 ? ` in ${plural(row.parts, "part")}` : "")],
  ["time a step", (row) => row.seconds, secondsText],
  ["away for", (row) => row.distance, secondsText],
  ["operators between", (row) => row.operators, number],
];
const moved = { column: 4, falling: true, all: false };

function movedTable() {
  byId("moved").hidden = data.moved.length === 0;
  if (!data.moved.length) return;
  const value = MOVED[moved.column][1];
  const rows = data.moved.filter((row) => !state.query || isHitName(row.tensor)).sort((a, b) => {
    const [x, y] = moved.falling ? [value(b), value(a)] : [value(a), value(b)];
    return typeof x === "number" ? x - y : x.localeCompare(y);
  });
  const shown = moved.all ? rows : rows.slice(0, MOST_ROWS);
  const words = MOVED.filter(([, , format]) => !format).map(([name]) => name);
  const table = tableOf(MOVED.map(([name]) => name), shown.map((row) => MOVED.map(([, read, format]) => (format ? format(read(row), row) : read(row)))), words);
  table.querySelectorAll("th").forEach((cell, column) => sortsBy(cell, column));
  const again = rows.filter((row) => row.kind === "recompute"), host = rows.filter((row) => row.kind === "swap");
  const total = (list) => `${plural(list.length, "tensor")}, ${bytesText(list.reduce((sum, row) => sum + row.bytes, 0))}${list.some((row) => row.parts > 1) ? " with one part of those in loops" : ""}`;
  const note = element("p", [again.length && `Computed again: ${total(again)}, ${secondsText(again.reduce((sum, row) => sum + row.seconds, 0))} a step.`, host.length && `On the host for a while: ${total(host)}.`].filter((part) => part).join(" "));
  byId("moved-rows").replaceChildren(note, table);
  if (rows.length > shown.length) {
    const button = element("button", `show all ${number(rows.length)}`, "more");
    button.addEventListener("click", () => { moved.all = true; movedTable(); });
    byId("moved-rows").append(button);
  }
}

function sortsBy(cell, column) {
  cell.classList.add("sorts");
  if (column === moved.column) cell.setAttribute("aria-sort", moved.falling ? "descending" : "ascending");
  cell.addEventListener("click", () => {
    moved.falling = column === moved.column ? !moved.falling : MOVED[column][2] !== undefined;
    moved.column = column;
    movedTable();
  });
}

// ---- frontier

const WITHOUT_FRONTIER = "What more memory would buy, and what less would cost, is told here of a plan among others: `magis optimize GRAPH --frontier -o FOLDER` finds them all, and `magis report PLAN --frontier FOLDER` shows this plan among them.";

function frontierFigure() {
  const frontier = data.frontier, peers = data.peers;
  const known = frontier || peers.length;
  byId("frontier").hidden = !known && !data.search;
  byId("frontier-figure").hidden = !known;
  byId("frontier-note").hidden = !frontier && !data.search;
  if (data.search && !frontier) byId("frontier-note").textContent = WITHOUT_FRONTIER;
  if (!known) return;
  const traces = [];
  const point = (name, bytes, seconds, symbol, colour, words = "top center") => ({ type: "scatter", mode: "markers+text", name, x: [bytes], y: [seconds], text: [escaped(name)], textposition: words, marker: { symbol, size: 12, color: colour, line: { width: 1, color: css("--back") } }, hovertemplate: `${escaped(name)}<br>${bytesText(bytes)}, ${secondsText(seconds)}<extra></extra>` });
  if (frontier) {
    traces.push({
      type: "scatter", mode: "lines+markers", name: "plans",
      x: frontier.plans.map((plan) => plan.peak_bytes), y: frontier.plans.map((plan) => plan.seconds),
      line: { shape: "hv", color: css("--link"), width: 1.5 }, marker: { size: 7, color: css("--link") },
      text: frontier.plans.map((plan, index) => [`plan ${index + 1}: ${bytesText(plan.peak_bytes)}, ${secondsText(plan.seconds)}`, plan.parts.length ? `parts: ${plan.parts.join(", ")}` : "nothing in parts", `${plural(plan.recomputed, "operator")} computed again, ${plural(plan.swapped, "use")} after a time on the host`, `${bytesText(plan.host_bytes)} on the host`].join("<br>")),
      hovertemplate: "%{text}<extra></extra>",
    });
    traces.push(point("before", frontier.baseline_peak_bytes, frontier.baseline_seconds, "square", css("--faint")));
  }
  data.runs.filter((run) => !frontier || run.label !== "before").forEach((run) => traces.push(point(run.label === "after" ? "this plan" : run.label, run.peak_bytes, run.seconds, "star", css("--accent"), "top right")));
  peers.forEach((peer) => traces.push(point(peer.name, peer.peak_bytes, peer.seconds, "diamond", kindColour(6))));
  const widest = 1.08 * most(traces.flatMap((trace) => trace.x));
  const bound = data.lines.find((line) => line.name === "lower bound");
  const shapes = bound ? [{ type: "line", x0: bound.bytes, x1: bound.bytes, yref: "paper", y0: 0, y1: 1, line: { dash: "dash", width: 1.5, color: GREEN[state.theme] } }] : [];
  const annotations = bound ? [{ x: bound.bytes, xanchor: "left", yref: "paper", y: 1, yanchor: "top", showarrow: false, text: `lower bound ${bytesText(bound.bytes)}`, font: { color: shapes[0].line.color, size: 12 } }] : [];
  draw("frontier-figure", traces, layout(380, {
    hovermode: "closest", shapes, annotations,
    xaxis: axis({ title: { text: "peak memory" }, range: [0, widest], ...byteTicks(widest) }),
    yaxis: axis({ title: { text: "time of a step", standoff: 12 }, automargin: true, ...SECONDS, rangemode: "normal" }),
  }));
  if (frontier) frontierNote(frontier);
}

// What more memory would buy, and what less would cost, from this plan on.
function frontierNote(frontier) {
  const here = data.runs[data.runs.length - 1];
  const sentences = [];
  const more = frontier.plans.find((plan) => plan.peak_bytes <= here.peak_bytes + 2 ** 30);
  if (more && more.seconds < here.seconds) {
    sentences.push(`One more GiB (${bytesText(here.peak_bytes + 2 ** 30)}) would buy ${secondsText(here.seconds - more.seconds)} a step, ${percent(here.seconds - more.seconds, here.seconds)}: the plan of ${bytesText(more.peak_bytes)} takes ${secondsText(more.seconds)}.`);
  } else sentences.push("One more GiB would buy nothing: no plan of the frontier with so much is faster.");
  const less = frontier.plans.find((plan) => plan.peak_bytes <= here.peak_bytes - 2 ** 30);
  sentences.push(less ? `One GiB less would cost ${secondsText(less.seconds - here.seconds)} a step: the plan of ${bytesText(less.peak_bytes)} takes ${secondsText(less.seconds)}.` : "No plan of the frontier takes a GiB less.");
  byId("frontier-note").textContent = sentences.join(" ");
}

// ---- search

function progressFigure() {
  const found = data.search;
  byId("progress").hidden = !found || !found.elapsed.length;
  if (byId("progress").hidden) return;
  const highest = 1.05 * most([...found.peak_bytes, ...found.bound_bytes]);
  const longest = 1.05 * most(found.seconds) || 1;
  const last = most(found.elapsed) || 1, first = Math.min(last / 2, ...found.elapsed.filter((at) => at > 0));
  const line = (name, y, colour, more) => ({ type: "scatter", mode: "lines", name, x: found.elapsed, y, line: { shape: "hv", color: colour, width: 2, ...more } });
  const traces = [
    { ...line("best peak", found.peak_bytes, css("--link")), text: found.elapsed.map((at, row) => `${bytesText(found.peak_bytes[row])}, ${secondsText(found.seconds[row])} a step<br>after ${secondsText(at)}, ${number(found.states[row])} states${found.met[row] ? "" : "<br>limit not met"}`), hovertemplate: "%{text}<extra></extra>" },
    { ...line("lower bound", found.bound_bytes, GREEN[state.theme], { dash: "dash" }), hoverinfo: "skip" },
    { ...line("its time", found.seconds, css("--faint"), { width: 1.5 }), yaxis: "y2", hoverinfo: "skip" },
  ];
  draw("progress-figure", traces, layout(300, {
    showlegend: true, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, margin: { l: 76, r: 76, t: 34, b: 40 },
    hovermode: "x",
    xaxis: axis({ title: { text: "since the search began" }, type: "log", range: [Math.log10(first), Math.log10(last)], ...powerTicks(first, last) }),
    yaxis: axis({ range: [0, highest], automargin: true, ...byteTicks(highest), title: { text: "peak memory", standoff: 12 } }),
    yaxis2: axis({ overlaying: "y", side: "right", range: [0, longest], ...secondTicks(longest), showgrid: false, automargin: true, title: { text: "time of a step", standoff: 12 } }),
  }));
}

// ---- two plans

function differences() {
  const sections = data.differences || [];
  byId("differences").hidden = sections.length === 0;
  byId("difference-rows").replaceChildren(...sections.flatMap((section) => [
    element("h3", section.title), tableOf(section.columns, section.rows, section.words),
  ]));
}
