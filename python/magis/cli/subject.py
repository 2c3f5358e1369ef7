"""What a file given on the command line holds: a graph, a plan, or a plan with its promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from magis.cli.files import check_distinct, check_writable, read_text
from magis.cli.status import UsageError

if TYPE_CHECKING:
    from magis import _core
    from magis.report import Report


@dataclass(frozen=True)
class Subject:
    graph: _core.Graph
    plan: _core.Plan | None  # none for a graph
    profile: str | None  # the device profile that a saved plan was found under
    report: Report | None  # of a saved plan

    @property
    def captured(self) -> _core.Graph | None:
        """The graph that it is, or that its plan was made for; None if that is not known."""
        if self.report is not None:
            return self.report.captured
        return None if self.graph.altered else self.graph


def read_graph(path: Path) -> _core.Graph:
    """The graph in a file. Raises a MagisError with file, line and column if it holds none."""
    from magis.runtime.plan_file import parse_graph

    text = read_text(path)
    if text.lstrip().startswith("{"):
        raise UsageError(
            f"{path}: this is a saved plan, not a graph; "
            "`magis optimize` takes what `magis capture` wrote"
        )
    return parse_graph(text, str(path))


def read_subjects(
    files: Sequence[Path], outputs: Mapping[str, Path | None] | None = None
) -> list[Subject]:
    """What the files hold, once all of them are known to be there and all outputs (option -> where)
    to be writable: reading large ones takes a while. Raises a MagisError, with line and column for
    a file that holds neither a graph nor a plan.
    """
    outputs = outputs or {}
    texts = [read_text(path) for path in files]
    for path in files:
        check_distinct({"the input": path, **outputs})
    for option, output in outputs.items():
        if output is not None:
            check_writable(output, option)
    return [_subject(text, path) for text, path in zip(texts, files, strict=True)]


def _subject(text: str, path: Path) -> Subject:
    from magis.runtime.plan_file import parse_graph, parse_plan

    if text.lstrip().startswith("{"):
        return _saved_plan(text, path)
    if any(line.strip() == "program" for line in text.split("\n")):
        plan = parse_plan(text, str(path))
        return Subject(plan.graph, plan, None, None)
    return Subject(parse_graph(text, str(path)), None, None, None)


def _saved_plan(text: str, path: Path) -> Subject:
    from magis.runtime.plan_file import captured_graph, checked_report, parse_envelope, parse_plan

    saved = parse_envelope(text, str(path))
    plan = parse_plan(saved.text, f"{path} (text)")
    captured = captured_graph(saved, plan, str(path))
    report = checked_report(saved, plan, captured, str(path))
    return Subject(plan.graph, plan, saved.device, report)
