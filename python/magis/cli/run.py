"""`magis run`: a plan against eager PyTorch, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from magis.cli import status
from magis.cli.files import read_text
from magis.cli.hook import under_hook
from magis.cli.options import Json
from magis.cli.outcome import Outcome
from magis.cli.progress import spinner
from magis.cli.status import UsageError
from magis.cli.workload import workload_of
from magis.report.text import bytes_text, change_text, percent_text, seconds_text

if TYPE_CHECKING:
    from magis import _core
    from magis.cli.trial import Peaks, Times, Trial


def run(
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="PLAN", help="A plan that `magis optimize` saved.", show_default=False
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="FILE:FUNCTION",
            help="For plans of your own models: the function that returns (model, loss_fn, batch).",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How many pairs of steps to time.")] = 5,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Largest difference from eager that is accepted; default none at all."),
    ] = None,
    json: Json = False,
) -> Outcome:
    """Run a plan against eager PyTorch on this machine.

    Compares loss, gradients, buffers and the random generator; measures the peak of both under a
    hook in the allocator; times both in turns. Zoo models are built again from what the plan
    records.

    Exit status: 0 the plan is equal and keeps its promise; 1 it is not or does not; 2 something is
    wrong with the input.
    """
    found, profile = _read(plan)
    _check_device(found)
    under_hook()
    with spinner("building the model"):
        trial = _trial(found, model, str(plan))
    with spinner("comparing with eager"):
        difference = trial.difference(tolerance)
    with spinner("measuring memory"):
        peaks = trial.peaks()
    with spinner("measuring time"):
        times = trial.times(rounds)
    promised = found.simulate(profile).transient_peak_bytes
    facts = _facts(found, promised, peaks, times, difference, tolerance)
    return _outcome(facts, json)


def _read(path: Path) -> tuple[_core.Plan, str]:
    """The plan, and the device profile that its promise is for."""
    from magis import _core
    from magis.runtime.plan_file import parse_envelope

    saved = parse_envelope(read_text(path, "`magis optimize -o` makes plans"), str(path))
    found = _core.Plan.parse(saved.text, f"{path} (text)")
    kinds = {output.kind for output in found.graph.outputs}
    if kinds & {"param", "state"}:
        raise UsageError(
            f"{path}: the optimizer's update is part of this plan, and calling such a step is not "
            "supported yet; capture without --optimizer to run it"
        )
    return found, saved.device


def _check_device(plan: _core.Plan) -> None:
    import torch

    device = plan.graph.device
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("the plan is for a CUDA device, and there is none on this machine")
    threads = plan.graph.meta.get("threads", "")
    if device == "cpu" and threads.isdigit() and int(threads) > 0:
        torch.set_num_threads(int(threads))  # what kernels take as scratch depends on it


def _trial(plan: _core.Plan, model: str | None, name: str) -> Trial:
    from magis.cli.trial import Trial, capture_again, check_same_graph

    meta = plan.graph.meta
    workload = workload_of(meta, model, device=plan.graph.device)
    captured = capture_again(workload, meta, plan.graph.device)
    check_same_graph(plan, captured, name)
    return Trial(workload, captured, plan)


def _facts(
    plan: _core.Plan,
    promised: int,
    peaks: Peaks,
    times: Times,
    difference: str | None,
    tolerance: float | None,
) -> dict[str, Any]:
    persistent = plan.graph.persistent_bytes
    return {
        "promised_peak_bytes": persistent + promised,
        "measured_peak_bytes": persistent + peaks.planned,
        "eager_peak_bytes": persistent + peaks.eager,
        "persistent_bytes": persistent,
        "promise_kept": peaks.planned <= promised,
        "measured_with": peaks.method,
        "libraries_peak_bytes": peaks.planned_other,
        "eager_libraries_peak_bytes": peaks.eager_other,
        "seconds": times.planned,
        "eager_seconds": times.eager,
        "time_ratio": times.ratio,
        "rounds": times.rounds,
        "equal": difference is None,
        "difference": difference,
        "tolerance": tolerance,
    }


def _outcome(facts: dict[str, Any], as_json: bool) -> Outcome:
    failures = []
    if not facts["equal"]:
        failures.append(f"THE RESULTS DIFFER: {facts['difference']}")
    if not facts["promise_kept"]:
        above = facts["measured_peak_bytes"] - facts["promised_peak_bytes"]
        failures.append(f"THE PROMISE WAS NOT KEPT: {bytes_text(above)} more than promised.")
    view: list[RenderableType] = [Text(text, style="bold red") for text in failures]
    view.append(_table(facts))
    return Outcome(facts, Group(*view), as_json, status.FAILED if failures else status.OK)


def _table(facts: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    promised, measured = facts["promised_peak_bytes"], facts["measured_peak_bytes"]
    eager = facts["eager_peak_bytes"]
    agreement = "to the byte" if measured == promised else f"{measured - promised:+,} bytes"
    table.add_row("promised", f"{bytes_text(promised)} ({promised:,} bytes)")
    table.add_row("measured", f"{bytes_text(measured)} ({agreement}; {facts['measured_with']})")
    table.add_row("eager", f"{bytes_text(eager)}; the plan takes {percent_text(measured, eager)}")
    if facts["libraries_peak_bytes"]:
        ours, theirs = facts["libraries_peak_bytes"], facts["eager_libraries_peak_bytes"]
        table.add_row(
            "libraries", f"{bytes_text(ours)} behind PyTorch's back, eager {bytes_text(theirs)}"
        )
    table.add_row(
        "time",
        f"{seconds_text(facts['seconds'])}, eager {seconds_text(facts['eager_seconds'])} "
        f"({change_text(facts['time_ratio'], 1.0)}, {facts['rounds']} pairs)",
    )
    table.add_row("results", _equality(facts))
    return table


def _equality(facts: dict[str, Any]) -> str:
    if not facts["equal"]:
        return "different"
    if facts["tolerance"] is None:
        return "bitwise equal: loss, gradients, buffers, random generator"
    return f"equal within {facts['tolerance']:g}"
