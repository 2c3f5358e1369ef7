"""What `magis run --record` writes: a step as promised beside the same step as it was measured."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magis.cli.files import check_writable
from magis.cli.status import UsageError
from magis.report.text import bytes_text
from magis.report.viewers.files import facts_of, write_snapshot, write_trace
from magis.report.viewers.measured import measured
from magis.report.viewers.predicted import predicted
from magis.report.viewers.record import DEVICE

if TYPE_CHECKING:
    from magis import _core
    from magis.report.viewers.measured import Recording

_TRACE = "trace.json"
_SNAPSHOT = "snapshot.pickle"


def check_record_folder(folder: Path) -> None:
    """Raises UsageError unless the files can be written there later on. The folder is made then."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--record {folder}: is a file; give a folder")
    if folder.is_dir():
        for name in (_TRACE, _SNAPSHOT):
            check_writable(folder / name, "--record")
        return
    above = next(parent for parent in folder.resolve().parents if parent.exists())
    check_writable(above / folder.name, "--record")


def check_recordable(device: str) -> None:
    """Raises UsageError if a step on this kind of device cannot be recorded by this process."""
    from magis.measure import available

    if device == "cpu" and not available():
        raise UsageError(
            "--record: on a CPU a step is recorded under the allocator hook, which works on Linux "
            "for `magis run` itself, not for what calls it from Python"
        )


def write_recording(
    folder: Path, plan: _core.Plan, device: _core.Device, recording: Recording
) -> dict[str, Any]:
    """Both files, or none in a folder that was not there; what they say in figures. device: the
    profile whose bytes this machine's allocator hands out.
    """
    promise = predicted(plan, device)
    truth = measured(plan, device, recording)
    peak = max((s.bytes for s in truth.samples if s.counter == DEVICE), default=0)
    facts = facts_of(plan, device) | {"measured_peak_bytes": peak}
    with _made(folder):
        write_trace(folder / _TRACE, [promise, truth], facts)
        if recording.snapshot is None:
            write_snapshot(folder / _SNAPSHOT, [promise, truth])
        else:
            write_snapshot(folder / _SNAPSHOT, [promise], recording.snapshot)
    return {
        "trace": str(folder / _TRACE),
        "snapshot": str(folder / _SNAPSHOT),
        "measured_peak_bytes": peak,
        "allocations": len(truth.blocks),
    }


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder is there within the block; if that fails, it goes again unless it was before."""
    before = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--record {folder}: cannot be made: {error.strerror}") from None
    try:
        yield
    except BaseException:
        if not before:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def recorded_words(facts: dict[str, Any]) -> str:
    """For a person."""
    peak = bytes_text(facts["measured_peak_bytes"])
    return f"peak {peak}; {facts['trace']} for Perfetto, {facts['snapshot']} for the memory viewer"
