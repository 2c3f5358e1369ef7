"""`magis profile`: measures the operators of a graph, and the parts that regions would run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from magis.cli.measuring import measured_times
from magis.cli.options import Json, Profile, device_profile
from magis.cli.outcome import Outcome
from magis.cli.status import UsageError
from magis.cli.subject import read_graph
from magis.report.text import plural, seconds_text

if TYPE_CHECKING:
    from magis.runtime.refinement import Refinement

_MOST_ROWS = 12


def profile(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|FILE",
            help="A model of the zoo, or a graph that `magis capture` wrote.",
            show_default=False,
        ),
    ],
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long to measure.")
    ] = 60.0,
    size: Annotated[str, typer.Option(help="Of a zoo model: tiny, small or full.")] = "small",
    batch: Annotated[int | None, typer.Option(help="Of a zoo model: samples.")] = None,
    parts: Annotated[
        bool,
        typer.Option(
            "--parts/--no-parts",
            help="Also measure what regions along the batch would run, in 2, 4, 8 and 16 parts.",
        ),
    ] = True,
    device: Profile = None,
    json: Json = False,
) -> Outcome:
    """Measure how long a graph's operators take on this machine, the most valuable first.

    The times are kept, and used by `magis optimize --measure`. Each distinct call is measured once;
    calls that were measured before are not measured again.
    """
    from magis import _core

    graph = _graph(model, size, batch)
    refinement = measured_times(budget, graph, device_profile(device, graph.device))
    assert refinement is not None
    plan = _core.Plan.program_order(graph)
    known = len(refinement.times.measured_calls())
    count = refinement.begin(graph, parts=parts, share=1.0)
    return _outcome(plan, refinement, known, count, json)


def _graph(model: str, size: str, batch: int | None) -> Any:
    from magis import zoo

    if Path(model).exists():
        return read_graph(Path(model))
    if model not in zoo.names():
        raise UsageError(
            f'"{model}" is neither a file nor a model of the zoo ({", ".join(zoo.names())})'
        )
    from magis import _core
    from magis.capture import capture

    workload = zoo.build(model, size=size, batch=batch)
    return _core.Graph.parse(capture(*workload).text, model)


def _outcome(plan: Any, refinement: Refinement, known: int, count: int, as_json: bool) -> Outcome:
    calls = plan.calls(refinement.device)
    calls.sort(key=lambda call: -call.runs * call.seconds)
    lacking = refinement.times.lacking(calls)
    failed = {c.key: why for c in calls if (why := refinement.times.failure(c.key))}
    facts = {
        "machine": vars(refinement.times.machine),
        "measured": count,
        "known_before": known,
        "left": len(lacking),
        "failed": failed,
        "step_seconds": sum(call.runs * call.seconds for call in calls),
        "calls": [
            {"call": c.key, "runs": c.runs, "seconds": c.seconds, "measured": c.measured}
            for c in calls
        ],
    }
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for name in ("runs", "one", "all"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("call", overflow="fold")
    for call in calls[:_MOST_ROWS]:
        times = seconds_text(call.seconds), seconds_text(call.runs * call.seconds)
        table.add_row(f"{call.runs:g}", *times, Text(call.key))
    lines: list[RenderableType] = [
        Text(f"{plural(count, 'call')} measured on {refinement.times.machine}."),
        Text(f"The step in program order: {refinement.words(plan)}."),
    ]
    if lacking:
        lines.append(Text(f"{plural(len(lacking), 'call')} left: give a longer --budget."))
    lines += [Text(f"cannot be run alone: {key}: {why}") for key, why in failed.items()]
    return Outcome(facts, Group(*lines, Text(""), table), as_json)
