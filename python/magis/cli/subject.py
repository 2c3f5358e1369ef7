"""What a file given on the command line holds: a graph, a plan, or a plan with its promise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from magis.cli.files import read_text
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


def read_subject(path: Path) -> Subject:
    """The graph or plan in a file; a MagisError with file, line and column if it is neither."""
    from magis.runtime.plan_file import parse_graph, parse_plan

    text = read_text(path)
    if text.lstrip().startswith("{"):
        return _saved_plan(text, path)
    if any(line.strip() == "program" for line in text.splitlines()):
        plan = parse_plan(text, str(path))
        return Subject(plan.graph, plan, None, None)
    return Subject(parse_graph(text, str(path)), None, None, None)


def _saved_plan(text: str, path: Path) -> Subject:
    from magis.runtime.plan_file import captured_graph, parse_envelope, parse_plan

    saved = parse_envelope(text, str(path))
    plan = parse_plan(saved.text, f"{path} (text)")
    captured = captured_graph(saved, plan, str(path))
    report = saved.report.about(plan, saved.device, captured)
    return Subject(plan.graph, plan, saved.device, report)
