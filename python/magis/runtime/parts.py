"""Searching for plans with regions or rewrites, whose kernels' scratch is only known once it is
measured as they run there. Free of PyTorch until something has to be measured.
"""

from __future__ import annotations

from collections.abc import Callable

from magis import _core

# How often a plan is searched for whose parts turn out to need more scratch than estimated.
_MOST_REPEATS = 3
_MOST_OBSTACLES = 3


def search_with_parts_measured(
    search: Callable[[int | None], _core.Result], profile: _core.Device, memory_limit: int | None
) -> _core.Result:
    """What `search` finds for a memory limit in bytes (None: the limit is another one), its promise
    counted with the scratch that parts take on this machine.

    The search estimates that scratch as a share of the whole operator's. A plan that measuring
    pushes over the limit is searched for again, with the limit lowered by what is too much.
    """
    aim = memory_limit
    result = search(aim)
    for _ in range(_MOST_REPEATS):
        if not result.plan.graph.altered:
            break
        promised = result.met
        result = with_parts_measured(result, profile, memory_limit)
        if result.met or not promised or aim is None or memory_limit is None:
            break
        aim -= result.peak_bytes - memory_limit
        result = search(aim)
    return result


def what_stays_whole(graph: _core.Graph, profile: _core.Device) -> str:
    """What keeps some of the step out of a region along the axis of the batch, in words; empty if
    nothing does."""
    obstacles = _core.fission_regions(graph, device=profile, limit=1).obstacles()
    if not obstacles:
        return ""
    shown = "; ".join(obstacles[:_MOST_OBSTACLES])
    more = len(obstacles) - _MOST_OBSTACLES
    return (
        "not all of the step runs in parts of the batch: "
        + shown
        + (f"; and {more:,} more (`magis inspect` lists them)" if more > 0 else "")
    )


def with_parts_measured(
    result: _core.Result, profile: _core.Device, memory_limit: int | None = None
) -> _core.Result:
    """`result`, its promise counted with the scratch that parts take on this machine. With a limit
    in bytes, whether it is met is said anew.
    """
    from magis.runtime import scratch

    text = scratch.with_parts_measured(result.plan.text(), result.source.text())
    plan = _core.Plan.parse(text, "plan")
    return result.with_plan(plan, device=profile, memory_limit=memory_limit)
