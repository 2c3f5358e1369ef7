"""From what a planner makes of a budget of memory to what it makes of a task."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import magis._core as core
from planners.planner import Outcome, Task
from planners.problem import Footprint, Problem, Step, rewritten

SWEEP = 6  # budgets tried before halving begins
HALVINGS = 10


@dataclass
class Candidates:
    """Programs that a planner has made for a task; the best one so far."""

    task: Task
    began: float = field(default_factory=time.monotonic)
    problem: Problem | None = None
    steps: Sequence[Step] | None = None
    found: Footprint | None = None
    note: str = ""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float:
        return self.task.seconds - self.elapsed

    def meets(self, found: Footprint) -> bool:
        if self.task.memory_limit is not None:
            return found.peak_bytes <= self.task.memory_limit
        assert self.task.latency_limit is not None
        return found.seconds <= self.task.latency_limit

    def cost(self, found: Footprint) -> tuple[bool, float, float]:
        """What is least is best: what the limit asks for, then what it does not limit."""
        limited, free = float(found.peak_bytes), found.seconds
        if self.task.memory_limit is None:
            limited, free = free, limited
        met = self.meets(found)
        return (False, free, limited) if met else (True, limited, free)

    def add(self, problem: Problem, steps: Sequence[Step], note: str = "") -> Footprint:
        found = problem.footprint(steps)
        if self.found is None or self.cost(found) < self.cost(self.found):
            self.problem, self.steps, self.found, self.note = problem, steps, found, note
        return found

    def outcome(self, note: str = "") -> Outcome:
        if self.problem is None or self.steps is None:
            return Outcome(None, 0, math.inf, False, self.elapsed, note or "nothing was found")
        plan = self.problem.plan(self.steps)
        return judged(self.task, plan, self.elapsed, self.note or note)


def judged(task: Task, plan: core.Plan, wall_seconds: float, note: str) -> Outcome:
    """What the simulator says of a plan."""
    plan.verify()
    simulation = plan.simulate(task.device)
    peak, seconds = simulation.peak_bytes, simulation.seconds
    if task.memory_limit is not None:
        met = peak <= task.memory_limit
    else:
        assert task.latency_limit is not None
        met = seconds <= task.latency_limit
    return Outcome(plan, peak, seconds, met, wall_seconds, note)


def rewritten_problem(task: Task) -> Problem:
    return Problem.of(rewritten(task.graph, task.device), task.device)


Made: TypeAlias = "tuple[Sequence[Step], str] | None"
Make = Callable[[int], Made]


def search_budgets(
    candidates: Candidates,
    problem: Problem,
    make: Make,
    least: int,
    most: int,
    seconds: float | None = None,
) -> None:
    """Adds what `make` makes of budgets (bytes, persistent included; with a note) between `least`
    and `most`: the largest that keeps a memory limit, or the smallest that keeps a latency limit.
    What a planner takes for the peak may be off, so it is the simulator that is asked. Takes at
    most `seconds`, or what is left of the task's."""
    memory_limit = candidates.task.memory_limit
    until = candidates.elapsed + (candidates.seconds_left if seconds is None else seconds)

    def generous(budget: int) -> bool | None:
        """The budget is large enough, or too large; None: time is up."""
        if candidates.found is not None and candidates.elapsed >= until:
            return None
        made = make(budget)
        if made is None:
            return False
        found = candidates.add(problem, *made)
        return candidates.meets(found) == (memory_limit is None)

    first = [memory_limit] if memory_limit is not None else []
    sweep = sorted({*first, *(least + (most - least) * i // SWEEP for i in range(SWEEP + 1))})
    low, high = least, most
    # Halving among the budgets of the sweep first, so that each is known to be on its side.
    small, large = 0, len(sweep) - 1
    while small <= large:
        middle = (small + large) // 2
        verdict = generous(sweep[middle])
        if verdict is None:
            return
        if verdict:
            high, large = sweep[middle], middle - 1
        else:
            low, small = sweep[middle], middle + 1
    for _ in range(HALVINGS):
        if high - low < problem.baseline.peak_bytes // 1000:
            return
        middle = (low + high) // 2
        verdict = generous(middle)
        if verdict is None:
            return
        low, high = (low, middle) if verdict else (middle, high)


def program_order_range(problem: Problem) -> tuple[int, int]:
    """Budgets worth a try: from what no operator can do without to what program order takes."""
    structure = problem.structure
    made = [sum(problem.bytes[t] for t in makes) for makes in problem.makes]
    return structure.persistent_bytes + max(made, default=0), problem.baseline.peak_bytes
