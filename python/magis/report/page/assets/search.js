"use strict";
// The search box: what is typed is looked for in names, modules, operators and source lines, and
// what is found stands out in every figure.

const MOST_SUGGESTIONS = 12;
const hits = { texts: [], bytes: new Map() };

// A tensor is meant if one of its texts holds the query; a module's tensors if its path does.
function setQuery(query) {
  state.query = query.trim().toLowerCase();
  hits.texts = data.texts.map((words) => state.query !== "" && words.toLowerCase().includes(state.query.replace(/^%/, "")));
  hits.bytes.clear();
  tellFound();
  highlight();
}

function isHitRow(run, row) {
  const table = run.tensors, maker = table.operator[row];
  return hits.texts[table.name[row]] || hits.texts[table.module[row]] || hits.texts[table.source[row]] || (maker >= 0 && hits.texts[run.operators.operator[maker]]);
}

const isHit = (row) => row >= 0 && state.query !== "" && isHitRow(data.runs[state.run], row);

function isHitMoment(run, moment) {
  const row = run.moments.operator[moment];
  if (row < 0) return false;
  const { name, module, source, operator } = run.operators;
  return hits.texts[name[row]] || hits.texts[module[row]] || hits.texts[source[row]] || hits.texts[operator[row]];
}

function isHitName(copy) {
  if (!state.query) return false;
  const name = copy.split(".")[0];
  return data.runs.some((run) => {
    run.rowOf = run.rowOf || new Map(run.tensors.name.map((text_, row) => [text(text_).split(".")[0], row]));
    const row = run.rowOf.get(name);
    return row !== undefined && isHitRow(run, row);
  });
}

// Bytes of what was found at each moment of a run.
function hitBytes(run) {
  if (!hits.bytes.has(run)) {
    const series = new Float64Array(run.count);
    addUp(run, [series], (row) => (isHitRow(run, row) ? 0 : -1));
    hits.bytes.set(run, series);
  }
  return hits.bytes.get(run);
}

function tellFound() {
  const found = byId("found");
  found.hidden = state.query === "";
  if (found.hidden) return;
  const parts = data.runs.map((run) => {
    const names = new Set();
    run.tensors.name.forEach((name, row) => { if (isHitRow(run, row)) names.add(text(name).split(".")[0]); });
    return `${run.label}: ${plural(names.size, "tensor")}, ${bytesText(hitBytes(run)[run.peak] || 0)} at the peak, ${bytesText(most(hitBytes(run)))} at most`;
  });
  found.textContent = `“${state.query}”: ${parts.join("; ")}`;
}

function highlight() {
  data.runs.forEach((run, index) => {
    const range = byId(`memory-${index}`).layout.xaxis.range;
    memoryFigure(run, index, range[0], range[1]);
  });
  liveFigures();
  const range = byId("engines-figure").layout;
  if (range) enginesFigure(range.xaxis.range[0], range.xaxis.range[1]);
  movedTable();
  markWords("#decisions li, #split-tree div, #split-tree h3, #live-rows td, #difference-rows td");
}

function markWords(where) {
  const query = state.query.replace(/^%/, "");
  for (const place of document.querySelectorAll(where)) {
    if (place.querySelector("div, table, h3")) continue;
    place.classList.toggle("hit", query !== "" && place.textContent.toLowerCase().includes(query));
  }
}

// ---- suggestions

let vocabulary = null; // [what, text], each once

function words() {
  if (vocabulary) return vocabulary;
  const found = new Map();
  const put = (what, number_) => { const word = text(number_); if (word && !found.has(word)) found.set(word, what); };
  for (const run of data.runs) {
    for (const module of [...run.tensors.module, ...run.operators.module]) {
      const path = text(module).split(".");
      path.forEach((_, depth) => { const word = path.slice(0, depth + 1).join("."); if (word && !found.has(word)) found.set(word, "module"); });
    }
    run.operators.operator.forEach((operator) => put("operator", operator));
    [...run.tensors.source, ...run.operators.source].forEach((source) => put("source", source));
    run.tensors.name.forEach((name) => put("tensor", name));
  }
  vocabulary = [...found].map(([word, what]) => [what, word]);
  return vocabulary;
}

function suggest(query) {
  const list = byId("suggestions");
  const wanted = query.trim().toLowerCase().replace(/^%/, "");
  const found = wanted ? words().filter(([, word]) => word.toLowerCase().includes(wanted)) : [];
  found.sort((a, b) => a[1].length - b[1].length || (a[1] < b[1] ? -1 : 1));
  list.replaceChildren(...found.slice(0, MOST_SUGGESTIONS).map(([what, word]) => {
    const entry = element("li");
    entry.append(element("span", what, "what"), element("span", what === "tensor" ? `%${word}` : word, "who"));
    entry.addEventListener("mousedown", (event) => { event.preventDefault(); choose(word); });
    return entry;
  }));
  list.hidden = found.length === 0;
}

function choose(word) {
  byId("search").value = word;
  byId("suggestions").hidden = true;
  setQuery(word);
}

function listenToSearch() {
  const box = byId("search");
  let waiting = 0;
  box.addEventListener("input", () => {
    suggest(box.value);
    clearTimeout(waiting);
    waiting = setTimeout(() => setQuery(box.value), 250);
  });
  box.addEventListener("blur", () => { byId("suggestions").hidden = true; });
  box.addEventListener("keydown", (event) => {
    const entries = [...byId("suggestions").children];
    let at = entries.findIndex((entry) => entry.classList.contains("chosen"));
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (at >= 0) entries[at].classList.remove("chosen");
      at = (at + (event.key === "ArrowDown" ? 1 : -1) + entries.length) % (entries.length || 1);
      if (entries[at]) entries[at].classList.add("chosen");
    } else if (event.key === "Enter") {
      clearTimeout(waiting);
      const word = at >= 0 ? entries[at].querySelector(".who").textContent.replace(/^%/, "") : box.value;
      choose(word);
    } else if (event.key === "Escape") {
      box.value = "";
      choose("");
    }
  });
}
