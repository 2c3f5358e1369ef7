"""The loops of a plan, with what each costs in time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from magis.report.explanation_words import axis_text
from magis.report.loops import read_loops
from magis.report.statements import tensor_of

if TYPE_CHECKING:
    from magis import _core

Item = dict[str, Any]

_BOUNDS = ("magis.begin", "magis.end")


def loops_told(
    items: list[Item], plan: _core.Plan, before: _core.Plan | None, device: _core.Device
) -> list[Item]:
    """The items of an explanation, those on loops with their axis in words (`axis_text`) and their
    `price`: `whole_seconds` that the captured graph's operators of the same names take, and
    `part_seconds` that everything in the loop takes. No price where operators were rewritten, whose
    names mean something else then, or where the captured graph is not known.
    """
    prices: dict[str, Item] = {}
    if before is not None and not plan.graph.rewrites and plan.graph.loop_count:
        prices = _prices(plan, before, device)
    return [
        {
            **item,
            "axis_text": axis_text(item["axis"], item["length"]),
            "price": prices.get(item["loop"]),
        }
        if item["kind"] == "split"
        else item
        for item in items
    ]


def _prices(plan: _core.Plan, before: _core.Plan, device: _core.Device) -> dict[str, Item]:
    loops = read_loops(plan.graph.text())
    whole = _seconds_by_operator(before, device)
    prices: dict[str, Item] = {
        name: {"whole_seconds": 0.0, "part_seconds": 0.0} for name in loops.loops
    }
    for name, seconds in _seconds_by_operator(plan, device).items():
        for loop in loops.around.get(name, []):
            prices[loop.name]["part_seconds"] += seconds
            prices[loop.name]["whole_seconds"] += whole.get(name, 0.0)
    return prices


def _seconds_by_operator(plan: _core.Plan, device: _core.Device) -> dict[str, float]:
    """All iterations and repetitions together, by first results."""
    ran = [p.result for p in plan.simulate(device).timeline if p.operator not in _BOUNDS]
    seconds: defaultdict[str, float] = defaultdict(float)
    for result, (_, cost) in zip(ran, plan.run_costs(device), strict=True):
        seconds[tensor_of(result)] += cost
    return seconds
