"""How long a call takes: repeated until the spread is small or the budget is spent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Protocol

import torch

from magis.timing.calls import Prepared

# A reading of a clock is to matter little: so long does one sample take at least.
_LEAST_SAMPLE = 5e-6
# What is read between samples, and what results are kept.
_EVICT = 64 * 2**20
_MOST_KEPT = 64 * 2**20
_FEWEST, _MOST = 5, 100
# Half the width of the median's confidence interval, as a share of it, that is small enough.
_SMALL_SPREAD = 0.01
# Of a normal distribution: the standard deviation is so many median deviations.
_DEVIATIONS = 1.4826


@dataclass(frozen=True)
class Timing:
    """Seconds of one run."""

    median: float
    spread: float  # median deviation from the median
    samples: int


class Clock(Protocol):
    """Times runs on a device."""

    def seconds(self, runs: Sequence[Callable[[], Any]], keep: list[Any]) -> float:
        """Of all `runs` together, one after another; what they return goes to `keep`."""
        ...


class CpuClock:
    """This thread's processor time where one thread computes, else time on the wall: other
    processes take from the second, not from the first.
    """

    def __init__(self) -> None:
        self.now = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
        readings = [self.now() for _ in range(101)]
        self._reading = median(b - a for a, b in pairwise(readings))

    def seconds(self, runs: Sequence[Callable[[], Any]], keep: list[Any]) -> float:
        start = self.now()
        for run in runs:
            keep.append(run())
        return max(0.0, self.now() - start - self._reading)


class CudaClock:
    """The device's own time between two events. What the host takes to launch is hidden behind the
    work that is queued before, as in a step."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # Long enough for the host to queue a sample behind it.
        self._ahead = torch.empty(2**28, dtype=torch.uint8, device=device)

    def seconds(self, runs: Sequence[Callable[[], Any]], keep: list[Any]) -> float:
        with torch.cuda.device(self._device):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            for _ in range(4):
                self._ahead.zero_()
            start.record()
            for run in runs:
                keep.append(run())
            end.record()
            end.synchronize()
        return float(start.elapsed_time(end)) / 1000


def clock_of(device: torch.device) -> Clock:
    return CudaClock(device) if device.type == "cuda" else CpuClock()


class Stopwatch:
    """Times calls as a training step runs them: the operand that was just made is in the caches,
    the others mostly are not, and results go to memory that was not just given back.

    Of the ways tried on a CPU (operands warm, operands rotated, caches emptied, results kept) this
    is the one whose sums come closest to measured steps; see bench/step_times.py.
    """

    def __init__(self, device: torch.device, clock: Clock | None = None) -> None:
        self._clock = clock or clock_of(device)
        self._evicted = torch.ones(_EVICT // 4, device=device)
        self._kept: list[Any] = []

    def time(self, call: Prepared, result_bytes: int, budget: float) -> Timing:
        """Repeats the call until its spread is small.

        budget: seconds on the wall that this may take; a few samples are taken all the same.
        """
        start = time.perf_counter()
        for _ in range(2):  # libraries choose their algorithms in the first run
            once = self._clock.seconds([call.run], [])
        count = max(1, math.ceil(_LEAST_SAMPLE / max(once, 1e-9)))
        most_kept = max(2, _MOST_KEPT // max(result_bytes, 1))
        samples: list[float] = []
        while len(samples) < _MOST:
            call.restore()
            self._evicted.sum()
            call.warm()
            samples.append(self._clock.seconds([call.run] * count, self._kept) / count)
            if len(self._kept) >= most_kept:
                self._kept.clear()
            spent = time.perf_counter() - start
            enough = len(samples) >= _FEWEST and _relative_error(samples) <= _SMALL_SPREAD
            if enough or spent >= (budget if len(samples) >= _FEWEST else 4 * budget):
                break
        self._kept.clear()
        return Timing(median(samples), _deviation(samples), len(samples))


def _deviation(samples: list[float]) -> float:
    middle = median(samples)
    return median(abs(sample - middle) for sample in samples)


def _relative_error(samples: list[float]) -> float:
    middle = median(samples)
    if middle <= 0:
        return 0.0
    return 2 * _DEVIATIONS * _deviation(samples) / math.sqrt(len(samples)) / middle
