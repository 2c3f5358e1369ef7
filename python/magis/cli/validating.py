"""`--validate`: the plans that were found, run on the model that was captured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from magis.cli.measuring import use_recorded_threads

if TYPE_CHECKING:
    from magis import _core
    from magis.runtime.validation import Validated


def best_of(
    count: int,
    search_from: Callable[[int], _core.Result],
    seed: int,
    model: str | None,
    latency_limit: Any,
    device: _core.Device,
) -> tuple[_core.Result, Validated | None]:
    """What the search finds from `seed`; with a count the best of the plans found from so many
    seeds, which are run here.

    model: as for `magis run`. latency_limit: in seconds, or None. device: the profile with the
    times promised. Raises UsageError if the model cannot be built, PlanError if it is not the one
    that was captured.
    """
    if not count:
        return search_from(seed), None
    from magis.runtime.validation import find_several

    results = find_several(search_from, count, seed)
    use_recorded_threads(results[0].source)
    validated = _run(results, model, latency_limit, device)
    return results[validated.number], validated


def _run(
    results: Sequence[_core.Result],
    model: str | None,
    latency_limit: float | None,
    device: _core.Device,
) -> Validated:
    from magis import _core
    from magis.cli.trial import Trial, capture_again, check_same_graph, optimizer_of
    from magis.cli.workload import workload_of
    from magis.runtime.validation import validate

    own_order = _core.Plan.program_order(results[0].source)
    graph = own_order.graph
    workload = workload_of(graph.meta, model, device=graph.device)
    optimizer = optimizer_of(workload, graph.meta)
    captured = capture_again(workload, graph.meta, graph.device, optimizer)
    check_same_graph(own_order, "", captured, "the graph")
    plans = [result.plan for result in results]
    timers = [Trial(workload, captured, plan, None, optimizer).timer for plan in plans]
    base = Trial(workload, captured, own_order, None, optimizer).timer
    return validate(results, timers, base, latency_limit, device)
