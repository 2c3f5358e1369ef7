"""How long calls take: repeated in turns until the spreads are small or the budget is spent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, Protocol

import torch

from magis.timing.calls import Prepared

# Calls that take turns touch at least so much between two runs of one, as a step does.
_LEAST_TOUCHED = 64 * 2**20
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

    least_sample: float  # seconds: what is shorter is run several times in a row

    def seconds(self, run: Callable[[], Any], count: int, held: list[Any]) -> float:
        """Of `count` runs together. What a run returns is put into `held`, a list of one, in place
        of what was there, which is freed.
        """
        ...


class CpuClock:
    """This thread's processor time where one thread computes, else time on the wall: other
    processes take from the second, not from the first.
    """

    least_sample = 0.0  # runs in a row would find the caches warm

    def __init__(self) -> None:
        self.now = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
        readings = [self.now() for _ in range(101)]
        self._reading = median(b - a for a, b in pairwise(readings))

    def seconds(self, run: Callable[[], Any], count: int, held: list[Any]) -> float:
        start = self.now()
        for _ in range(count):
            held[0] = run()
        return max(0.0, self.now() - start - self._reading)


class CudaClock:
    """The device's own time between two events. What the host takes to launch is hidden behind the
    work that is queued before, as in a step."""

    least_sample = 5e-6  # events are that coarse

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # Long enough for the host to queue a sample behind it.
        self._ahead = torch.empty(2**28, dtype=torch.uint8, device=device)

    def seconds(self, run: Callable[[], Any], count: int, held: list[Any]) -> float:
        with torch.cuda.device(self._device):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            for _ in range(4):
                self._ahead.zero_()
            start.record()
            for _ in range(count):
                held[0] = run()
            end.record()
            end.synchronize()
        return float(start.elapsed_time(end)) / 1000


def clock_of(device: torch.device) -> Clock:
    return CudaClock(device) if device.type == "cuda" else CpuClock()


@dataclass
class _Runner:
    """A call that takes its turns."""

    call: Prepared
    count: int = 1  # runs of a sample
    held: list[Any] = field(default_factory=lambda: [None])  # what the last run returned
    samples: list[float] = field(default_factory=list)

    def start(self, clock: Clock) -> None:
        for _ in range(2):  # libraries choose their algorithms in the first run
            once = clock.seconds(self.call.run, 1, self.held)
        self.count = max(1, math.ceil(clock.least_sample / max(once, 1e-9)))

    def sample(self, clock: Clock) -> None:
        self.call.restore()
        self.call.warm()
        self.samples.append(clock.seconds(self.call.run, self.count, self.held) / self.count)

    @property
    def is_steady(self) -> bool:
        few = len(self.samples) < _FEWEST
        return not few and _relative_error(self.samples) <= _SMALL_SPREAD

    def timing(self) -> Timing:
        return Timing(median(self.samples), _deviation(self.samples), len(self.samples))


class Stopwatch:
    """Times calls as a training step runs them, one after another: what other kernels have read and
    written lies between two runs of a call, their code too, its operands are in the caches, and a
    result is kept until the call runs again; giving it back counts.

    On a CPU, parts of a batch seem to take 3 to 5 % longer than they do in a step if only the
    operand that was just made is in the caches, and up to twice as long if none is and calls do not
    take turns.
    """

    def __init__(self, device: torch.device, clock: Clock | None = None) -> None:
        self._clock = clock or clock_of(device)
        self._others = torch.ones(_LEAST_TOUCHED // 4, device=device)

    def time(self, calls: Sequence[Prepared], budget: float) -> list[Timing]:
        """Runs the calls in turns until all their spreads are small.

        budget: seconds on the wall that this may take; a few samples are taken all the same.
        """
        start = time.perf_counter()
        runners = [_Runner(call) for call in calls]
        for runner in runners:
            runner.start(self._clock)
        missing = max(0, _LEAST_TOUCHED - sum(call.bytes for call in calls)) // 4
        for turn in range(_MOST):
            self._others[:missing].sum()
            for runner in runners:
                runner.sample(self._clock)
            spent = time.perf_counter() - start
            if all(runner.is_steady for runner in runners):
                break
            if spent >= (budget if turn + 1 >= _FEWEST else 4 * budget):
                break
        return [runner.timing() for runner in runners]


def _deviation(samples: list[float]) -> float:
    middle = median(samples)
    return median(abs(sample - middle) for sample in samples)


def _relative_error(samples: list[float]) -> float:
    middle = median(samples)
    if middle <= 0:
        return 0.0
    return 2 * _DEVIATIONS * _deviation(samples) / math.sqrt(len(samples)) / middle
