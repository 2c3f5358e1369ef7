"use strict";
// Charts are drawn when they are first seen, in the colours of the page.
const charts = JSON.parse(document.getElementById("charts").textContent);
const root = document.documentElement;

function coloured(layout) {
  const style = getComputedStyle(root);
  const of = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: of("--line"), zerolinecolor: of("--line"), linecolor: of("--line") };
  return {
    ...layout,
    paper_bgcolor: of("--ground"),
    plot_bgcolor: of("--ground"),
    font: { color: of("--ink"), family: "system-ui, sans-serif" },
    xaxis: { ...axis, ...layout.xaxis },
    yaxis: { ...axis, ...layout.yaxis },
  };
}

function draw(panel) {
  const place = panel.querySelector(".chart");
  if (!place) return null;
  const { data, layout } = charts[place.id];
  return Plotly.react(place, data, coloured(layout), { responsive: true, displaylogo: false });
}

function drawVisible() {
  document.querySelectorAll(".panel:not([hidden])").forEach(draw);
}

// Shows the panel that agrees with most of the choices, the one just made first of all.
function choose(section, changed) {
  const selects = [...section.querySelectorAll("select")];
  const panels = [...section.querySelectorAll(".panel")];
  if (!panels.length) return null;
  const score = (panel) => {
    const has = JSON.parse(panel.dataset.choices);
    return selects.reduce(
      (sum, select) => sum + (has[select.name] === select.value ? (select === changed ? 100 : 1) : 0), 0);
  };
  const best = panels.reduce((a, b) => (score(b) > score(a) ? b : a));
  panels.forEach((panel) => { panel.hidden = panel !== best; });
  const shown = JSON.parse(best.dataset.choices);
  selects.forEach((select) => { select.value = shown[select.name]; });
  return draw(best);
}

const sections = [...document.querySelectorAll("section.figure")];
sections.forEach((section) => {
  section.querySelectorAll("select").forEach((select) => {
    select.addEventListener("change", () => choose(section, select));
  });
});
Promise.all(sections.map((section) => choose(section, null))).then(() => {
  root.dataset.ready = "yes";
});
document.getElementById("theme").addEventListener("click", () => {
  const dark = getComputedStyle(root).colorScheme === "dark" ||
    (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.theme = dark ? "light" : "dark";
  drawVisible();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawVisible);
