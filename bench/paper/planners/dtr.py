"""Dynamic tensor rematerialization: an online cache of tensors, simulated operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from planners.budgets import Candidates, program_order_range, rewritten_problem, search_budgets
from planners.planner import Outcome, Task
from planners.problem import Problem, Step, run
from planners.recompute import eager_order

SLOWEST = 4.0  # times the step's own time: what takes longer is given up


@dataclass(frozen=True)
class DynamicRematerialization:
    name: ClassVar[str] = "dtr"
    published: ClassVar[str] = "Kirisame et al., ICLR 2021"
    simplified: ClassVar[str] = (
        "Its heuristic, cost over size and staleness, the cost with that of the evicted"
        " neighbourhood by union-find, and eager eviction of what the program lets go of. Costs and"
        " the clock are those of the profile. What the step's own bookkeeping takes, and the"
        f" allocator's fragmentation, are left out. A step of {SLOWEST:g} times its time is given"
        " up."
    )

    def plan(self, task: Task) -> Outcome:
        problem = rewritten_problem(task)
        candidates = Candidates(task)
        candidates.add(problem, eager_order(problem), "nothing is evicted")

        def make(budget: int) -> tuple[Sequence[Step], str] | None:
            cache = TensorCache(problem, budget - problem.persistent_bytes)
            if not cache.run_step():
                return None
            return cache.steps, f"{cache.evictions} evictions"

        search_budgets(candidates, problem, make, *program_order_range(problem))
        return candidates.outcome()


class Neighbourhoods:
    """Evicted tensors that depend on each other, as sets with a cost: a union-find from which
    nothing can be taken out but cost, as published."""

    def __init__(self, count: int) -> None:
        self.parent = list(range(count))
        self.cost = [0.0] * count

    def find(self, tensor: int) -> int:
        while self.parent[tensor] != tensor:
            self.parent[tensor] = self.parent[self.parent[tensor]]
            tensor = self.parent[tensor]
        return tensor

    def join(self, a: int, b: int) -> None:
        a, b = self.find(a), self.find(b)
        if a != b:
            self.parent[b] = a
            self.cost[a] += self.cost[b]

    def add(self, tensor: int, cost: float) -> None:
        self.parent[tensor] = tensor
        self.cost[tensor] = cost

    def take_out(self, tensor: int, cost: float) -> None:
        self.cost[self.find(tensor)] -= cost


class TensorCache:
    """`budget`: bytes beside the inputs, which are never exceeded."""

    def __init__(self, problem: Problem, budget: int) -> None:
        self.problem = problem
        self.budget = budget
        self.steps: list[Step] = []
        self.evictions = 0
        self.live = 0
        self.clock = 0.0
        self.resident: dict[int, float] = {}  # tensor -> when it was last used
        self.locks: dict[int, int] = {}
        self.uses_left = [len(readers) for readers in problem.readers]
        self.has_run: set[int] = set()
        self.evicted: set[int] = set()
        self.sets = Neighbourhoods(len(problem.tensors))
        self.neighbours = self._neighbours()

    def run_step(self) -> bool:
        """Whether it went through."""
        longest = SLOWEST * self.problem.baseline.seconds
        for _, op in eager_order(self.problem):
            if not self._execute(op) or self.clock > longest:
                return False
            self.has_run.add(op)
            for tensor in self.problem.reads[op]:
                self.uses_left[tensor] -= 1
            self._let_go([*self.problem.reads[op], *self.problem.makes[op]])
        return True

    def _execute(self, target: int) -> bool:
        """Depth first: what an operator reads is locked from when it is asked for until it has
        run."""
        waiting = [target]
        self._lock(target, 1)
        while waiting:
            op = waiting[-1]
            missing = self._missing(op)
            if missing is not None:
                if not self.problem.recomputable[missing] or self._is_too_late(missing):
                    return False
                waiting.append(missing)
                self._lock(missing, 1)
                continue
            if not self._run(op):
                return False
            waiting.pop()
            self._lock(op, -1)
            if waiting:
                self._let_go(self.problem.reads[op])
        return True

    def _missing(self, op: int) -> int | None:
        for tensor in self.problem.reads[op]:
            if self.problem.producer[tensor] >= 0 and tensor not in self.resident:
                return self.problem.producer[tensor]
        return None

    def _is_too_late(self, op: int) -> bool:
        return any(writer in self.has_run for writer in self.problem.overwriters[op])

    def _lock(self, op: int, change: int) -> None:
        for tensor in self.problem.reads[op]:
            self.locks[tensor] = self.locks.get(tensor, 0) + change

    def _run(self, op: int) -> bool:
        problem = self.problem
        made = problem.makes[op]
        need = sum(problem.bytes[t] for t in made)
        scratch = problem.operators[op].scratch
        while self.live + need + scratch > self.budget:
            if not self._evict():
                return False
        self.steps.append(run(op))
        self.clock += problem.seconds[op]
        for tensor in problem.reads[op]:
            if tensor in self.resident:
                self.resident[tensor] = self.clock
        for tensor in made:
            if tensor in self.resident:  # the copy before goes
                self.live -= problem.bytes[tensor]
            if tensor in self.evicted:
                self.evicted.remove(tensor)
                self.sets.take_out(tensor, problem.seconds[op])
            self.resident[tensor] = self.clock
            self.live += problem.bytes[tensor]
        return True

    def _let_go(self, tensors: Sequence[int]) -> None:
        """What the program does not hold any more is evicted at once."""
        for tensor in tensors:
            gone = self.uses_left[tensor] == 0 and not self.problem.is_output[tensor]
            idle = gone and tensor in self.resident and not self.locks.get(tensor)
            if idle and self._may_go(tensor):
                self._drop(tensor)

    def _may_go(self, tensor: int) -> bool:
        """What cannot be made again stays as long as what was made of it may have to be."""
        problem = self.problem
        if problem.recomputable[problem.producer[tensor]]:
            return True
        made = (t for reader in problem.readers[tensor] for t in problem.makes[reader])
        return not any(self.uses_left[t] for t in made)

    def _drop(self, tensor: int) -> None:
        del self.resident[tensor]
        self.live -= self.problem.bytes[tensor]
        self.evicted.add(tensor)
        self.sets.add(tensor, self.problem.seconds[self.problem.producer[tensor]])
        for neighbour in self.neighbours[tensor]:
            if neighbour in self.evicted:
                self.sets.join(neighbour, tensor)

    def _evict(self) -> bool:
        chosen, least = -1, float("inf")
        for tensor, used in self.resident.items():
            if self.locks.get(tensor) or not self._evictable(tensor):
                continue
            score = self._neighbourhood_cost(tensor) / (
                self.problem.bytes[tensor] * max(self.clock - used, 1e-9)
            )
            if score < least:
                chosen, least = tensor, score
        if chosen < 0:
            return False
        self.evictions += 1
        self._drop(chosen)
        return True

    def _evictable(self, tensor: int) -> bool:
        producer = self.problem.producer[tensor]
        return (
            self.problem.bytes[tensor] > 0
            and not self.problem.is_output[tensor]
            and self.problem.recomputable[producer]
            and not self._is_too_late(producer)
        )

    def _neighbourhood_cost(self, tensor: int) -> float:
        roots = {self.sets.find(n) for n in self.neighbours[tensor] if n in self.evicted}
        own = self.problem.seconds[self.problem.producer[tensor]]
        return own + sum(self.sets.cost[root] for root in roots)

    def _neighbours(self) -> list[list[int]]:
        """Tensors that one is made of, and those that are made of it."""
        problem = self.problem
        neighbours: list[set[int]] = [set() for _ in problem.tensors]
        for op, made in enumerate(problem.makes):
            for tensor in made:
                for read in problem.reads[op]:
                    if problem.producer[read] >= 0:
                        neighbours[tensor].add(read)
                        neighbours[read].add(tensor)
        return [sorted(found) for found in neighbours]
