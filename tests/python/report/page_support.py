"""Plans to draw pages of, and what a page's own data come to, counted the plain way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from magis import _core, zoo
from magis.capture import capture
from magis.report import Report
from magis.report.timeline import Loop, Timeline

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


@dataclass(frozen=True)
class Step:
    """A moment, in a loop once for each part."""

    moment: int
    start: float
    end: float
    loops: tuple[tuple[str, int], ...]  # around it, outer before inner, and in which part


def steps_of(timeline: Timeline) -> list[Step]:
    """Counted the plain way: a loop's parts one after the other."""
    return _steps(timeline, 0, len(timeline.moments), timeline.loops, 1.0, 0.0, ())


def _steps(
    timeline: Timeline,
    first: int,
    end: int,
    loops: list[Loop],
    stretched: float,
    shift: float,
    around: tuple[tuple[str, int], ...],
) -> list[Step]:
    found: list[Step] = []
    moment = first
    while moment < end or loops:
        if not loops or loops[0].first > moment:
            at = timeline.moments[moment]
            times = (at.start * stretched + shift, at.end * stretched + shift)
            found.append(Step(moment, *times, around))
            moment += 1
            continue
        loop, *others = loops
        inside = [other for other in others if other.first <= loop.last]
        loops = others[len(inside) :]
        for part in range(loop.parts):
            scale = loop.other_seconds / loop.seconds if part and loop.seconds else 1.0
            begin = loop.start + (part and loop.seconds + (part - 1) * loop.other_seconds)
            offset = stretched * (begin - loop.start * scale) + shift
            place = (*around, (loop.name, part + 1))
            body = (loop.first, loop.last + 1, inside, stretched * scale, offset, place)
            found += _steps(timeline, *body)
        moment = loop.last + 1
    return found


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
