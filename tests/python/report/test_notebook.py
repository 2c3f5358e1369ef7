"""A report in a notebook: it draws itself, without scripts, and obeys no name."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from page_support import DEVICE, planned, zoo_graph

from magis import _core
from magis.report import Report
from magis.report.text import bytes_text


class Tags(HTMLParser):
    """Counts tags, and holds that each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.count: dict[str, int] = {}
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def heights(text: str) -> list[float]:
    """Of each curve the highest point, in the drawing's units from below."""
    paths = re.findall(r'<path d="([^"]*)"', text)
    return [180 - min(float(y) for y in re.findall(r"V([\d.]+)", path)) for path in paths]


def test_it_draws_before_and_after_to_one_scale() -> None:
    _, report = planned(zoo_graph("unet", "tiny"), 0.6)
    text = report._repr_html_()
    tags = Tags(text)
    assert tags.count["path"] == 2
    assert tags.count["line"] == 1  # the limit
    assert "script" not in tags.count
    before, after = heights(text)
    ratio = report.promised_peak_bytes / report.captured_peak_bytes
    assert abs(after / before - ratio) < 0.01
    assert bytes_text(report.promised_peak_bytes) in text
    assert len(text) < 100_000


def test_it_shows_a_report_read_from_json_without_a_drawing() -> None:
    _, report = planned(zoo_graph("unet", "tiny"), 0.6)
    tags = Tags(Report.from_json(report.to_json())._repr_html_())
    assert "svg" not in tags.count
    assert tags.count["table"] > 0


def test_names_are_shown_not_obeyed() -> None:
    lines = ['batch %x "[0]" : f32[4]', "%a = aten.tanh(%x) : f32[4]", 'output loss "" %a']
    graph = _core.Graph.parse("\n".join(["magis 1", "device cpu", *lines, ""]), "graph")
    _, report = planned(graph, 1.0)
    evil = replace(report, limit="<script>alert(1)</script>\x07").about(
        _core.Plan.program_order(graph), DEVICE, graph
    )
    text = evil._repr_html_()
    assert "script" not in Tags(text).count
    assert "\x07" not in text
