"""Planners that only choose an order, or not even that."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import magis._core as core
from planners.budgets import Candidates, judged, rewritten_problem
from planners.planner import Outcome, Task
from planners.problem import Problem, Step, run


@dataclass(frozen=True)
class ProgramOrder:
    name: ClassVar[str] = "pytorch"
    published: ClassVar[str] = "Paszke et al., NeurIPS 2019"
    simplified: ClassVar[str] = (
        "The captured graph in program order, with operators in place wherever their operand dies;"
        " the only planner whose graph is not rewritten, as it is what all others are compared"
        " with. It has no limit to keep."
    )

    def plan(self, task: Task) -> Outcome:
        began = time.monotonic()
        plan = core.Plan.program_order(task.graph)
        return judged(task, plan, time.monotonic() - began, "as captured")


@dataclass(frozen=True)
class InductorOrder:
    name: ClassVar[str] = "inductor-order"
    published: ClassVar[str] = "Ansel et al. (TorchInductor's memory reordering), ASPLOS 2024"
    simplified: ClassVar[str] = (
        "Its three topological orders (least peak memory first, breadth first, depth first), the"
        " best of them and of program order by the simulated peak. Operators are not fused, so all"
        " tensors count that fusing would do away with. No recomputation: it knows no limit."
    )

    def plan(self, task: Task) -> Outcome:
        problem = rewritten_problem(task)
        candidates = Candidates(task)
        candidates.add(problem, problem.program_order, "program order")
        for name, order in ORDERS.items():
            candidates.add(problem, [run(op) for op in order(problem)], name)
        return candidates.outcome()


def least_peak_first(problem: Problem) -> list[int]:
    """Among the operators that may run: while some do not exceed the peak so far, the one after
    which least is live; otherwise the one during which least is."""
    waiting = [len(before) for before in problem.predecessors]
    uses = [len(readers) for readers in problem.readers]
    successors = successors_of(problem)
    ready = {op for op, count in enumerate(waiting) if count == 0}
    live = peak = 0
    order: list[int] = []

    def figures(op: int) -> tuple[int, int]:
        made = sum(problem.bytes[t] for t in problem.makes[op])
        freed = sum(problem.bytes[t] for t in problem.reads[op] if dies(t))
        unread = (t for t in problem.makes[op] if not uses[t] and not problem.is_output[t])
        during = live + made
        return during, during - freed - sum(problem.bytes[t] for t in unread)

    def dies(tensor: int) -> bool:
        return uses[tensor] == 1 and not problem.is_output[tensor]

    while ready:
        both = {op: figures(op) for op in ready}
        within = [op for op, (during, _) in both.items() if during <= peak]
        chosen = (
            min(within, key=lambda op: (both[op][1], op))
            if within
            else min(both, key=lambda op: (both[op][0], op))
        )
        peak, live = max(peak, both[chosen][0]), both[chosen][1]
        for tensor in problem.reads[chosen]:
            uses[tensor] -= 1
        ready.remove(chosen)
        order.append(chosen)
        for after in successors[chosen]:
            waiting[after] -= 1
            if waiting[after] == 0:
                ready.add(after)
    return order


def breadth_first(problem: Problem) -> list[int]:
    """Among the operators that may run, the one whose predecessors ran earliest."""
    place: dict[int, int] = {}
    waiting = [len(before) for before in problem.predecessors]
    successors = successors_of(problem)
    queue: list[tuple[list[int], int]] = [([], op) for op, count in enumerate(waiting) if not count]
    heapq.heapify(queue)
    order: list[int] = []
    while queue:
        _, op = heapq.heappop(queue)
        place[op] = len(order)
        order.append(op)
        for after in successors[op]:
            waiting[after] -= 1
            if waiting[after] == 0:
                before = sorted(place[p] for p in problem.predecessors[after])
                heapq.heappush(queue, (before, after))
    return order


def depth_first(problem: Problem) -> list[int]:
    """Each operator right after all that it depends on, those that touch least memory first."""

    def touched(op: int) -> int:
        return sum(problem.bytes[t] for t in problem.reads[op] + problem.makes[op])

    roots = sorted(range(len(problem.operators)), key=lambda op: (touched(op), op))
    return after_dependencies(problem, roots)


def after_dependencies(problem: Problem, roots: Sequence[int]) -> list[int]:
    """Depth first from each root in turn: predecessors, then itself."""
    done: set[int] = set()
    order: list[int] = []
    for root in roots:
        stack = [root]
        while stack:
            op = stack[-1]
            missing = [p for p in problem.predecessors[op] if p not in done]
            if missing and op not in done:
                stack += reversed(missing)
                continue
            stack.pop()
            if op not in done:
                done.add(op)
                order.append(op)
    return order


def successors_of(problem: Problem) -> list[list[int]]:
    successors: list[list[int]] = [[] for _ in problem.operators]
    for op, before in enumerate(problem.predecessors):
        for earlier in before:
            successors[earlier].append(op)
    return successors


ORDERS: dict[str, Callable[[Problem], list[int]]] = {
    "least peak first": least_peak_first,
    "breadth first": breadth_first,
    "depth first": depth_first,
}


@dataclass(frozen=True)
class StaticMemoryPlanning:
    name: ClassVar[str] = "tvm"
    published: ClassVar[str] = "Chen et al., OSDI 2018"
    simplified: ClassVar[str] = (
        "Its graph memory planning: operators in depth-first order from the outputs, and a"
        " tensor's storage handed on to a later one. Bytes count while they are live here, for all"
        " planners alike, so sharing storage comes for nothing and only the order is left of it;"
        " the note says what its pool of storages would take. Operators are neither fused nor"
        " tuned. It knows no limit."
    )

    def plan(self, task: Task) -> Outcome:
        problem = rewritten_problem(task)
        outputs = {out.name for out in problem.graph.outputs}
        makers = [
            problem.producer[t]
            for t, tensor in enumerate(problem.tensors)
            if (tensor.is_output or tensor.name in outputs) and tensor.producer >= 0
        ]
        rest = range(len(problem.operators))
        order = after_dependencies(problem, [*dict.fromkeys(makers), *rest])
        steps = [run(op) for op in order]
        candidates = Candidates(task)
        pool = storage_pool(problem, steps) + problem.persistent_bytes
        candidates.add(problem, steps, f"its pool of storages takes {pool / 1e9:.3f} GB in all")
        return candidates.outcome()


def storage_pool(problem: Problem, steps: Sequence[Step]) -> int:
    """Bytes of all storages when each tensor takes the free one of nearest size, between a
    sixteenth and sixteen times its own, which grows if need be, or else a new one."""
    uses = [len(readers) + problem.is_output[t] for t, readers in enumerate(problem.readers)]
    sizes: list[int] = []
    held: dict[int, int] = {}
    free: list[int] = []
    for _, op in steps:
        for tensor in problem.makes[op]:
            need = problem.bytes[tensor]
            fitting = [s for s in free if need / 16 <= sizes[s] <= need * 16]
            if fitting:
                storage = min(fitting, key=lambda s: (sizes[s] < need, abs(sizes[s] - need)))
                free.remove(storage)
                sizes[storage] = max(sizes[storage], need)
            else:
                storage = len(sizes)
                sizes.append(need)
            held[tensor] = storage
        for tensor in problem.reads[op]:
            uses[tensor] -= 1
        for tensor in {*problem.reads[op], *problem.makes[op]}:
            if uses[tensor] == 0 and tensor in held:
                free.append(held.pop(tensor))
    return sum(sizes)
