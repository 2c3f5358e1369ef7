"""Pages in a real browser: drawn without an error, and hover, search, zoom and click do their work.

Screenshots are left in build/screenshots.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import viewer_plans
from browser import CHROMIUM, Browser
from page_browser import SHOTS, SIX_MB, opened
from page_support import DEVICE, planned, steps_of, zoo_graph

from magis import _core
from magis.bounds.time_bound import time_bound
from magis.report import Report
from magis.report.differences import Side, differences
from magis.report.page import diff_data, page_text, report_data, write_page
from magis.report.page.html import read_data
from magis.report.text import seconds_text
from magis.report.timeline import Timeline

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed; scripts/setup_packages.sh does"
)

# Limits under which small models split, recompute or swap.
SHARES = {"bert": 0.5, "unet": 0.6, "gpt-neo": 0.6}
FIGURES = ("memory-0", "memory-1", "live-modules", "live-sources", "engines-figure")


def drawn(browser: Browser, name: str, plan: _core.Plan, report: Report, folder: Path) -> Path:
    page = folder / f"{name}.html"
    write_page(page, report_data(plan, DEVICE, report, report.captured, title=name))
    assert page.stat().st_size <= SIX_MB
    seconds = opened(browser, page)
    print(f"{name}: {page.stat().st_size:,} bytes, opened in {seconds:.2f} s")
    return page


def check_figures(browser: Browser, report: Report) -> None:
    for figure in FIGURES:
        assert browser.evaluate(f"shapesDrawn('{figure}')") > 3, figure
    # The heights that are drawn reach the plan's peaks exactly, thinned out or not.
    for index, peak in enumerate((report.captured_peak_bytes, report.promised_peak_bytes)):
        assert browser.evaluate(f"highestDrawn({index})") == peak
    for figure in ("memory-0", "memory-1", "engines-figure", "progress-figure"):
        assert browser.evaluate(f"overlaps('{figure}')") == [], figure
    for tree in ("live-modules", "live-sources"):
        assert browser.evaluate(f"rootValue('{tree}')") == report.promised_peak_bytes


def zoom_to_peak(browser: Browser) -> None:
    browser.evaluate("state.axis = 'order'; memoryFigures()")
    browser.evaluate(
        "memoryFigure(data.runs[1], 1, data.runs[1].peakStep - 5, data.runs[1].peakStep + 6)"
    )


def check_hover(browser: Browser, report: Report) -> None:
    """Zoomed in, where an operator is wide enough to be pointed at, however short it is."""
    zoom_to_peak(browser)
    browser.move_to(*browser.evaluate("pointOf(1, data.runs[1].peakStep)"))
    browser.wait_for("document.querySelector('#memory-1 .hoverlayer .hovertext') !== null")
    text = browser.evaluate("document.querySelector('#memory-1 .hoverlayer').textContent")
    told = browser.evaluate("stepLines(data.runs[1], data.runs[1].peakStep)")
    assert told[0] in text  # the operator
    assert told[1] in text  # its shapes
    for place in told[2].split("  "):  # its module, and the source line
        assert place in text
    assert browser.evaluate(f"bytesText({report.promised_peak_bytes})") in text
    browser.evaluate("state.axis = 'time'; memoryFigures()")


def check_search(browser: Browser) -> None:
    """The module that holds most at the peak is found in the figures and the tables."""
    largest = "document.querySelector('#live-rows tbody tr td').firstChild.textContent"
    module = browser.evaluate(largest)
    browser.evaluate("window.scrollTo(0, 0); document.getElementById('search').focus()")
    browser.type(module)
    browser.wait_for("!document.getElementById('found').hidden")
    suggestions = browser.evaluate(
        "[...document.querySelectorAll('#suggestions .who')].map((entry) => entry.textContent)"
    )
    assert suggestions[0] == module
    browser.wait_for("traceOf(1, 'found') !== undefined")
    counted = browser.evaluate(f"bytesAtPeakOf(1, {json.dumps(module)})")
    assert counted > 0
    assert browser.evaluate("hitBytes(data.runs[1])[data.runs[1].peak]") == counted
    assert browser.evaluate("document.querySelectorAll('.hit').length") > 0
    assert browser.evaluate("fadedLeaves()") > 0
    browser.evaluate("choose('')")
    assert browser.evaluate("traceOf(1, 'found') === undefined")


def check_zoom_and_click(browser: Browser) -> None:
    """A mouse's own: drag, click on an operator right after that, double-click to go back."""
    browser.evaluate("slowDoubleClicks()")  # where machines are slow; drag and click are one, too
    x, y = browser.evaluate("pointOf(1, data.runs[1].peakStep)")
    whole = browser.evaluate("rangeOf(1)")
    browser.drag(x - 60, y, x + 60)
    browser.wait_for(f"rangeOf(1) < {whole} / 2")
    zoom_to_peak(browser)
    x, y = browser.evaluate("pointOf(1, data.runs[1].peakStep - 2)")
    browser.click(x, y + 40)  # not where the drag began
    browser.wait_for("state.step === data.runs[1].peakStep - 2")
    browser.wait_for("document.getElementById('live-at').textContent.startsWith('At this moment')")
    assert browser.evaluate("rootValue('live-modules') === data.runs[1].total[chosenMoment()]")
    x, y = browser.evaluate("pointOf(1, data.runs[1].peakStep - 2)")
    browser.click(x, y)
    browser.click(x, y, count=2)
    browser.wait_for("rangeOf(1) === axisEnd(data.runs[1])")
    browser.evaluate("state.axis = 'time'; memoryFigures(); showStep(1, data.runs[1].peakStep)")


@pytest.mark.parametrize("name", sorted(SHARES))
def test_a_page_is_drawn_and_answers(name: str, browser: Browser, tmp_path: Path) -> None:
    plan, report = planned(zoo_graph(name, "tiny"), SHARES[name], states=5_000)
    drawn(browser, name, plan, report, tmp_path)
    check_figures(browser, report)
    browser.screenshot(SHOTS / f"{name}-light.png")
    check_hover(browser, report)
    check_search(browser)
    check_zoom_and_click(browser)
    browser.evaluate("document.getElementById('theme').click()")
    assert browser.evaluate("document.documentElement.dataset.theme") == "dark"
    browser.screenshot(SHOTS / f"{name}-dark.png")
    assert browser.errors == []


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SHARES))
def test_full_size(name: str, browser: Browser, tmp_path: Path) -> None:
    plan, report = planned(zoo_graph(name, "full"), 0.5, states=200_000)
    drawn(browser, f"{name}-full", plan, report, tmp_path)
    check_figures(browser, report)
    check_hover(browser, report)
    check_search(browser)
    check_zoom_and_click(browser)
    browser.screenshot(SHOTS / f"{name}-full-light.png")
    assert browser.errors == []


# Three parts of two rows and one of the last; in each of them two of the columns.
NESTED = """\
magis 1
device cpu
site @1 "net" "net.py:3"
batch %x "[0]" : f32[7,512]
%a = aten.tanh(%x) : f32[7,512] @1
%y = magis.begin("r1", 2, 7, [%a]) : f32[7,512]
%p = magis.part(%a, 0, 1*r1) : f32[2,512]
%b = aten.exp(%p) : f32[2,512] @1
%z = magis.begin("r2", 256, 512, [%b], [[1*r1,512]]) : f32[2,512]
%q = magis.part(%b, 1, 1*r2) : f32[2,256]{512,1}
%c = aten.sin(%q) : f32[2,256] @1
%d = aten.cos(%c) : f32[2,256] @1
%n2 = magis.write_part(%z, 1, 1*r2, %d) : none @1
%end2 = magis.end("r2", [%z], [%b]) : none
%e = aten.exp(%z) : f32[2,512] @1
%n1 = magis.write_part(%y, 0, 1*r1, %e) : none @1
%end1 = magis.end("r1", [%y], [%a]) : none
output loss "" %y
"""


def loops() -> dict[str, _core.Plan]:
    split = viewer_plans.split_bert()  # it swaps in its loop
    return {
        "nested": _core.Plan.program_order(_core.Graph.parse(NESTED, "nested")),
        "swapping": split,
        "by hand": _core.Plan.program_order(_core.Graph.parse(viewer_plans.LOOP)),
    }


@pytest.mark.parametrize("name", ["nested", "swapping", "by hand"])
def test_every_part_of_a_loop_is_drawn(name: str, browser: Browser, tmp_path: Path) -> None:
    plan = loops()[name]
    page = tmp_path / f"{name}.html"
    write_page(page, report_data(plan, "cpu"))
    opened(browser, page)
    timeline = Timeline.of(plan, plan.simulate("cpu"), "cpu")
    steps = steps_of(timeline)
    assert len(steps) > len(timeline.moments)
    shown = browser.evaluate("stepsOfRun(data.runs.at(-1))")
    assert [step.moment for step in steps] == [row[0] for row in shown]
    for step, (_, start, end, parts) in zip(steps, shown, strict=True):
        assert (start, end) == pytest.approx((step.start, step.end), rel=1e-9, abs=1e-15)
        assert [tuple(part) for part in parts] == list(step.loops)
    # What is drawn: at every step its height, not that of the first part alone.
    figure = "memory-0"
    heights = browser.evaluate(f"heightsDrawn('{figure}')")
    live = [timeline.moments[step.moment].live_bytes for step in steps]
    persistent = plan.simulate("cpu").persistent_bytes
    assert heights[:-1] == [persistent + size for size in live]
    assert "part by part" in browser.evaluate("byId('memory-note-0').textContent")
    last = max(range(len(steps)), key=lambda at: (len(steps[at].loops), at))
    told = browser.evaluate(f"hoverText(data.runs.at(-1), {last})")
    for loop, part in steps[last].loops:
        assert f"part {part} of {part} of loop {loop}" in told
    assert browser.errors == []


def test_of_too_many_parts_the_inner_ones_are_drawn_as_high_as_they_get(
    browser: Browser, tmp_path: Path
) -> None:
    page = tmp_path / "nested.html"
    write_page(page, report_data(loops()["nested"], "cpu"))
    opened(browser, page)
    whole = browser.evaluate("data.runs[0].steps.count")
    highest = browser.evaluate("highestDrawn(0)")
    browser.evaluate(f"unfold(data.runs[0], {whole - 1}); memoryFigures()")
    steps = browser.evaluate("stepsOfRun(data.runs[0])")
    assert len(steps) < whole
    for before, after in pairwise(steps):
        assert after[1] == pytest.approx(before[2])
    assert steps[-1][2] == pytest.approx(browser.evaluate("data.runs[0].seconds"))
    assert browser.evaluate("highestDrawn(0)") == highest
    folded = browser.evaluate("[...data.runs[0].steps.folded.keys()]")
    assert len(folded) == 4  # in each part of the outer loop
    told = browser.evaluate(f"hoverText(data.runs[0], {folded[1]})")
    assert "parts 2 to 2 of loop r2, each like the first" in told
    assert "part 2 of 4 of loop r1" in told
    assert "as high as they get" in browser.evaluate("byId('memory-note-0').textContent")


def test_two_plans_on_one_page(browser: Browser, tmp_path: Path) -> None:
    graph = zoo_graph("unet", "tiny")
    sides = []
    for share in (0.9, 0.6):
        plan, report = planned(graph, share, states=2_000)
        sides.append(Side(f"{share}.json", plan, DEVICE, report.edits, report))
    page = tmp_path / "diff.html"
    write_page(page, diff_data(*sides, differences(*sides)))
    opened(browser, page)
    assert browser.evaluate("!document.getElementById('differences').hidden")
    text = browser.evaluate("document.getElementById('difference-rows').textContent")
    assert "0.9.json" in text
    assert "0.6.json" in text
    browser.screenshot(SHOTS / "diff-light.png")


EVIL = "</script><img src=x onerror=window.hit=1><b>&amp;\\u0007"


def test_names_are_shown_not_obeyed(browser: Browser, tmp_path: Path) -> None:
    lines = [
        *("magis 1", "device cpu", f'site @1 "net.{EVIL}" "{EVIL}.py:3"'),
        f'param %w "net.{EVIL}.w" : f32[256]',
        'batch %x "[0]" : f32[256]',
        "%a = aten.mul.Tensor(%w, %x) : f32[256] @1",
        "%b = aten.mul.Tensor(%a, %x) : f32[256] @1",
        'output loss "" %b',
    ]
    graph = _core.Graph.parse("\n".join(lines) + "\n", "graph")
    page = tmp_path / "evil.html"
    page.write_text(page_text(report_data(None, "cpu", captured=graph, title=EVIL)))
    opened(browser, page)
    browser.evaluate("choose('onerror')")
    browser.move_to(*browser.evaluate("pointOf(0, 0)"))
    browser.wait_for("document.querySelector('#memory-0 .hoverlayer .hovertext') !== null")
    hover = browser.evaluate("document.querySelector('#memory-0 .hoverlayer').textContent")
    assert "<img src=x onerror=window.hit=1>" in hover
    assert browser.evaluate("window.hit === undefined && document.querySelector('img') === null")
    assert browser.errors == []


def test_a_plan_alone_tells_where_its_frontier_would_come_from(
    browser: Browser, tmp_path: Path
) -> None:
    _, report = planned(zoo_graph("unet", "tiny"), 0.6, states=2_000)
    page = tmp_path / "unet.html"
    report.html(page)
    opened(browser, page)
    assert "--frontier FOLDER" in browser.evaluate("byId('frontier-note').innerText")
    assert browser.evaluate("byId('frontier-figure').getClientRects().length") == 0
    assert browser.errors == []


def test_printing_is_light_and_leaves_no_trace(browser: Browser, tmp_path: Path) -> None:
    _, report = planned(zoo_graph("unet", "tiny"), 0.6, states=2_000)
    page = tmp_path / "unet.html"
    report.html(page)
    opened(browser, page, dark=True)
    assert browser.evaluate("document.documentElement.dataset.theme") == "dark"
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert browser.evaluate("document.documentElement.dataset.theme") == "light"
    assert browser.evaluate("byId('memory-1')._fullLayout.width") < 700
    browser.evaluate("dispatchEvent(new Event('afterprint'))")
    assert browser.evaluate("document.documentElement.dataset.theme") == "dark"
    assert browser.evaluate("byId('memory-1')._fullLayout.width") > 1000
    browser.print(SHOTS / "unet.pdf")
    assert (SHOTS / "unet.pdf").read_bytes().startswith(b"%PDF")
    assert browser.errors == []


def test_without_scripts_nothing_is_empty(browser: Browser, tmp_path: Path) -> None:
    _, report = planned(zoo_graph("unet", "tiny"), 0.6, states=2_000)
    page = tmp_path / "unet.html"
    report.html(page)
    shown = "getComputedStyle(entry).display !== 'none' && entry.getClientRects().length > 0"
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.call("Page.navigate", url=page.resolve().as_uri())
        browser.wait_for(
            "document.readyState === 'complete' && document.querySelector('footer') !== null"
        )
        headings = browser.evaluate(
            f"[...document.querySelectorAll('h2')].filter((entry) => {shown})"
            ".map((entry) => entry.textContent)"
        )
        assert headings == ["Memory over time", "What was decided, and why"]
        word = f"[document.getElementById('unscripted')].some((entry) => {shown})"
        assert browser.evaluate(word)
        assert not browser.evaluate(word.replace("unscripted", "search"))
        assert browser.evaluate("document.querySelectorAll('#drawing path').length") == 2
        browser.screenshot(SHOTS / "unet-unscripted.png")
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    opened(browser, page)
    assert not browser.evaluate(word)


LONG = "network.decoder_with_a_long_name.blocks_of_the_upper_half.0.attention_over_all_positions"


def long_names(tmp_path: Path) -> Path:
    """The page of a plan with a limit, a bound on its time, and long names at its peak."""
    lines = ["magis 1", "device cpu", f'site @1 "{LONG}.{"norm" * 12}" "{"folder_" * 9}/net.py:3"']
    lines += [f'param %w "{LONG}.w" : f32[4096]', 'batch %x "[0]" : f32[4096]']
    lines.append("%a0 = aten.mul.Tensor(%w, %x) : f32[4096] @1")
    lines += [f"%a{i} = aten.exp(%a{i - 1}) : f32[4096] @1" for i in range(1, 9)]
    lines += [
        f"%b{i} = aten.mul.Tensor(%b{i + 1}, %a{i}) : f32[4096] @1 backward"
        for i in range(7, 0, -1)
    ]
    graph = _core.Graph.parse("\n".join([*lines, 'output grad "w" %b1', ""]).replace("%b8", "%a8"))
    plan, report = planned(graph, 0.7, states=2_000, fission=False, host_memory=0)
    bound = time_bound(plan, DEVICE, report.limit_bytes)
    assert bound.seconds is not None
    page = tmp_path / "long.html"
    found = replace(report, time_bound=bound).about(plan, DEVICE, report.captured)
    found.html(page)
    return page


@pytest.mark.parametrize("width", [1280, 420])
def test_long_names_lie_on_nothing_and_widen_nothing(width: int, tmp_path: Path) -> None:
    """On a phone, too, only tables scroll sideways, each in a box of its own."""
    page = long_names(tmp_path)
    browser = Browser(width, 900)
    try:
        opened(browser, page)
        assert browser.evaluate("document.documentElement.scrollWidth") == width
        assert browser.evaluate("byId('live-kinds').scrollWidth <= byId('live-kinds').clientWidth")
        for figure in ("memory-0", "memory-1"):
            assert browser.evaluate(f"overlaps('{figure}')") == []
            assert browser.evaluate(f"underButtons('{figure}')") == []
        # A head may be broken between words, and nowhere else.
        broken = "[...document.querySelectorAll('#live-rows th')].filter(breaksAWord)"
        assert browser.evaluate(f"{broken}.map((cell) => cell.textContent)") == []
        assert LONG in browser.evaluate("byId('memory-figures').textContent")
        browser.screenshot(SHOTS / f"long-{width}.png")
        assert browser.errors == []
    finally:
        browser.close()


def test_the_bound_on_time_is_drawn_and_told(browser: Browser, tmp_path: Path) -> None:
    page = long_names(tmp_path)
    data = read_data(page.read_text())
    (bound,) = data["times"]
    opened(browser, page)
    upright = "byId('memory-{}').layout.shapes.filter((line) => line.x0 === data.times[0].seconds)"
    assert browser.evaluate(upright.format(1) + ".length") == 1
    assert browser.evaluate(upright.format(0) + ".length") == 0
    told = browser.evaluate("byId('memory-controls').textContent")
    assert f"time bound {seconds_text(bound['seconds'])}" in told
    assert "time bound" in browser.evaluate("byId('summary').textContent")
    assert any("is faster within the limit" in decision["text"] for decision in data["decisions"])
    browser.evaluate("state.axis = 'order'; memoryFigures()")  # no seconds on that axis
    assert browser.evaluate(upright.format(1) + ".length") == 0


def test_a_step_without_operators(browser: Browser, tmp_path: Path) -> None:
    lines = ['batch %x "[0]" : f32[4,4]', "%t = aten.permute(%x, [1,0]) : f32[4,4]{1,4}"]
    text = "\n".join(["magis 1", "device cpu", *lines, 'output aux "" %t', ""])
    graph = _core.Graph.parse(text, "graph")
    page = tmp_path / "empty.html"
    write_page(page, report_data(None, "cpu", captured=graph))
    opened(browser, page)
