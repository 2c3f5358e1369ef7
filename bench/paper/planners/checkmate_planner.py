"""Optimal rematerialization as an integer linear programme, or its rounded relaxation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from planners.budgets import Candidates, program_order_range, rewritten_problem, search_budgets
from planners.exact import Checkmate, Instance
from planners.memory import without_dead_runs
from planners.planner import Outcome, Task
from planners.problem import Problem, Step, run
from planners.recompute import eager_order, may_run_again

EXACT = 24  # operators whose programme is solved in integers
GROUPS = 40  # that larger graphs are put together to
SOLVES = 6  # budgets that there has to be time for


@dataclass(frozen=True)
class IntegerProgramme:
    name: ClassVar[str] = "checkmate"
    published: ClassVar[str] = "Jain et al., MLSys 2020"
    simplified: ClassVar[str] = (
        f"Graphs of up to {EXACT} operators: its integer programme, solved by HiGHS in the time"
        " there is. Larger ones: its linear relaxation with two-phase rounding at a half. Graphs"
        f" of more than {GROUPS} operators: neighbours are first put together, those that make"
        f" least, until {GROUPS} groups are left, each of which is kept or repeated as a whole;"
        " what nobody reads of a repeated group is left out afterwards."
    )

    def plan(self, task: Task) -> Outcome:
        problem = rewritten_problem(task)
        candidates = Candidates(task)
        candidates.add(problem, eager_order(problem), "nothing is recomputed")
        groups = grouped(problem, GROUPS)
        instance = instance_of(problem, groups)
        exact = len(problem.operators) <= EXACT
        share = task.seconds / SOLVES

        def make(budget: int) -> tuple[Sequence[Step], str] | None:
            room = (budget - problem.persistent_bytes) / UNIT
            limit = max(0.1, min(share, candidates.seconds_left))
            solution = Checkmate(instance, room, relaxed=not exact).solve(limit)
            if solution.runs is None:
                return None
            steps = [run(op) for name in solution.runs for op in groups[int(name)]]
            return clean(problem, steps), note

        kind = "integer programme" if exact else "linear relaxation, rounded"
        note = f"{kind}, {len(groups)} groups of {len(problem.operators)} operators"
        search_budgets(candidates, problem, make, *program_order_range(problem))
        return candidates.outcome()


UNIT = 1e6  # bytes: figures of a size that the solver likes


def clean(problem: Problem, steps: Sequence[Step]) -> list[Step]:
    """Without repetition of what cannot run again, or not any more: its results stay."""
    seen: set[int] = set()
    kept = []
    for step in steps:
        if step.subject not in seen or may_run_again(problem, step.subject, seen):
            kept.append(step)
        seen.add(step.subject)
    return without_dead_runs(problem, kept)


def grouped(problem: Problem, most: int) -> list[list[int]]:
    """Neighbours in eager order, put together until there are at most so many groups."""
    groups = [[op] for _, op in eager_order(problem)]
    weights = [float(sum(problem.bytes[t] for t in problem.makes[op])) for [op] in groups]
    while len(groups) > most:
        at = min(range(len(groups) - 1), key=lambda i: weights[i] + weights[i + 1])
        groups[at : at + 2] = [groups[at] + groups[at + 1]]
        weights[at : at + 2] = [weights[at] + weights[at + 1]]
    return groups


def instance_of(problem: Problem, groups: Sequence[Sequence[int]]) -> Instance:
    """A group's result is what later groups read of what it makes; outputs, and what cannot be made
    again, stay once they are made."""
    group_of = {op: number for number, group in enumerate(groups) for op in group}
    reads: list[set[int]] = [set() for _ in groups]
    units = [0.0] * len(groups)
    resident = [0.0] * len(groups)
    for tensor, producer in enumerate(problem.producer):
        if producer < 0:
            continue
        home = group_of[producer]
        readers = {group_of[reader] for reader in problem.readers[tensor]} - {home}
        size = problem.bytes[tensor] / UNIT
        if problem.is_output[tensor] or (readers and not problem.recomputable[producer]):
            resident[home] += size
        elif readers:
            units[home] += size
            for reader in readers:
                reads[reader].add(home)
    working = [
        max(0.0, _peak_alone(problem, group) / UNIT - units[i] - resident[i])
        for i, group in enumerate(groups)
    ]
    return Instance(
        [str(i) for i in range(len(groups))],
        [sorted(found) for found in reads],
        units,
        [math.fsum(problem.seconds[op] for op in group) for group in groups],
        frozenset(),
        working,
        resident,
    )


def _peak_alone(problem: Problem, group: Sequence[int]) -> int:
    """What the group takes while it runs, with all kept that others read."""
    inside = set(group)
    live = peak = 0
    left = {
        tensor: [r for r in problem.readers[tensor] if r in inside]
        for op in group
        for tensor in problem.makes[op]
    }
    stays = {t for t in left if problem.is_output[t] or len(left[t]) < len(problem.readers[t])}
    for op in group:
        live += sum(problem.bytes[t] for t in problem.makes[op])
        peak = max(peak, live + problem.operators[op].scratch)
        for tensor in {*problem.reads[op], *problem.makes[op]}:
            if tensor in left:
                left[tensor] = [r for r in left[tensor] if r != op]
                if not left[tensor] and tensor not in stays:
                    live -= problem.bytes[tensor]
                    stays.add(tensor)
    return peak
