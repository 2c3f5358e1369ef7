"use strict";
// Opens the page: unpacks data and library, draws the first figure, then the others.

const FIGURES = [memoryFigures, liveFigures, wholeEngines, splitTree, movedTable, differences, frontierFigure, progressFigure];

function wholeEngines() {
  enginesFigure(0, data.runs[state.run].seconds);
}

function drawAll() {
  byId("memory-controls").replaceChildren();
  memoryControls();
  liveControls();
  FIGURES.forEach((figure) => figure());
}

function setTheme(theme, redraw) {
  state.theme = theme;
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  if (redraw) {
    byId("split-tree").replaceChildren();
    drawAll();
  }
}

// Paper is white, and as wide as it is.
function listenToPrinting() {
  let before = null;
  window.addEventListener("beforeprint", () => {
    before = state.theme;
    setTheme("light", true);
    document.querySelectorAll(".js-plotly-plot").forEach((figure) => Plotly.relayout(figure, { width: 680 }));
  });
  window.addEventListener("afterprint", () => {
    document.querySelectorAll(".js-plotly-plot").forEach((figure) => Plotly.relayout(figure, { width: null, autosize: true }));
    if (before) setTheme(before, true);
  });
}

// Links to what is on the page.
function places() {
  const sections = [...document.querySelectorAll("main section")].filter((section) => !section.hidden && section.querySelector("h2"));
  byId("places").replaceChildren(...sections.map((section) => {
    const link = element("a", section.querySelector("h2").textContent);
    link.href = `#${section.id}`;
    return link;
  }));
}

const nextFrame = () => new Promise((resolve) => setTimeout(resolve, 0));

async function open() {
  document.documentElement.classList.add("scripted");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light", false);
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old for the figures; it has no DecompressionStream");
  const [json, library] = await Promise.all([unpacked("page-data"), unpacked("page-library")]);
  prepare(JSON.parse(json));
  const script = document.createElement("script");
  script.textContent = library;
  document.head.append(script);
  memoryControls();
  liveControls();
  for (const figure of FIGURES) {
    figure();
    await nextFrame();
  }
  places();
  listenToSearch();
  listenToPrinting();
  byId("theme").addEventListener("click", () => setTheme(state.theme === "dark" ? "light" : "dark", true));
  dark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light", true));
  window.magisReport = { data, state, openedAfter: performance.now() };
  document.documentElement.dataset.ready = "yes";
}

open().catch((error) => {
  document.documentElement.classList.remove("scripted");
  byId("unscripted").textContent = `The figures cannot be drawn: ${error.message}`;
  document.documentElement.dataset.ready = "failed";
  console.error(error);
});
