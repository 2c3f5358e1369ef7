"""Writing what the viewers read: whole files or none."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magis.errors import PlanError
from magis.files import write_bytes, write_text
from magis.report.viewers.record import Record
from magis.report.viewers.snapshot import Snapshot, beside, pickled, snapshot
from magis.report.viewers.trace import trace_text

if TYPE_CHECKING:
    from magis import _core


def facts_of(plan: _core.Plan, device: _core.Device) -> dict[str, Any]:
    """What a trace says beside its events."""
    simulation = plan.simulate(device)
    return {
        "written_by": "magis",
        "model": plan.graph.meta.get("model", ""),
        "device": str(device),
        "promised_peak_bytes": simulation.peak_bytes,
        "host_bytes": simulation.host_peak_bytes,
    }


def write_snapshot(
    path: str | os.PathLike[str], records: Sequence[Record], measured: Snapshot | None = None
) -> None:
    """measured: PyTorch's own snapshot, to be beside them. Raises PlanError if `path` cannot be
    written.
    """
    content = snapshot(records)
    if measured is not None:
        content = beside(content, measured)
    try:
        write_bytes(Path(path), pickled(content))
    except OSError as error:
        raise _unwritable(path, "snapshot", error) from None


def write_trace(
    path: str | os.PathLike[str], records: Sequence[Record], facts: Mapping[str, Any]
) -> None:
    """Raises PlanError if `path` cannot be written."""
    try:
        write_text(Path(path), trace_text(records, facts))
    except OSError as error:
        raise _unwritable(path, "trace", error) from None


def _unwritable(path: str | os.PathLike[str], what: str, error: OSError) -> PlanError:
    cause = error.strerror or error
    return PlanError(f"{path}: the {what} cannot be written ({cause}); choose another path")
