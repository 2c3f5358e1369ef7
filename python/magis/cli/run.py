"""`magis run`: a plan against eager PyTorch, on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from magis.cli import status
from magis.cli.files import read_text
from magis.cli.hook import under_hook
from magis.cli.options import Json, OffloadDirectory, OffloadTo
from magis.cli.outcome import Outcome
from magis.cli.progress import spinner
from magis.cli.recorded import (
    check_record_folder,
    check_recordable,
    recorded_words,
    write_recording,
)
from magis.cli.status import UsageError
from magis.cli.workload import workload_of
from magis.report.promised_times import PromisedTimes
from magis.report.text import bytes_text, change_text, percent_text, plural, seconds_text
from magis.runtime.offload import choose_directory
from magis.runtime.plan_file import COMPILED

if TYPE_CHECKING:
    import torch

    from magis import _core
    from magis.cli.trial import Run, Trial
    from magis.runtime.plan_file import PlanFile

# What libraries take behind PyTorch's back is shown from this share of the peak on.
_WORTH_SAYING = 0.01

# As `magis capture` records it; a file may hold anything.
_THREADS = re.compile(r"[1-9][0-9]{0,3}")


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
    offload_to: OffloadTo = "host",
    offload_directory: OffloadDirectory = None,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Record a step and write what was promised beside what happened: trace.json for "
            "https://ui.perfetto.dev, snapshot.pickle for https://docs.pytorch.org/memory_viz.",
            show_default=False,
        ),
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
    found, saved = _read(plan)
    profile = saved.device
    directory = choose_directory(offload_to, offload_directory)
    if record is not None:
        check_record_folder(record)
    under_hook()
    _check_device(found)
    if record is not None:
        check_recordable(found.graph.device)
    here = _profile_here(found, profile)
    promised = found.simulate(here)
    eager_fits = _check_memory(found, promised, here, on_disk=directory is not None)
    with spinner("building the model"):
        trial = _trial(found, saved.captured, model, str(plan), directory)
    difference = None
    with spinner("comparing with eager" if eager_fits else "running the plan"):
        if eager_fits:
            difference = trial.difference(tolerance)
        else:
            trial.warm_up()
    with spinner("measuring memory"):
        planned = trial.planned()
        eager = trial.eager() if eager_fits else None
    with spinner("measuring time"):
        trial.time(planned, eager, rounds)
    with spinner("measuring operators"):
        times = trial.timer.compare(_known_times(trial.device, here), rounds)
    facts = _facts(promised, planned, eager, difference, tolerance)
    facts["times"] = asdict(times)
    facts |= {"plan_device": profile, "plan_peak_bytes": found.simulate(profile).peak_bytes}
    facts |= {"host_bytes": found.host_bytes, "offload_to": offload_to, "recorded": None}
    if record is not None:
        with spinner("recording a step"):
            facts["recorded"] = write_recording(record, found, here, trial.record())
    return _outcome(facts, json)


def _read(path: Path) -> tuple[_core.Plan, PlanFile]:
    """The plan, and the file that it is in."""
    from magis.runtime.plan_file import parse_envelope, parse_plan

    saved = parse_envelope(read_text(path, "`magis optimize -o` makes plans"), str(path))
    found = parse_plan(saved.text, f"{path} (text)")
    return found, saved


def _profile_here(plan: _core.Plan, profile: str) -> str:
    """The profile whose bytes this machine's allocator hands out, for a plan found under `profile`.

    The CPU's allocator does not round sizes up to blocks as that of a GPU does.
    """
    return "cpu" if plan.graph.device == "cpu" else profile


def _known_times(device: torch.device, profile: str) -> _core.Device:
    """The profile with what was measured before; as it is, if it is not this machine's."""
    from magis.runtime.planner import choose_profile
    from magis.timing.cache import cache_file
    from magis.timing.times import Times

    if device.type not in ("cpu", "cuda") or choose_profile(None, device) != profile:
        return profile
    if not cache_file().exists():
        return profile
    return Times(device).profile(profile)


def _check_device(plan: _core.Plan) -> None:
    import torch

    device = plan.graph.device
    if COMPILED in plan.graph.meta:
        raise UsageError(
            "the plan is for a graph of torch.compile, not for a whole step: it runs where it was "
            'compiled, under torch.compile(..., backend="magis")'
        )
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise UsageError(
            f'the plan is for the device "{device}"; magis runs plans for cpu and cuda'
        )
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("the plan is for a CUDA device, and there is none on this machine")
    threads = plan.graph.meta.get("threads", "")
    if device == "cpu" and _THREADS.fullmatch(threads):
        torch.set_num_threads(int(threads))  # what kernels take as scratch depends on it


def _trial(
    plan: _core.Plan, fingerprint: str, model: str | None, name: str, directory: Path | None
) -> Trial:
    from magis.cli.trial import Trial, capture_again, check_same_graph, optimizer_of
    from magis.runtime.scaling import scaled_as

    meta = plan.graph.meta
    workload = workload_of(meta, model, device=plan.graph.device)
    loss_fn, batch = scaled_as(meta, workload.loss_fn, workload.batch)
    workload = replace(workload, loss_fn=loss_fn, batch=batch)
    optimizer = optimizer_of(workload, meta)
    captured = capture_again(workload, meta, plan.graph.device, optimizer)
    check_same_graph(plan, fingerprint, captured, name)
    return Trial(workload, captured, plan, directory, optimizer)


def _check_memory(
    plan: _core.Plan, promised: _core.Simulation, profile: str, *, on_disk: bool
) -> bool:
    """Whether eager fits, too. Raises UsageError if not even the plan does."""
    import torch

    from magis import _core
    from magis.runtime.free_memory import free_bytes

    free = free_bytes(torch.device(plan.graph.device))
    # A CPU is its own host.
    host = plan.host_bytes if plan.graph.device == "cpu" and not on_disk else 0
    if promised.peak_bytes + host > free:
        raise UsageError(
            f"the plan takes {bytes_text(promised.peak_bytes + host)}, and {bytes_text(free)} are "
            "free on this machine; capture a smaller batch, or optimize for a lower limit"
        )
    # Eager differs from the captured order by some percent; its gradients stay for the comparison.
    eager = _core.Plan.program_order(plan.graph).simulate(profile).transient_peak_bytes
    return 2 * plan.graph.persistent_bytes + int(1.1 * eager) <= free


def _facts(
    promised: _core.Simulation,
    planned: Run,
    eager: Run | None,
    difference: str | None,
    tolerance: float | None,
) -> dict[str, Any]:
    persistent = promised.persistent_bytes
    facts: dict[str, Any] = {
        "promised_peak_bytes": promised.peak_bytes,
        "measured_peak_bytes": persistent + planned.peak_bytes,
        "persistent_bytes": persistent,
        "promise_kept": planned.peak_bytes <= promised.transient_peak_bytes,
        "measured_with": planned.method,
        "libraries_peak_bytes": planned.libraries_bytes,
        "seconds": median(planned.seconds),
        "rounds": len(planned.seconds),
        "eager_peak_bytes": None,
        "eager_libraries_peak_bytes": None,
        "eager_seconds": None,
        "time_ratio": None,
        "equal": None,
        "difference": None,
        "tolerance": tolerance,
    }
    if eager is not None:
        pairs = zip(planned.seconds, eager.seconds, strict=True)
        facts |= {
            "eager_peak_bytes": persistent + eager.peak_bytes,
            "eager_libraries_peak_bytes": eager.libraries_bytes,
            "eager_seconds": median(eager.seconds),
            "time_ratio": median(ours / theirs for ours, theirs in pairs),
            "equal": difference is None,
            "difference": difference,
        }
    return facts


def _outcome(facts: dict[str, Any], as_json: bool) -> Outcome:
    failures = []
    if facts["equal"] is False:
        failures.append(f"THE RESULTS DIFFER: {facts['difference']}")
    if not facts["promise_kept"]:
        above = facts["measured_peak_bytes"] - facts["promised_peak_bytes"]
        failures.append(f"THE PROMISE WAS NOT KEPT: {bytes_text(above)} more than promised.")
    view: list[RenderableType] = [Text(text, style="bold red") for text in failures]
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _rows(facts):
        table.add_row(name, text)
    view.append(table)
    return Outcome(facts, Group(*view), as_json, status.FAILED if failures else status.OK)


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    promised, measured = facts["promised_peak_bytes"], facts["measured_peak_bytes"]
    agreement = "to the byte" if measured == promised else f"{measured - promised:+,} bytes"
    yield "promised", f"{bytes_text(promised)} ({promised:,} bytes)"
    for_device = facts["plan_peak_bytes"]
    if for_device != promised:
        yield (
            f"for {facts['plan_device']}",
            f"{bytes_text(for_device)} ({for_device:,} bytes): the plan's promise, which includes "
            "that device's rounding to blocks",
        )
    if host := facts["host_bytes"]:
        where = "in a file" if facts["offload_to"] == "disk" else "in memory"
        yield "host", f"{bytes_text(host)} ({host:,} bytes) {where}, apart from the promise"
    yield "measured", f"{bytes_text(measured)} ({agreement}; {facts['measured_with']})"
    eager = facts["eager_peak_bytes"]
    if eager is None:
        yield "eager", "does not fit into the free memory of this machine: not compared"
    else:
        yield "eager", f"{bytes_text(eager)}; the plan takes {percent_text(measured, eager)}"
    libraries = facts["libraries_peak_bytes"]
    if libraries > _WORTH_SAYING * measured:
        beside = facts["eager_libraries_peak_bytes"]
        theirs = "" if beside is None else f", eager {bytes_text(beside)}"
        yield "libraries", f"{bytes_text(libraries)} behind PyTorch's back{theirs}"
    yield "time", _time(facts)
    yield from PromisedTimes.from_json(facts["times"]).rows()
    yield "results", _equality(facts)
    if facts["recorded"] is not None:
        yield "recorded", recorded_words(facts["recorded"])


def _time(facts: dict[str, Any]) -> str:
    ours = seconds_text(facts["seconds"])
    if facts["eager_seconds"] is None:
        return f"{ours} (median of {facts['rounds']})"
    theirs = seconds_text(facts["eager_seconds"])
    change = change_text(facts["time_ratio"], 1.0)
    # The median of ratios is not the ratio of medians: each is said to be what it is.
    return (
        f"{change} (median ratio of {plural(facts['rounds'], 'pair')}; median times apart: {ours}, "
        f"eager {theirs})"
    )


def _equality(facts: dict[str, Any]) -> str:
    if facts["equal"] is None:
        return "not compared"
    if not facts["equal"]:
        return "different"
    if facts["tolerance"] is None:
        return "bitwise equal: loss, gradients, buffers, random generator"
    return f"equal within {facts['tolerance']:g}"
