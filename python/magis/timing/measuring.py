"""Measuring calls, the most valuable first, until the budget is spent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from magis import _torch_internals as internals
from magis.timing.calls import Prepared, read_call
from magis.timing.entries import Entry
from magis.timing.machine import clock_mhz
from magis.timing.stopwatch import Stopwatch

if TYPE_CHECKING:
    from magis import _core

logger = logging.getLogger("magis")

# What one call may take of the budget: some take seconds, and others are waiting.
_MOST_A_CALL = 0.3
_LEAST_A_CALL = 0.03
_SEED = 0
# Calls that take turns, and bytes that they touch together: far more than an inner cache holds.
_MOST_TOGETHER = 48
_TOUCHED_TOGETHER = 64 * 2**20

Progress = Callable[[int, int], None]
"""Called with how many calls are measured and how many there are."""


@dataclass
class Measured:
    """What was measured in one go."""

    entries: dict[str, Entry] = field(default_factory=dict)  # failures among them
    left: int = 0  # calls for which no time was left
    seconds: float = 0.0

    @property
    def failures(self) -> dict[str, str]:
        return {call: e.failure for call, e in self.entries.items() if e.failure}


def most_valuable_first(calls: Iterable[_core.CallCount]) -> list[_core.CallCount]:
    """Those without a measured time, by what a step spends on them as far as is known."""
    lacking = [call for call in calls if not call.measured]
    return sorted(lacking, key=lambda call: (-call.runs * call.seconds, call.key))


def measure(
    keys: list[str],
    device: torch.device,
    budget: float,
    *,
    free_bytes: int,
    progress: Progress | None = None,
) -> Measured:
    """Times calls in the given order, as many in turns as a small step runs, as long as the budget
    of seconds lasts.

    A call that fails is noted with what PyTorch says; one whose operands do not fit into a quarter
    of the free memory is, too. Ctrl-C keeps what was measured. The random generators are left as
    they were.
    """
    start = time.perf_counter()
    found = Measured()
    devices = [device] if device.type == "cuda" else []
    bench = _Bench(device, free_bytes)
    left = list(keys)
    with torch.random.fork_rng(devices), torch.no_grad():
        while left:
            spent = time.perf_counter() - start
            if spent >= budget:
                break
            if progress is not None:
                progress(len(keys) - len(left), len(keys))
            share = (budget - spent) / len(left)
            allowed = min(_MOST_A_CALL, max(_LEAST_A_CALL, share))
            try:
                found.entries |= bench.entries(left, allowed)
            except KeyboardInterrupt:
                break
            left = [key for key in left if key not in found.entries]
    found.left = len(keys) - len(found.entries)
    found.seconds = time.perf_counter() - start
    return found


class _Bench:
    """Where calls are run."""

    def __init__(self, device: torch.device, free_bytes: int) -> None:
        self._device = device
        self._most_bytes = free_bytes // 4
        self._stopwatch = Stopwatch(device)
        self._generator = torch.Generator(device).manual_seed(_SEED)

    def entries(self, keys: list[str], allowed: float) -> dict[str, Entry]:
        """Of the first calls of `keys`, as many as are timed together; `allowed` seconds for each.
        At least one.
        """
        found: dict[str, Entry] = {}
        together: dict[str, tuple[Prepared, int]] = {}  # with its workspace
        touched = 0
        for key in keys:
            try:
                call = read_call(key)
                if call.bytes > self._most_bytes:
                    found[key] = _failed(
                        "its operands do not fit into a quarter of the free memory"
                    )
                    continue
                touched += call.bytes
                if together and touched > min(_TOUCHED_TOGETHER, self._most_bytes):
                    break
                prepared = call.prepare(self._device, self._generator)
                together[key] = prepared, self._workspace(prepared)
            except Exception as error:  # whatever a kernel raises: noted, and the call modelled
                logger.info("%s cannot be run alone: %s", key, error)
                found[key] = _failed(f"{type(error).__name__}: {error}".splitlines()[0])
            if len(together) == _MOST_TOGETHER:
                break
        if not together:
            return found
        calls = [call for call, _ in together.values()]
        timings = self._stopwatch.time(calls, allowed * len(calls))
        clock = clock_mhz(self._device)
        for (key, (_, workspace)), timing in zip(together.items(), timings, strict=True):
            found[key] = Entry(timing.median, timing.spread, timing.samples, workspace, clock)
        return found

    def _workspace(self, call: Prepared) -> int:
        """The most that a run holds above what stays after it."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
            kept = call.run()
            torch.cuda.synchronize(self._device)
            most = int(torch.cuda.max_memory_allocated(self._device))
            stays = int(torch.cuda.memory_allocated(self._device))
            del kept
            return max(0, most - stays)
        kept, recorder = internals.recorded(call.run)
        held = most = 0
        for change in recorder.changes():
            held += change
            most = max(most, held)
        del kept
        return max(0, most - held)


def _failed(why: str) -> Entry:
    return Entry(0.0, 0.0, 0, 0, failure=why)
