"""What a page shows, as one JSON object: every number on it stands in there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from magis import __version__
from magis.report.edits import find_edits
from magis.report.explanation import explain
from magis.report.page.columns import Texts
from magis.report.page.kinds import NAMES
from magis.report.page.loops import loops_told
from magis.report.page.moved import moved_rows
from magis.report.page.run import run_columns
from magis.report.render import model_text
from magis.report.report import CAPTURED_BASELINE, MEASURED_BASELINE
from magis.report.report_words import figures, headline
from magis.report.sentences import sentences
from magis.report.text import bytes_text, change_text, percent_text, seconds_text

if TYPE_CHECKING:
    from magis import _core
    from magis.report.differences import Section, Side
    from magis.report.frontier import FrontierFigures
    from magis.report.report import Report

Json = dict[str, Any]


def report_data(
    plan: _core.Plan | None,
    device: _core.Device,
    report: Report | None = None,
    captured: _core.Graph | None = None,
    *,
    frontier: FrontierFigures | None = None,
    peers: list[Json] | None = None,
    title: str = "",
) -> Json:
    """A plan beside the graph that it was made for; without a plan the graph alone.

    captured: that graph; without it, a plan that splits or rewrites stands alone. report: without
    it there is no limit, no bound and no search to tell of. peers: `{"name", "peak_bytes",
    "seconds"}` of other ways to run the step.
    """
    from magis import _core

    texts = Texts()
    if captured is None and plan is not None and not plan.graph.altered:
        captured = plan.graph
    runs = []
    before = None
    if captured is not None:
        before = _core.Plan.program_order(captured)
        label = "as captured" if plan is None else "before"
        runs.append(run_columns(before, device, texts, label=label, source=CAPTURED_BASELINE))
    if plan is not None:
        runs.append(run_columns(plan, device, texts, label="after", source="the plan"))
    plan = plan or before
    assert plan is not None
    after = runs[-1]
    items = explain(plan, device, report)
    edits = [] if report is None else report.edits
    if report is None and before is not None:
        edits = find_edits(plan, before.simulate(device), plan.simulate(device))
    return {
        "page": 1,
        "magis": __version__,
        "subject": "report",
        "title": title or model_text(plan.graph.meta) or "training step",
        "device": str(device),
        "headline": headline(report) if report else [(_plain_headline(after), "bold")],
        "facts": figures(report) if report else [],
        "lines": _lines(report),
        "times": _times(report, after["label"]),
        "kinds": NAMES,
        "texts": texts.all,
        "runs": runs,
        "decisions": [{"kind": kind, "text": text} for kind, text in sentences(items)],
        "items": loops_told(items, plan, before, device),
        "moved": moved_rows(edits, plan, device),
        "frontier": None if frontier is None else asdict(frontier),
        "peers": peers or [],
        "search": asdict(report.history) if report and report.history else None,
        "differences": [],
    }


def diff_data(a: Side, b: Side, sections: list[Section], warnings: Iterable[str] = ()) -> Json:
    """Two plans in place of before and after, and what differs. warnings: what to know first."""
    texts = Texts()
    runs = [
        run_columns(side.plan, side.device, texts, label=side.name, source=f"profile {side.device}")
        for side in (a, b)
    ]
    decisions = [
        {"kind": kind, "text": f"{side.name}: {sentence}"}
        for side in (a, b)
        for kind, sentence in sentences(explain(side.plan, side.device, side.report))
    ]
    lines = [{**line, "run": side.name} for side in (a, b) for line in _lines(side.report)]
    times = [line for side in (a, b) for line in _times(side.report, side.name)]
    return {
        "page": 1,
        "magis": __version__,
        "subject": "diff",
        "title": f"{a.name} and {b.name}",
        "device": " and ".join(dict.fromkeys(str(side.device) for side in (a, b))),
        "headline": [(_compared(*runs), "bold"), *((words, "red") for words in warnings)],
        "facts": [],
        "lines": lines,
        "times": times,
        "kinds": NAMES,
        "texts": texts.all,
        "runs": runs,
        "decisions": decisions,
        "items": [],
        "moved": [],
        "frontier": None,
        "peers": [],
        "search": None,
        "differences": [section.to_json() for section in sections],
    }


def _compared(a: Json, b: Json) -> str:
    peaks = [bytes_text(run["peak_bytes"]) for run in (a, b)]
    change = change_text(b["seconds"], a["seconds"])
    share = percent_text(b["peak_bytes"], a["peak_bytes"])
    return f"Peak memory {peaks[0]} and {peaks[1]} ({share}), time {change}"


def _plain_headline(run: Json) -> str:
    peak, seconds = bytes_text(run["peak_bytes"]), seconds_text(run["seconds"])
    return f"Peak memory {peak}, time {seconds}"


def _lines(report: Report | None) -> list[Json]:
    """Levels of memory that figures are held against, largest first."""
    if report is None:
        return []
    lines = [{"name": "lower bound", "bytes": report.lower_bound_bytes, "run": ""}]
    if report.limit_bytes:
        lines.append({"name": "limit", "bytes": report.limit_bytes, "run": ""})
    if report.baseline_source == MEASURED_BASELINE:
        lines.append(
            {"name": MEASURED_BASELINE, "bytes": report.baseline_peak_bytes, "run": "before"}
        )
    return sorted(lines, key=lambda line: -line["bytes"])


def _times(report: Report | None, run: str) -> list[Json]:
    """Times that figures of `run` are held against."""
    bound = None if report is None else report.time_bound
    if bound is None or bound.seconds is None:
        return []
    return [{"name": "time bound", "seconds": bound.seconds, "run": run}]
