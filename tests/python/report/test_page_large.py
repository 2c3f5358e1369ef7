"""Pages of steps with tens of thousands of operators: small enough, and quick to answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from page_browser import SIX_MB, opened

from magis import _core
from magis.report.page import report_data, write_page

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed; scripts/setup_packages.sh does"
)


def chain(length: int) -> str:
    """So many operators in a thousand modules, without a source line; each result dies early."""
    lines = ["magis 1", "device cpu"]
    lines += [f'site @{i + 1} "net.block.{i // 10}.part.{i % 10}" ""' for i in range(1000)]
    lines += ['batch %x "[0]" : f32[64]', "%a0 = aten.tanh(%x) : f32[64] @1"]
    lines += [
        f"%a{i} = aten.mul.Tensor(%a{i - 1}, %x) : f32[64] @{i % 1000 + 1}"
        for i in range(1, length)
    ]
    return "\n".join([*lines, f'output loss "" %a{length - 1}']) + "\n"


def test_fifty_thousand_operators_and_no_source_lines(browser: Browser, tmp_path: Path) -> None:
    graph = _core.Graph.parse(chain(50_000), "chain")
    page = tmp_path / "chain.html"
    write_page(page, report_data(None, "cpu", captured=graph))
    assert page.stat().st_size <= SIX_MB
    seconds = opened(browser, page)
    print(f"50,000 operators: {page.stat().st_size:,} bytes, opened in {seconds:.2f} s")
    assert browser.errors == []
    assert browser.evaluate("data.runs[0].count") == 50_000
    # Zoomed in, single operators are told apart.
    browser.evaluate("state.axis = 'order'; memoryFigure(data.runs[0], 0, 30000, 30010)")
    shown = browser.evaluate("document.getElementById('memory-0').data[0].x.length")
    assert shown <= 14
    assert "(no source line)" in browser.evaluate(
        "document.getElementById('live-sources').data[0].labels.join()"
    )


def blocks(count: int) -> str:
    """A thousand blocks of eight modules, as stacked transformers have them: the outputs of all are
    there at the end.
    """
    lines = ["magis 1", "device cpu", 'batch %x "[0]" : f32[64]']
    paths = [f"net.block.{i // 8}.part_{'abcdefgh'[i % 8]}" for i in range(count)]
    lines[2:2] = [f'site @{i + 1} "{path}" "net.py:{i % 8}"' for i, path in enumerate(paths)]
    lines += [f"%a{i} = aten.mul.Tensor(%x, %x) : f32[64] @{i + 1}" for i in range(count)]
    return "\n".join([*lines, *(f'output aux "{i}" %a{i}' for i in range(count))]) + "\n"


def test_thousands_of_modules_at_the_peak_are_few_boxes(browser: Browser, tmp_path: Path) -> None:
    """Boxes narrower than a pixel only make the page slow; what is searched for is told apart."""
    page = tmp_path / "blocks.html"
    write_page(page, report_data(None, "cpu", captured=_core.Graph.parse(blocks(8000))))
    opened(browser, page)
    boxes = "byId('live-modules').data[0].ids"
    assert browser.evaluate(f"{boxes}.length") < 4000
    assert browser.evaluate("rootValue('live-modules') === data.runs[0].total[chosenMoment()]")
    # Those of one parent come to it exactly, folded or not.
    assert browser.evaluate("unevenParents('live-modules')") == []
    found = "/net.block.777.part_c"
    assert not browser.evaluate(f"{boxes}.includes('{found}')")
    browser.evaluate("choose('net.block.777.part_c')")
    assert browser.evaluate(f"{boxes}.includes('{found}')")
    browser.evaluate("choose('net')")  # found everywhere
    assert browser.evaluate(f"{boxes}.length") < 4500
    assert browser.evaluate("unevenParents('live-modules')") == []
    assert browser.errors == []
