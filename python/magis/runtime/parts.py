"""Searching for plans with regions, whose kernels' scratch is only known once it is measured at the
size of a part. Free of PyTorch until something has to be measured.
"""

from __future__ import annotations

from collections.abc import Callable

from magis import _core

# How often a plan is searched for whose parts turn out to need more scratch than estimated.
_MOST_REPEATS = 3


def search_with_parts_measured(
    search: Callable[[int | None], _core.Result], profile: str, memory_limit: int | None
) -> _core.Result:
    """What `search` finds for a memory limit in bytes (None: the limit is another one), its promise
    counted with the scratch that parts take on this machine.

    The search estimates that scratch as a share of the whole operator's. A plan that measuring
    pushes over the limit is searched for again, with the limit lowered by what is too much.
    """
    aim = memory_limit
    result = search(aim)
    for _ in range(_MOST_REPEATS):
        if not result.regions:
            break
        promised = result.met
        result = _measured(result, profile, memory_limit)
        if result.met or not promised or aim is None or memory_limit is None:
            break
        aim -= result.peak_bytes - memory_limit
        result = search(aim)
    return result


def _measured(result: _core.Result, profile: str, memory_limit: int | None) -> _core.Result:
    from magis.runtime.scratch import with_parts_measured

    plan = _core.Plan.parse(with_parts_measured(result.plan.text()), "plan")
    return result.with_plan(plan, device=profile, memory_limit=memory_limit)
