"""The program that recomputes what is not saved, for every planner that decides what is."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from planners.memory import without_dead_runs
from planners.phases import phases_of
from planners.problem import Problem, Step, run
from planners.remember import remembered


def saving(problem: Problem, saved: Collection[int]) -> list[Step]:
    """The forward pass, after which only the tensors in `saved` are kept of it; then the backward
    pass, in program order, before each operator of which runs again what it misses, and that is
    then kept as long as anybody reads it. What cannot run again is kept as well."""
    phases = phases_of(problem)
    demand = Demand(problem)
    for op in phases.before + phases.forward:
        demand.run(op)
    kept = set(saved)
    for op in phases.forward:
        if problem.recomputable[op]:
            demand.forget(t for t in problem.makes[op] if t not in kept)
    for op in phases.backward:
        if op not in phases.free_to_wait:
            demand.run(op)
    for op in phases.after:
        demand.run(op)
    return without_dead_runs(problem, demand.steps)


@remembered
def eager_order(problem: Problem) -> list[Step]:
    """Program order, or, if that takes less, with weights' gradients as soon as they can be made,
    as autograd does, and what has no gradient in it right before it is read."""
    steps = saving(problem, crossing(problem))
    if problem.footprint(steps).peak_bytes < problem.baseline.peak_bytes:
        return steps
    return problem.program_order


def may_run_again(problem: Problem, op: int, has_run: Collection[int]) -> bool:
    """It is pure, and still finds what it read."""
    late = any(writer in has_run for writer in problem.overwriters[op])
    return problem.recomputable[op] and not late


class Demand:
    """Runs operators, and before each whatever it reads and nobody holds."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.steps: list[Step] = []
        self.has_run: set[int] = set()
        self.held = {t for t, source in enumerate(problem.producer) if source < 0}

    def run(self, op: int) -> None:
        waiting = [op]
        while waiting:
            missing = self._missing(waiting[-1])
            if missing:
                waiting += missing
                continue
            done = waiting.pop()
            if waiting and self._holds(done):
                continue
            self.steps.append(run(done))
            self.has_run.add(done)
            self.held.update(self.problem.makes[done])

    def forget(self, tensors: Iterable[int]) -> None:
        """Outputs stay where they are."""
        self.held.difference_update(t for t in tensors if not self.problem.is_output[t])

    def _missing(self, op: int) -> list[int]:
        wanted = (self.problem.producer[t] for t in self.problem.reads[op] if t not in self.held)
        # What cannot run again has results that were kept for whoever reads them.
        sources = [
            source
            for source in wanted
            if source not in self.has_run or may_run_again(self.problem, source, self.has_run)
        ]
        if op not in self.has_run:
            sources += [p for p in self.problem.predecessors[op] if p not in self.has_run]
        return list(dict.fromkeys(reversed(sources)))

    def _holds(self, op: int) -> bool:
        return op in self.has_run and all(t in self.held for t in self.problem.makes[op])


def crossing(problem: Problem) -> list[int]:
    """Tensors of the forward pass that the backward pass reads, in program order."""
    phases = phases_of(problem)
    later = set(phases.backward) | set(phases.after)
    return [
        tensor
        for op in phases.forward
        for tensor in problem.makes[op]
        if any(reader in later for reader in problem.readers[tensor])
    ]
