"""Pages of ours, opened in a browser."""

from __future__ import annotations

from pathlib import Path

from browser import Browser

SHOTS = Path(__file__).parents[3] / "build" / "screenshots"
PROBE = Path(__file__).parent / "page_probe.js"
SIX_MB = 6_000_000


def opened(browser: Browser, page: Path, *, dark: bool = False) -> float:
    """Seconds until the page is drawn; its probes are there then."""
    browser.errors.clear()
    seconds = browser.open(page, dark=dark, timeout=120)
    assert browser.errors == []
    assert browser.evaluate("document.documentElement.dataset.ready") == "yes"
    browser.evaluate(PROBE.read_text())
    return seconds
