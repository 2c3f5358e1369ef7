"""Greedy rematerialization along a schedule."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from planners.budgets import Candidates, program_order_range, rewritten_problem, search_budgets
from planners.orders import successors_of
from planners.planner import Outcome, Task
from planners.problem import Problem, Step, run
from planners.recompute import eager_order

BLOCK = 8  # operators that are repeated together, at most


@dataclass(frozen=True)
class GreedyRematerialization:
    name: ClassVar[str] = "xla"
    published: ClassVar[str] = "XLA's HloRematerialization (OpenXLA, 2017 on; as its header says)"
    simplified: ClassVar[str] = (
        "A list schedule by the bytes that an operator frees, or program order where that has the"
        " lower peak. Then one walk: where the limit is exceeded, the live tensor whose repetition"
        " saves most bytes a second is let go of and made again before its next use, with up to"
        f" {BLOCK} operators before it where its operands are gone; what keeping operands longer"
        " costs is taken off. Compression and offloading of single tensors are left out, and"
        " operators are not fused."
    )

    def plan(self, task: Task) -> Outcome:
        problem = rewritten_problem(task)
        candidates = Candidates(task)
        orders = [eager_order(problem), [run(op) for op in list_schedule(problem)]]
        found = [candidates.add(problem, order, "nothing is repeated") for order in orders]
        order = min(zip(found, orders, strict=True), key=lambda pair: pair[0].peak_bytes)[1]

        def make(budget: int) -> tuple[Sequence[Step], str] | None:
            walk = Walk(problem, order, budget - problem.persistent_bytes)
            walk.run(lambda: candidates.seconds_left > 0)
            return walk.steps, f"{walk.repeated} operators again"

        search_budgets(candidates, problem, make, *program_order_range(problem))
        return candidates.outcome()


def list_schedule(problem: Problem) -> list[int]:
    """Always the operator that may run and frees most bytes, its results taken off."""
    waiting = [len(before) for before in problem.predecessors]
    uses = [len(readers) for readers in problem.readers]
    successors = successors_of(problem)
    ready = {op for op, count in enumerate(waiting) if count == 0}
    order: list[int] = []

    def freed(op: int) -> int:
        dying = (t for t in problem.reads[op] if uses[t] == 1 and not problem.is_output[t])
        made = (t for t in problem.makes[op] if uses[t] or problem.is_output[t])
        return sum(problem.bytes[t] for t in dying) - sum(problem.bytes[t] for t in made)

    while ready:
        op = max(ready, key=lambda op: (freed(op), -op))
        ready.remove(op)
        order.append(op)
        for tensor in problem.reads[op]:
            uses[tensor] -= 1
        for after in successors[op]:
            waiting[after] -= 1
            if waiting[after] == 0:
                ready.add(after)
    return order


class Walk:
    """Goes through a schedule and counts live bytes; `budget`: bytes beside the inputs."""

    def __init__(self, problem: Problem, order: Sequence[Step], budget: int) -> None:
        self.problem = problem
        self.budget = budget
        self.order = [step.subject for step in order]
        self.place = {op: i for i, op in enumerate(self.order)}
        self.again: dict[int, list[int]] = {}  # operators that are repeated before a place
        # Places at which each tensor is still to be read, in order.
        self.uses: list[list[int]] = [
            sorted(self.place[reader] for reader in readers) for readers in problem.readers
        ]
        self.live: dict[int, int] = {}
        self.live_bytes = 0
        self.steps: list[Step] = []
        self.repeated = 0

    def run(self, go_on: Callable[[], bool]) -> None:
        for place, op in enumerate(self.order):
            queue = self.again.get(place, [])  # it may grow while it is walked
            done = 0
            while done < len(queue):
                self._execute(queue[done], place, go_on())
                done += 1
            self._execute(op, place, go_on())

    def _execute(self, op: int, place: int, relieves: bool) -> None:
        problem = self.problem
        made = [t for t in problem.makes[op] if t not in self.live]
        self.live_bytes += sum(problem.bytes[t] for t in made) - self._taken_over(op, place)
        self.live.update((t, problem.bytes[t]) for t in made)
        busy = {*problem.reads[op], *problem.makes[op]}
        need = problem.operators[op].scratch
        while relieves and self.live_bytes + need > self.budget:
            if not self._relieve(place, busy):
                break
        self.live_bytes += self._taken_over(op, place)
        self.steps.append(run(op))
        for tensor in problem.reads[op]:
            self.uses[tensor].remove(place)
        for tensor in busy:
            if tensor in self.live and not self.uses[tensor] and not problem.is_output[tensor]:
                self.live_bytes -= self.live.pop(tensor)

    def _taken_over(self, op: int, place: int) -> int:
        """Bytes of an operand that dies here, over which the operator runs."""
        problem = self.problem
        for position in problem.operators[op].in_place:
            tensor = problem.reads[op][position]
            dies = self.uses[tensor] == [place] and not problem.is_output[tensor]
            if dies and tensor in self.live:
                return problem.bytes[tensor]
        return 0

    def _relieve(self, place: int, busy: set[int]) -> bool:
        """Lets go of one tensor, and has it made again. Whether there was one."""
        best, best_score, best_block = -1, 0.0, []
        for tensor, size in self.live.items():
            uses = self.uses[tensor]
            if tensor in busy or self.problem.is_output[tensor] or not uses or uses[0] <= place:
                continue
            block = self._block(tensor, uses[0])
            if not block:
                continue
            seconds = sum(self.problem.seconds[op] for op in block)
            score = size / max(seconds, 1e-9)
            if score > best_score:
                best, best_score, best_block = tensor, score, block
        if best < 0:
            return False
        self._repeat(best, best_block, self.uses[best][0])
        return True

    def _block(self, tensor: int, place: int) -> list[int]:
        """What has to run again before `place` to have the tensor there; empty: it cannot be."""
        problem = self.problem
        block = {problem.producer[tensor]}
        waiting = list(block)
        while waiting:
            op = waiting.pop()
            late = any(self.place[writer] < place for writer in problem.overwriters[op])
            if late or not problem.recomputable[op] or len(block) > BLOCK:
                return []
            for read in problem.reads[op]:
                source = problem.producer[read]
                if source >= 0 and source not in block and not self._is_there(read, place):
                    block.add(source)
                    waiting.append(source)
        return sorted(block, key=lambda op: self.place[op])

    def _is_there(self, tensor: int, place: int) -> bool:
        """Live now, or made again by then."""
        if tensor in self.live:
            return True
        return bool(self.uses[tensor]) and self.uses[tensor][0] < place

    def _repeat(self, tensor: int, block: Sequence[int], place: int) -> None:
        problem = self.problem
        queue = self.again.setdefault(place, [])
        readers = (i for i, op in enumerate(queue) if tensor in problem.reads[op])
        at = next(readers, len(queue))
        queue[at:at] = block
        for op in block:
            for read in problem.reads[op]:
                insort(self.uses[read], place)
        self.live_bytes -= self.live.pop(tensor)
        self.repeated += len(block)
