"""`magis export`: a graph or a plan in files for PyTorch's memory viewer and for Perfetto."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from magis.cli.options import GraphOrPlanFile, Json, Profile, device_profile
from magis.cli.outcome import Outcome
from magis.cli.status import UsageError
from magis.cli.subject import read_subjects
from magis.report.text import bytes_text, plural
from magis.report.viewers.drawing import FRAMES
from magis.report.viewers.files import facts_of, write_snapshot, write_trace
from magis.report.viewers.predicted import predicted

if TYPE_CHECKING:
    from magis import _core


def export(
    file: GraphOrPlanFile,
    snapshot: Annotated[
        Path | None,
        typer.Option(
            metavar="PICKLE",
            help="Where to write a memory snapshot, which https://docs.pytorch.org/memory_viz and "
            "torch.cuda._memory_viz show.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="JSON",
            help="Where to write a trace, which https://ui.perfetto.dev and chrome://tracing show.",
            show_default=False,
        ),
    ] = None,
    device: Profile = None,
    json: Json = False,
) -> Outcome:
    """Write what a plan, or a graph in program order, will do for viewers that people have.

    The snapshot holds every allocation of a step, in order, with the model's line and modules; the
    trace the work of the three engines, what waits for what, and the memory as counters. `magis run
    --record` writes the same beside what was measured.
    """
    if snapshot is None and trace is None:
        raise UsageError("nothing to write; add --snapshot out.pickle or --trace out.json, or both")
    (subject,) = read_subjects([file], {"--snapshot": snapshot, "--trace": trace})
    plan = subject.plan or _program_order(subject.graph)
    profile = device_profile(device or subject.profile, subject.graph.device)
    record = predicted(plan, profile)
    if snapshot is not None:
        write_snapshot(snapshot, [record])
    facts = facts_of(plan, profile)
    if trace is not None:
        write_trace(trace, [record], facts)
    data = {
        "file": str(file),
        **facts,
        "operators_drawn": sum(entry.category not in FRAMES for entry in record.slices),
        "allocations": len(record.blocks),
        "snapshot": None if snapshot is None else str(snapshot),
        "trace": None if trace is None else str(trace),
    }
    return Outcome(data, _view(data), json)


def _program_order(graph: _core.Graph) -> _core.Plan:
    from magis import _core

    return _core.Plan.program_order(graph)


def _view(data: dict[str, object]) -> RenderableType:
    peak, blocks = data["promised_peak_bytes"], data["allocations"]
    assert isinstance(peak, int)
    assert isinstance(blocks, int)
    lines = [Text(f"Peak {bytes_text(peak)} in {plural(blocks, 'allocation')}.")]
    if data["snapshot"] is not None:
        lines.append(
            Text(
                f"Snapshot written to {data['snapshot']}; drop it on "
                "https://docs.pytorch.org/memory_viz"
            )
        )
    if data["trace"] is not None:
        lines.append(Text(f"Trace written to {data['trace']}; open it in https://ui.perfetto.dev"))
    return Group(*lines)
