"""Plans to draw pages of, and what a page's own data come to, counted the plain way."""

from __future__ import annotations

from functools import cache
from typing import Any

from magis import _core, zoo
from magis.capture import capture
from magis.report import Report

Json = dict[str, Any]

DEVICE = "rtx3090"


@cache
def zoo_graph(name: str, size: str) -> _core.Graph:
    """Captured without weights."""
    model, loss_fn, batch = zoo.build(name, size=size, device="meta")
    text = capture(model, loss_fn, batch, device="cpu", meta={"model": name}).text
    return _core.Graph.parse(text, name)


def planned(
    graph: _core.Graph, share: float, states: int = 20_000, **options: Any
) -> tuple[_core.Plan, Report]:
    """A plan for so much of the peak, or the best that so many states lead to."""
    before = _core.Plan.program_order(graph).simulate(DEVICE)
    limit = int(share * before.peak_bytes)
    result = _core.optimize(
        graph,
        device=DEVICE,
        memory_limit=limit,
        state_budget=states,
        time_budget=300.0,
        **options,
    )
    report = Report.build(
        result, device=DEVICE, limit_text="a share", limit_bytes=limit, replayed="not replayed"
    )
    return result.plan, report


def live_by_kind(data: Json, run: Json, moment: int) -> list[int]:
    """Bytes of each kind at one moment, from the page's own rows."""
    sums = [0] * len(data["kinds"])
    tensors = run["tensors"]
    for first, last, size, kind in zip(
        tensors["first"], tensors["last"], tensors["bytes"], tensors["kind"], strict=True
    ):
        if first <= moment <= last:
            sums[kind] += size
    sums[data["kinds"].index("workspace")] += run["moments"]["scratch"][moment]
    return sums


def totals(run: Json) -> list[int]:
    """Bytes at each moment, from lifetimes and scratch."""
    change = [0] * (len(run["moments"]["start"]) + 1)
    tensors = run["tensors"]
    for first, last, size in zip(tensors["first"], tensors["last"], tensors["bytes"], strict=True):
        change[first] += size
        change[last + 1] -= size
    live = 0
    found = []
    for step, scratch in zip(change, run["moments"]["scratch"], strict=False):
        live += step
        found.append(live + scratch)
    return found


def words(data: Json, run: Json, table: str, column: str) -> list[str]:
    return [data["texts"][number] for number in run[table][column]]
