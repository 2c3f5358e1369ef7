"""`magis optimize --frontier`: the plans for all limits in one search, and the choice of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from magis.cli.outcome import Outcome
from magis.cli.search import Budget, Rules, Target, has_measured_scratch, target_of
from magis.cli.status import UsageError
from magis.errors import PlanError
from magis.limits import Limit
from magis.report.text import plural
from magis.runtime.frontier import choose, nearest_text
from magis.runtime.frontier_folder import check_replaceable, read_index, read_point
from magis.runtime.frontier_search import frontier_of
from magis.runtime.plan_file import captured_graph, checked_report
from magis.runtime.progress import search_progress

if TYPE_CHECKING:
    from magis import _core
    from magis.report import Report
    from magis.runtime.frontier import Frontier
    from magis.runtime.refinement import Refinement

# Go with a folder, where nothing is searched for any more.
_CHOOSING = {"file", "memory_limit", "latency_limit", "output", "emit", "json"}
# Ask for one plan, where all are found.
_ONE_PLAN = (
    *("memory_limit", "latency_limit", "batch_parts", "emit", "strategy", "explain", "time_bound"),
)


def refuse_search_options(context: typer.Context, folder: Path) -> None:
    """Raises UsageError if an option was given that says how to search."""
    for name, option in _given(context).items():
        if name not in _CHOOSING:
            raise UsageError(
                f"{option} says how to search, and {folder} is a folder, whose plans have been "
                "found already: give --memory-limit or --latency-limit, -o, --emit and --json"
            )


def check_outside(folder: Path, outputs: dict[str, Path | None]) -> None:
    """Raises UsageError if one of these (option -> path) would be written into the frontier."""
    for option, path in outputs.items():
        if path is not None and path.resolve().parent == folder.resolve():
            raise UsageError(
                f"{option} {path}: lies in the frontier's folder, which is to stay as it is; "
                "choose another place"
            )


def refuse_limits(context: typer.Context) -> None:
    """Raises UsageError if an option was given that asks for a single plan."""
    given = _given(context)
    for name in _ONE_PLAN:
        if name in given:
            raise UsageError(
                f"--frontier finds the plans for all limits, and {given[name]} asks for one: save "
                "them with -o FOLDER, then choose with `magis optimize FOLDER --memory-limit ...`"
            )


def _given(context: typer.Context) -> dict[str, str]:
    """Parameters that stand on the command line, and how they are written there."""
    found = {}
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            found[name] = max(parameter.opts, key=len)
    return found


def check_folder(output: Path | None) -> None:
    """Raises UsageError unless a frontier can be written there, before any work is done."""
    if output is None:
        return
    try:
        check_replaceable(output)
    except PlanError as error:
        raise UsageError(f"--output {error}") from None


def find(
    graph: _core.Graph,
    profile: str,
    budget: Budget,
    *,
    rules: Rules,
    host_memory: int | None,
    refinement: Refinement | None = None,
) -> Frontier:
    """All plans found, verified. Ctrl-C ends the search; what was found so far comes back.

    refinement: measures times between searches, and promises by them.

    Where the graph holds scratch measured on CPU, that of plans' parts is measured here too.
    """
    from magis import _core

    def search(device: _core.Device) -> list[_core.Result]:
        baseline = _core.Plan.program_order(graph).simulate(device)
        with search_progress(budget.seconds, baseline.seconds) as progress:
            return _core.find_frontier(
                graph,
                device=device,
                **budget.keywords(),
                **rules.keywords(),
                host_memory=host_memory,
                progress=progress,
            )

    measured = has_measured_scratch(graph)
    if refinement is None:
        return frontier_of(search(profile), profile, measured=measured)
    refinement.begin(graph, parts=rules.fission)
    results = refinement.refine_frontier(lambda: search(refinement.device))
    times = refinement.words(*(result.plan for result in results))
    return frontier_of(results, refinement.device, measured=measured, times=times)


def frontier_outcome(frontier: Frontier, output: Path | None, as_json: bool) -> Outcome:
    """The table, and the folder if one is wanted."""
    notes: list[RenderableType] = [frontier, Text("")]
    if frontier.times:
        notes += [Text(frontier.times), Text("")]
    if output is None:
        notes.append(Text("Nothing was written; -o FOLDER saves the plans."))
    else:
        frontier.save(output)
        plans = plural(len(frontier), "plan")
        notes.append(
            Text(
                f"{plans} written to {output}; `magis optimize {output} --memory-limit 40%` "
                "chooses one."
            )
        )
    figures = frontier.figures.to_json() | {"times": frontier.times}
    data = {**figures, "folder": None if output is None else str(output)}
    return Outcome(data, Group(*notes), as_json)


@dataclass(frozen=True)
class Chosen:
    """The plan of a frontier for a limit: the best that keeps it, else the nearest."""

    plan: _core.Plan
    report: Report
    target: Target
    warnings: list[str]
    captured: str  # fingerprint of the graph that it was made for


def choose_from(folder: Path, limit: Limit) -> Chosen:
    """From the frontier in `folder`. Raises LimitError if no plan at all can keep the limit."""
    index = read_index(folder)
    figures = index.figures
    position, met = choose(figures, limit)
    plan, saved = read_point(index, position)
    target = target_of(limit, figures.baseline_peak_bytes, figures.baseline_seconds)
    limit_bytes = target.keywords.get("memory_limit", 0)
    name = index.files[position]
    captured = captured_graph(saved, plan, name)
    report = replace(
        checked_report(saved, plan, captured, name),
        limit=target.text,
        met=met,
        limit_bytes=limit_bytes,
    ).about(plan, saved.device, captured)
    warnings = [] if met else [nearest_text(figures, limit)]
    return Chosen(plan, report, target, warnings, saved.captured)
