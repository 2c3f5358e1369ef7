"""The loops of a plan, with what each costs in time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from magis.report.explanation_words import axis_text
from magis.report.lifetimes import tensor_of
from magis.report.loops import read_loops

if TYPE_CHECKING:
    from magis import _core

Item = dict[str, Any]

_BOUNDS = ("magis.begin", "magis.end")


def loops_told(
    items: list[Item], plan: _core.Plan, before: _core.Plan | None, device: _core.Device
) -> list[Item]:
    """The items of an explanation, those on loops with their axis in words (`axis_text`) and their
    `price`: `part_seconds` that everything in the loop takes, and `whole_seconds` that the captured
    graph's operators of the same names take; None where operators were rewritten, whose names mean
    something else then, or where the captured graph is not known.
    """
    whole = None if before is None or plan.graph.rewrites else before
    prices = _prices(plan, whole, device) if plan.graph.loop_count else {}
    return [
        {
            **item,
            "axis_text": axis_text(item["axis"], item["length"]),
            "price": prices[item["loop"]],
        }
        if item["kind"] == "split"
        else item
        for item in items
    ]


def _prices(plan: _core.Plan, before: _core.Plan | None, device: _core.Device) -> dict[str, Item]:
    loops = read_loops(plan.graph.text())
    known = before is not None
    whole = {} if before is None else _seconds_by_operator(before, device)
    prices: dict[str, Item] = {
        name: {"whole_seconds": 0.0 if known else None, "part_seconds": 0.0} for name in loops.loops
    }
    for name, seconds in _seconds_by_operator(plan, device).items():
        for loop in loops.around.get(name, []):
            price = prices[loop.name]
            price["part_seconds"] += seconds
            if known:
                price["whole_seconds"] += whole.get(name, 0.0)
    return prices


def _seconds_by_operator(plan: _core.Plan, device: _core.Device) -> dict[str, float]:
    """All iterations and repetitions together, by first results."""
    ran = [p.result for p in plan.simulate(device).timeline if p.operator not in _BOUNDS]
    seconds: defaultdict[str, float] = defaultdict(float)
    for result, (_, cost) in zip(ran, plan.run_costs(device), strict=True):
        seconds[tensor_of(result)] += cost
    return seconds
