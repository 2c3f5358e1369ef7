"use strict";
// What is live at one moment of one run, by module tree and by source line.

// Of more leaves than this the smallest of each parent are one for each kind.
const MOST_LEAVES = 250;
// Of small leaves with what was searched for so many are told apart.
const MOST_HITS = 200;
// Of a tree with more modules those that would be narrower than a pixel are one for each parent, and
// of these with what was searched for so many are told apart.
const MOST_NODES = 1500;
const LEAST_DRAWN = 1 / 2000;
const MOST_NODES_HIT = 200;
// Smaller parts of the whole have no room for their names.
const LEAST_NAMED = 1 / 150;
const NOWHERE = "(outside any module)";

function showStep(run, step) {
  state.run = run;
  state.step = step;
  liveControls();
  liveFigures();
  data.runs.forEach((other, index) => {
    const range = byId(`memory-${index}`).layout.xaxis.range;
    memoryFigure(other, index, range[0], range[1]);
  });
  enginesFigure(0, data.runs[run].seconds);
}

function liveControls() {
  const controls = byId("live-controls");
  controls.replaceChildren();
  if (data.runs.length > 1) {
    const options = data.runs.map((run, index) => [String(index), run.label]);
    choice(controls, "which run", options, String(state.run), (index) => showStep(Number(index), data.runs[index].peakStep));
  }
  const run = data.runs[state.run];
  if (state.step !== run.peakStep) {
    const back = element("button", "back to the peak");
    back.type = "button";
    back.addEventListener("click", () => showStep(state.run, run.peakStep));
    controls.append(back);
  }
}

function liveFigures() {
  const run = data.runs[state.run];
  if (!run.count) return;
  const rows = liveRows(run, chosenMoment());
  const where = state.step === run.peakStep ? "At the peak" : "At this moment";
  byId("live-at").textContent = `${where} (${run.label}): ${bytesText(run.total[chosenMoment()])}; ${stepLines(run, state.step).join("; ")}`;
  const modules = moduleTree(run, rows);
  icicle("live-modules", modules);
  icicle("live-sources", sourceTree(run, rows));
  moduleTable(modules);
  kindTable(run);
}

// ---- trees: ids are paths, values add up exactly

class Tree {
  constructor(name) {
    this.leaves = 0;
    this.nodes = new Map([["", { name, parent: null, bytes: 0, leaves: [], children: 0 }]]);
  }

  node(path, name, parent) {
    if (!this.nodes.has(path)) {
      this.nodes.set(path, { name, parent, bytes: 0, leaves: [], children: 0 });
      this.nodes.get(parent).children++;
    }
    return path;
  }

  add(path, leaf) {
    this.leaves++;
    this.nodes.get(path).leaves.push(leaf);
    const hit = isHit(leaf.row);
    for (let at = path; at !== null; at = this.nodes.get(at).parent) {
      this.nodes.get(at).bytes += leaf.bytes;
      if (hit) this.nodes.get(at).hit = true;
    }
  }
}

function leafOf(run, row) {
  const table = run.tensors;
  const maker = table.operator[row];
  const lines = [
    `<b>%${escaped(text(table.name[row]))}</b> ${escaped(text(table.type[row]))}`,
    escaped(text(table.role[row])),
    maker >= 0 ? `${escaped(text(run.operators.operator[maker]))}: ${escaped(text(run.operators.shapes[maker]))}` : "there before the step",
    escaped([text(table.module[row]) || NOWHERE, text(table.source[row])].filter((word) => word).join("  ")),
  ];
  return { bytes: table.bytes[row], kind: table.kind[row], name: `%${text(table.name[row])}`, lines, row };
}

function scratchLeaf(run) {
  const scratch = run.moments.scratch[chosenMoment()];
  if (!scratch) return null;
  return { bytes: scratch, kind: data.kinds.indexOf("workspace"), name: "workspace", lines: stepLines(run, state.step).map(escaped), row: -1 };
}

function moduleTree(run, rows) {
  const tree = new Tree("the step");
  const place = (module) => {
    if (!module) return tree.node(NOWHERE, NOWHERE, "");
    let path = "";
    for (const part of module.split(".")) path = tree.node(path ? `${path}.${part}` : part, part, path);
    return path;
  };
  for (const row of rows) {
    const module = text(run.tensors.module[row]);
    const batch = run.tensors.operator[row] < 0 && !module;
    tree.add(batch ? tree.node("(inputs)", "(inputs)", "") : place(module), leafOf(run, row));
  }
  const scratch = scratchLeaf(run);
  if (scratch) tree.add(place(text(run.operators.module[run.moments.operator[chosenMoment()]])), scratch);
  return tree;
}

function sourceTree(run, rows) {
  const tree = new Tree("the step");
  const place = (source, missing) => {
    if (!source) return tree.node(missing, missing, "");
    const [, file, line] = source.match(/^(.*):(\d+)$/) || [null, source, ""];
    const path = tree.node(file, file, "");
    return line ? tree.node(source, `line ${line}`, path) : path;
  };
  for (const row of rows) {
    const missing = run.tensors.operator[row] < 0 ? "(there before the step)" : "(no source line)";
    tree.add(place(text(run.tensors.source[row]), missing), leafOf(run, row));
  }
  const scratch = scratchLeaf(run);
  if (scratch) tree.add(place(text(run.operators.source[run.moments.operator[chosenMoment()]]), "(no source line)"), scratch);
  return tree;
}

// Leaves that are drawn for a node: all, or the largest and, by kind, the sums of the others.
function drawnLeaves(tree, node, total, counted) {
  const leaves = [...node.leaves].sort((a, b) => b.bytes - a.bytes);
  if (tree.leaves <= MOST_LEAVES) return leaves;
  const kept = new Set(leaves.filter((leaf) => leaf.bytes > total / 500 || (counted.hits < MOST_HITS && isHit(leaf.row) && counted.hits++ < MOST_HITS)));
  const rest = new Map();
  for (const leaf of leaves) {
    if (kept.has(leaf)) continue;
    const sum = rest.get(leaf.kind) || { bytes: 0, kind: leaf.kind, tensors: 0, row: -1 };
    sum.bytes += leaf.bytes;
    sum.tensors++;
    rest.set(leaf.kind, sum);
  }
  for (const sum of rest.values()) {
    sum.name = `${plural(sum.tensors, "smaller tensor")}: ${data.kinds[sum.kind]}`;
    sum.lines = [escaped(sum.name)];
  }
  return [...kept, ...rest.values()];
}

// The nodes that are drawn, parents before what is in them, and by parent how many are not, and how
// much is in those.
function drawnNodes(tree) {
  const order = [...tree.nodes].filter(([, node]) => node.bytes).sort((a, b) => b[1].bytes - a[1].bytes);
  if (order.length <= MOST_NODES) return { drawn: order, folded: new Map() };
  const least = tree.nodes.get("").bytes * LEAST_DRAWN, drawn = [], paths = new Set(), folded = new Map();
  let hits = 0;
  for (const [path, node] of order) {
    if (node.parent !== null && !paths.has(node.parent)) continue;
    if (node.bytes >= least || (node.hit && hits++ < MOST_NODES_HIT)) {
      drawn.push([path, node]);
      paths.add(path);
      continue;
    }
    const sum = folded.get(node.parent) || { modules: 0, bytes: 0 };
    sum.modules++;
    sum.bytes += node.bytes;
    folded.set(node.parent, sum);
  }
  return { drawn, folded };
}

// A number says nothing without what it is a number of.
const labelOf = (tree, node) => (/^\d+$/.test(node.name) && node.parent ? `${labelOf(tree, tree.nodes.get(node.parent))}.${node.name}` : node.name);

function icicle(id, tree) {
  const total = tree.nodes.get("").bytes;
  const figure = { ids: [], labels: [], texts: [], parents: [], values: [], colours: [], hovers: [] };
  const put = (key, name, parent, bytes, colour, hover) => {
    figure.ids.push(key);
    figure.labels.push(escaped(name));
    figure.texts.push(bytes < total * LEAST_NAMED ? "" : `${escaped(name)}<br>${bytesText(bytes)}`);
    figure.parents.push(parent);
    figure.values.push(bytes);
    figure.colours.push(colour);
    figure.hovers.push(`${hover}<br>${bytesText(bytes)}, ${percent(bytes, total)}`);
  };
  const { drawn, folded } = drawnNodes(tree), counted = { hits: 0 };
  for (const [path, { modules, bytes }] of folded) {
    const name = plural(modules, "smaller part");
    put(`/${path}#`, name, `/${path}`, bytes, css("--panel"), `${name} of ${escaped(path || "the step")}; the search box finds them`);
  }
  for (const [path, node] of drawn) {
    put(`/${path}`, labelOf(tree, node), node.parent === null ? "" : `/${node.parent}`, node.bytes, css("--panel"), escaped(path || node.name));
    for (const leaf of drawnLeaves(tree, node, total, counted)) {
      if (!leaf.bytes) continue;
      const faded = state.query && !isHit(leaf.row) ? "40" : "";
      put(`/${path}#${leaf.name}`, leaf.name, `/${path}`, leaf.bytes, kindColour(leaf.kind) + faded, leaf.lines.join("<br>"));
    }
  }
  const trace = {
    type: "icicle",
    ids: figure.ids, labels: figure.labels, text: figure.texts, parents: figure.parents, values: figure.values,
    branchvalues: "total", sort: true, maxdepth: 8,
    marker: { colors: figure.colours, line: { color: css("--back"), width: 1 } },
    hovertext: figure.hovers, hovertemplate: "%{hovertext}<extra></extra>",
    textinfo: "text",
    textfont: { color: figure.colours.map(inkOn) },
    leaf: { opacity: 1 },
    tiling: { orientation: "v", pad: 1 },
    pathbar: { visible: true, side: "top" },
    root: { color: "rgba(0,0,0,0)" },
  };
  draw(id, [trace], layout(id === "live-modules" ? 440 : 300, { uniformtext: { minsize: 10, mode: "hide" }, margin: { l: 4, r: 4, t: 26, b: 4 } }));
}

// ---- tables beside

const MOVES = [["recompute", "computed again"], ["swap", "on the host for a while"]];

const inside = (module, path) => module === path || module.startsWith(`${path}.`);
const tensorsIn = (tree, path) => [...tree.nodes].reduce((sum, [other, node]) => sum + (inside(other, path) ? node.leaves.length : 0), 0);

// How much of what a module makes in the step is computed again, or leaves for the host.
function movedText(kind, path) {
  const own = data.moved.filter((row) => row.kind === kind && inside(row.module, path));
  const bytes = bytesText(own.reduce((sum, row) => sum + row.bytes, 0));
  return own.length ? `${number(own.length)}: ${bytes}${own.some((row) => row.parts > 1) ? " a part" : ""}` : "";
}

// The largest modules first, each with everything inside it.
function moduleTable(tree) {
  const nodes = [...tree.nodes].filter(([path, node]) => path && node.bytes);
  const total = tree.nodes.get("").bytes;
  const ranked = nodes.sort((a, b) => b[1].bytes - a[1].bytes).slice(0, 12);
  const names = ["module, with all inside", "live", "of all", "tensors"];
  const told = state.run === data.runs.length - 1 ? MOVES.filter(([kind]) => data.moved.some((row) => row.kind === kind)) : [];
  const table = tableOf([...names, ...told.map(([, words]) => words)], ranked.map(([path, node]) => [
    path, bytesText(node.bytes), percent(node.bytes, total), number(tensorsIn(tree, path)), ...told.map(([kind]) => movedText(kind, path)),
  ]));
  table.querySelectorAll("tbody tr").forEach((line, index) => share(line.children[0], ranked[index][1].bytes / total));
  byId("live-rows").replaceChildren(element("h3", "Modules that hold most"), table);
}

function kindTable(run) {
  const total = run.total[chosenMoment()];
  const rows = data.kinds
    .map((name, kind) => [name, run.byKind[kind][chosenMoment()]])
    .filter(([, bytes]) => bytes > 0)
    .sort((a, b) => b[1] - a[1]);
  const table = tableOf(["kind", "live", "of all"], rows.map(([name, bytes]) => [name, bytesText(bytes), percent(bytes, total)]));
  byId("live-kinds").replaceChildren(element("h3", "By kind"), table);
}

function share(cell, part) {
  const bar = element("span", undefined, "share");
  bar.style.width = `${(100 * part).toFixed(1)}%`;
  cell.append(bar);
}

// All columns but the first hold numbers unless `words` names them.
function tableOf(names, rows, words = []) {
  const table = element("table");
  const head = table.createTHead().insertRow();
  const kind = (column) => (column > 0 && !words.includes(names[column]) ? "number" : "");
  names.forEach((name, column) => head.append(element("th", name, kind(column))));
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((cell, column) => line.append(kind(column) ? element("td", cell, kind(column)) : named("td", cell)));
  }
  return table;
}
