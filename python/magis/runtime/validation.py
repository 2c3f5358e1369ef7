"""Running the best few plans on this machine, and taking the one that is best in truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from magis import _core
from magis.report.found import Found
from magis.report.promised_times import PromisedTimes
from magis.report.text import change_text, plural, seconds_text
from magis.runtime.planner import Bound, SearchSettings, search
from magis.runtime.step_times import StepTimer

if TYPE_CHECKING:
    import torch

_ROUNDS = 5

AnyFound = TypeVar("AnyFound", bound=Found)


@dataclass(frozen=True)
class Validated:
    """The plan that was taken, and what the others came to."""

    number: int  # of it
    times: PromisedTimes
    words: str


class Contest:
    """Searches several times, runs what was found, and keeps the best: `outcome` says how it went.

    timer: of a plan. captured_fits: whether the captured order can be run here, too.
    """

    def __init__(
        self, timer: Callable[[_core.Plan], StepTimer], *, captured_fits: bool = True
    ) -> None:
        self._timer = timer
        self._captured_fits = captured_fits
        self.outcome: Validated | None = None

    def search(
        self,
        graph: _core.Graph,
        settings: SearchSettings,
        bound: Bound,
        *,
        measured_on: torch.device,
    ) -> Found:
        """As `planner.search`, from `settings.validate` seeds."""

        def search_from(seed: int) -> Found:
            own = replace(settings, seed=seed, store=None)  # a kept plan is one, whatever the seed
            return search(graph, own, bound, measured_on=measured_on)

        results = find_several(search_from, settings.validate, settings.seed)
        timers = [self._timer(result.plan) for result in results]
        captured = None
        if self._captured_fits:
            captured = self._timer(_core.Plan.program_order(graph))
        self.outcome = validate(results, timers, captured, bound.seconds, settings.device)
        return results[self.outcome.number]


def find_several(search: Callable[[int], AnyFound], count: int, seed: int) -> list[AnyFound]:
    """What `search` finds from `count` seeds, beginning with `seed`; the same plan once."""
    found: dict[str, AnyFound] = {}
    for number in range(count):
        result = search((seed + number) % 2**64)
        found.setdefault(result.plan.text(), result)
        if result.stop_reason == "interrupted":
            break
    return list(found.values())


def validate(
    results: Sequence[Found],
    timers: Sequence[StepTimer],
    captured: StepTimer | None,
    latency_limit: float | None,
    device: _core.Device,
) -> Validated:
    """Runs each plan and the captured graph's own order in turns, and chooses among the plans that
    keep their limit by what they promise: the fastest, as measured, for a limit on memory; with a
    limit in seconds that of least memory which is, as measured, not slower against the captured
    order than the limit was against its promise.

    timers: of the plans of `results`. captured: of the captured order; None if it does not fit: a
    limit in seconds then holds as it was promised. device: the profile with the times promised.
    """
    everyone = [*timers, *([captured] if captured is not None else [])]
    samples = _step_seconds(everyone)
    seconds = [median(own) for own in samples]
    base = seconds[-1] if captured is not None else None
    best = choose(results, seconds[: len(timers)], base, latency_limit)
    own = seconds[: len(timers)]
    against = f" ({change_text(own[best], base)} against the captured order)" if base else ""
    words = (
        f"{plural(len(results), 'plan')} run here, {plural(_ROUNDS, 'step')} each: the one taken "
        f"needs {seconds_text(own[best])}{against}, the slowest {seconds_text(max(own))}"
    )
    times = timers[best].compare(device, _ROUNDS, samples[best])
    return Validated(best, times, words)


def choose(
    results: Sequence[Found],
    seconds: Sequence[float],
    base: float | None,
    latency_limit: float | None,
) -> int:
    """Which to take by the measured `seconds` of each and those of the captured order; see
    `validate`.
    """
    met = [n for n, result in enumerate(results) if result.met] or list(range(len(results)))
    if latency_limit is None:
        return min(met, key=seconds.__getitem__)
    most = float("inf")
    if base is not None:
        most = base * latency_limit / results[0].baseline_seconds
    kept = [n for n in met if seconds[n] <= most]
    if not kept:
        return min(met, key=seconds.__getitem__)
    return min(kept, key=lambda n: (results[n].peak_bytes, seconds[n]))


def _step_seconds(timers: Sequence[StepTimer]) -> list[list[float]]:
    """Samples of each step, taken in turns."""
    for timer in timers:
        timer.warm_up()
    samples: list[list[float]] = [[] for _ in timers]
    for turn in range(_ROUNDS):
        numbers = range(len(timers))
        for number in numbers if turn % 2 else reversed(numbers):
            samples[number].append(timers[number].step_seconds())
    return samples
