"""From the core's plans to a frontier whose promises count what parts of regions really take. Free
of PyTorch until something has to be measured.
"""

from __future__ import annotations

from collections.abc import Iterable

from magis import _core
from magis.report.frontier import FrontierFigures, PlanFigures
from magis.report.loops import read_loops
from magis.runtime.frontier import Frontier
from magis.runtime.interrupts import DeferredInterrupt
from magis.runtime.parts import with_parts_measured
from magis.runtime.progress import counting

# What differs by less is the same time: the search adds up whole picoseconds.
_SLOWER = 1 + 1e-9


def frontier_of(
    results: list[_core.Result],
    profile: _core.Device,
    *,
    measured: bool,
    exact: bool = False,
    times: str = "",
) -> Frontier:
    """The frontier that the plans of `_core.find_frontier` make, verified.

    profile: with measured times, if the promises are to count those; `times` says so in words.
    measured: the graph holds scratch measured on this CPU. That of parts, which the search
    estimates, is measured here too; plans that are on the frontier no more are dropped. Ctrl-C
    keeps the plans whose promise is known by then.
    """
    found = _with_parts_measured(results, profile) if measured else results
    interrupted = len(found) < len(results)
    kept = pareto(found)
    for result in kept:
        result.plan.verify()
    first = kept[0]
    figures = FrontierFigures(
        device=str(profile),
        baseline_peak_bytes=first.baseline_peak_bytes,
        baseline_seconds=first.baseline_seconds,
        persistent_bytes=first.persistent_bytes,
        lower_bound_bytes=first.lower_bound_bytes,
        lower_bound_reason=first.lower_bound_reason,
        exact=exact,
        stop_reason="interrupted" if interrupted else first.stop_reason,
        states_scored=first.states_scored,
        states_evaluated=first.states_evaluated,
        wall_seconds=first.wall_seconds,
        cpu_seconds=first.cpu_seconds,
        plans=[_figures(result) for result in kept],
    )
    return Frontier(first.source, figures, [result.plan for result in kept], times)


def pareto(results: Iterable[_core.Result]) -> list[_core.Result]:
    """Those that no other beats in both memory and time, from the fastest to the smallest."""
    kept: list[_core.Result] = []
    for result in sorted(results, key=lambda result: (result.seconds, result.peak_bytes)):
        if kept and result.peak_bytes >= kept[-1].peak_bytes:
            continue
        while kept and result.seconds <= kept[-1].seconds * _SLOWER:
            kept.pop()
        kept.append(result)
    return kept


def _with_parts_measured(results: list[_core.Result], profile: _core.Device) -> list[_core.Result]:
    # Plans for the graph as it was captured are right as they are.
    found = [result for result in results if not result.plan.graph.altered]
    split = [result for result in results if result.plan.graph.altered]
    try:
        with counting("measuring parts", len(split)) as show:
            for number, result in enumerate(split, start=1):
                show(number)
                with DeferredInterrupt():
                    found.append(with_parts_measured(result, profile))
    except KeyboardInterrupt:
        if not found:
            raise
    return found


def _figures(result: _core.Result) -> PlanFigures:
    loops = read_loops(result.plan.text()).loops.values() if result.regions else ()
    return PlanFigures(
        peak_bytes=result.peak_bytes,
        host_bytes=result.host_bytes,
        seconds=result.seconds,
        parts=[loop.part_count for loop in loops],
        recomputed=result.recomputed,
        swapped=result.swapped,
    )
