"""The evaluation's page in a real browser: every figure drawn, whatever is chosen, no error.

A screenshot is left in build/screenshots.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser
from experiments import EXPERIMENTS, Settings
from page import page
from paper_figures import made_up
from planners import PLANNERS
from suite import as_json
from verdicts import verdicts

SHOTS = Path(__file__).parents[3] / "build" / "screenshots"
QUICK = Settings(seconds=3.0, peer_seconds=1.0, quick=True)

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed; scripts/setup_packages.sh does"
)


@pytest.fixture(scope="module")
def text() -> str:
    results, records = made_up(QUICK)
    found = verdicts(QUICK, results)
    return page(QUICK, list(EXPERIMENTS), results, found, as_json(QUICK, records, found))


@pytest.fixture(scope="module")
def browser(text: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    file = tmp_path_factory.mktemp("page") / "index.html"
    file.write_text(text)
    found = Browser()
    found.open(file)
    yield found
    found.close()


def in_section(browser: Browser, figure: str, script: str) -> Any:
    """The value of an expression over `section`, the figure's part of the page."""
    section = f"document.getElementById('figure-{figure}')"
    return browser.evaluate(f"((section) => {script})({section})")


SHOWN = "section.querySelector('.panel:not([hidden])')"


@pytest.mark.parametrize("figure", EXPERIMENTS)
def test_a_figure_is_drawn_in_every_choice(figure: str, browser: Browser) -> None:
    panels = in_section(
        browser,
        figure,
        "[...section.querySelectorAll('.panel')].map((panel) => panel.dataset.choices)",
    )
    assert panels
    for choices in map(json.loads, panels):
        for name, value in choices.items():
            select = f"section.querySelector('select[name={json.dumps(name)}]')"
            event = f"{select}.dispatchEvent(new Event('change'))"
            in_section(browser, figure, f"{{{select}.value = {json.dumps(value)}; {event};}}")
        shown = in_section(browser, figure, f"{SHOWN}.dataset.choices")
        assert json.loads(shown) == choices
        drawn = f"{SHOWN}.querySelectorAll('.trace, .points > .point, .bars').length"
        assert in_section(browser, figure, drawn) > 0
        assert in_section(browser, figure, f"{SHOWN}.querySelectorAll('td').length") > 0
    assert browser.errors == []


def traces_of(browser: Browser, figure: str) -> list[dict[str, Any]]:
    """In all its panels."""
    script = "Object.entries(charts).filter(([name]) => name.startsWith(PREFIX)).map(([, c]) => c)"
    found = browser.evaluate(script.replace("PREFIX", json.dumps(f"chart-{figure}-")))
    return [trace for chart in found for trace in chart["data"]]


@pytest.mark.parametrize("figure", EXPERIMENTS)
def test_the_papers_figures_are_hollow(figure: str, browser: Browser) -> None:
    """On a figure of ours alone, that of what really ran, they are what was promised."""

    def is_hollow(trace: dict[str, Any]) -> bool:
        marker = trace["marker"]
        return "open" in marker.get("symbol", "") or "rgba(0,0,0,0)" in marker.get("color", "")

    assert any(map(is_hollow, traces_of(browser, figure)))


@pytest.mark.parametrize("figure", ["9", "10", "11"])
def test_every_planner_is_in_the_figures(figure: str, browser: Browser) -> None:
    assert {trace["name"] for trace in traces_of(browser, figure)} >= set(QUICK.planners)


def test_the_page_says_what_was_simplified_and_how_to_repeat(text: str, browser: Browser) -> None:
    rows = browser.evaluate(
        "[...document.querySelectorAll('#planners tr')].map((row) => row.textContent)"
    )
    said = [row.replace("\u00a0", " ") for row in rows]
    for planner in PLANNERS.values():
        assert planner.name + planner.published + planner.simplified in said
    for figure in EXPERIMENTS:
        command = in_section(browser, figure, "section.querySelector('.repeat').textContent")
        assert f"--figures {figure} " in command


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_a_narrow_window(dark: bool, browser: Browser) -> None:
    browser.evaluate(f"root.dataset.theme = '{'dark' if dark else 'light'}'; drawVisible()")
    size = {"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    browser.wait_for("document.documentElement.scrollWidth <= 700", timeout=20)
    browser.screenshot(SHOTS / f"paper-{'dark' if dark else 'light'}.png")
    size["width"] = 1280
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    assert browser.errors == []
