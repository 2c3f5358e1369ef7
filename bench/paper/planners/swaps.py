"""Where tensors leave for the host and come back, so that nobody waits for the copies."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from planners.memory import profile
from planners.problem import Problem, Step

SQUEEZES = 40  # rounds


@dataclass(frozen=True)
class Gap:
    """Steps between which a tensor is not used: the last one that names it, the next one."""

    tensor: int
    after: int
    before: int


@dataclass(frozen=True)
class Placed:
    """Before which steps the device lets go of a tensor and takes memory for it again."""

    gap: Gap
    release: int
    load: int
    hidden: bool  # nobody waits for the copies


def place(problem: Problem, steps: Sequence[Step], gaps: Sequence[Gap]) -> list[Placed]:
    """Stores go out as soon as their tensors are made, one after the other; loads come as late as
    is early enough, one after the other. Only the time of what runs counts; at most one gap a
    tensor."""
    starts = start_times(problem, steps)
    releases = {
        gap.tensor: max(bisect_left(starts, left - 1e-12), gap.after + 1)
        for gap, left in _leaving(problem, steps, gaps)
    }
    placed = []
    needed = starts[-1]
    for gap in sorted(gaps, key=lambda gap: gap.before, reverse=True):
        needed = min(needed, starts[gap.before]) - problem.copy_seconds[gap.tensor]
        load = min(bisect_right(starts, needed + 1e-12) - 1, gap.before)
        release = releases[gap.tensor]
        placed.append(Placed(gap, release, load, needed >= 0 and release < load))
    return placed


def store_times(problem: Problem, steps: Sequence[Step], gaps: Sequence[Gap]) -> dict[int, float]:
    """When each tensor has arrived on the host."""
    return {gap.tensor: left for gap, left in _leaving(problem, steps, gaps)}


def _leaving(
    problem: Problem, steps: Sequence[Step], gaps: Sequence[Gap]
) -> list[tuple[Gap, float]]:
    starts = start_times(problem, steps)
    made = _made_at(problem, steps, gaps)
    free = 0.0
    times = []
    for gap in sorted(gaps, key=lambda gap: made[gap.tensor]):
        free = max(free, starts[made[gap.tensor] + 1]) + problem.copy_seconds[gap.tensor]
        times.append((gap, free))
    return times


def exposed(gap: Gap) -> Placed:
    """The shortest stay on the device, whoever has to wait for that."""
    return Placed(gap, gap.after + 1, gap.before, False)


def with_swaps(problem: Problem, steps: Sequence[Step], placed: Collection[Placed]) -> list[Step]:
    """Stores stand right behind what makes the tensor; at one place, first what leaves."""
    made = _made_at(problem, steps, [p.gap for p in placed])
    behind: dict[int, list[Step]] = {}
    ahead: dict[int, list[Step]] = {}
    for p in sorted(placed, key=lambda p: (p.release, p.gap.tensor)):
        ahead.setdefault(p.release, []).append(Step("release", p.gap.tensor))
    for p in sorted(placed, key=lambda p: (p.load, p.gap.before, p.gap.tensor)):
        behind.setdefault(made[p.gap.tensor], []).append(Step("store", p.gap.tensor))
        ahead.setdefault(p.load, []).append(Step("load", p.gap.tensor))
    result: list[Step] = []
    for position, step in enumerate(steps):
        result += ahead.get(position, [])
        result.append(step)
        result += behind.get(position, [])
    return result


def start_times(problem: Problem, steps: Sequence[Step]) -> list[float]:
    """Of each step, and, last, the end."""
    return [0.0, *accumulate(problem.seconds[step.subject] for step in steps)]


def _made_at(problem: Problem, steps: Sequence[Step], gaps: Sequence[Gap]) -> dict[int, int]:
    """The run that made what is there when the gap begins."""
    makers: dict[int, list[Gap]] = {}
    for gap in gaps:
        makers.setdefault(problem.producer[gap.tensor], []).append(gap)
    made: dict[int, int] = {}
    for position, (_, op) in enumerate(steps):
        for gap in makers.get(op, []):
            if position <= gap.after:
                made[gap.tensor] = position
    return made


def squeezed(
    problem: Problem, steps: Sequence[Step], placed: Sequence[Placed], budget: int
) -> list[Placed]:
    """While the peak is above `budget` (bytes beside the inputs), what is on its way then has to
    have left, or may come only later, and the step waits for it."""
    placed = list(placed)
    for _ in range(SQUEEZES):
        swapped = with_swaps(problem, steps, placed)
        moments = profile(problem, swapped).moments
        peak = max(moments)
        if peak <= budget:
            break
        index = moments.index(peak)
        at = sum(step.kind == "run" for step in swapped[:index])
        need = peak - budget
        changed = False
        for i, p in enumerate(placed):
            if need <= 0:
                break
            if p.gap.after < at < p.release:  # at `at` or before it, as early as may be
                placed[i] = replace(p, release=at, hidden=False)
            elif p.load <= at < p.gap.before:
                placed[i] = replace(p, load=at + 1, hidden=False)
            else:
                continue
            need -= problem.bytes[p.gap.tensor]
            changed = True
        if not changed:
            break
    return placed
