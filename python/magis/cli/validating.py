"""Running the best few plans on this machine, and taking the one that is best in truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from magis.report.text import change_text, plural, seconds_text

if TYPE_CHECKING:
    from magis import _core

_ROUNDS = 5


@dataclass(frozen=True)
class Validated:
    """The plan that was taken, and what the others came to."""

    result: _core.Result
    seconds: float  # of a step, measured
    words: str


def find_several(
    search: Callable[[int], _core.Result], count: int, seed: int
) -> list[_core.Result]:
    """What `search` finds from `count` seeds, beginning with `seed`; the same plan once."""
    found: dict[str, _core.Result] = {}
    for number in range(count):
        result = search((seed + number) % 2**64)
        found.setdefault(result.plan.text(), result)
        if result.stop_reason == "interrupted":
            break
    return list(found.values())


def validate(
    results: list[_core.Result], model: str | None, latency_limit: float | None
) -> Validated:
    """Runs each plan and the captured graph's own order in turns, and chooses among the plans that
    keep their limit by what they promise: the fastest, as measured, for a limit on memory; with a
    limit in seconds that of least memory which is, as measured, not slower against the captured
    order than the limit was against its promise.

    model: as for `magis run`. Raises UsageError if the model cannot be built, PlanError if it is
    not the one that was captured.
    """
    from magis import _core

    source = results[0].source
    plans = [_core.Plan.program_order(source), *(result.plan for result in results)]
    seconds = _step_seconds(plans, model)
    base, *own = (median(samples) for samples in seconds)
    met = [n for n, result in enumerate(results) if result.met] or list(range(len(results)))
    if latency_limit is None:
        best = min(met, key=lambda n: own[n])
    else:
        most = base * latency_limit / results[0].baseline_seconds
        kept = [n for n in met if own[n] <= most]
        best = (
            min(kept, key=lambda n: results[n].peak_bytes)
            if kept
            else min(met, key=own.__getitem__)
        )
    change = change_text(own[best], base)
    words = (
        f"{plural(len(results), 'plan')} run here, {plural(_ROUNDS, 'step')} each: the one taken "
        f"needs {seconds_text(own[best])} ({change} against the captured order), the slowest "
        f"{seconds_text(max(own))}"
    )
    return Validated(results[best], own[best], words)


def _step_seconds(plans: list[_core.Plan], model: str | None) -> list[list[float]]:
    """Samples of each plan's step, taken in turns."""
    from magis.cli.trial import Trial, capture_again, check_same_graph, optimizer_of
    from magis.cli.workload import workload_of

    graph = plans[0].graph
    workload = workload_of(graph.meta, model, device=graph.device)
    optimizer = optimizer_of(workload, graph.meta)
    captured = capture_again(workload, graph.meta, graph.device, optimizer)
    check_same_graph(plans[0], "", captured, "the graph")
    trials = [Trial(workload, captured, plan, None, optimizer) for plan in plans]
    for trial in trials:
        trial.warm_up()
    samples: list[list[float]] = [[] for _ in trials]
    for turn in range(_ROUNDS):
        numbers = range(len(trials))
        for number in numbers if turn % 2 else reversed(numbers):
            samples[number].append(trials[number].step_seconds())
    return samples
