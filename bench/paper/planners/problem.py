"""A graph as planners see it, and what a program of theirs comes to."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import magis._core as core
from planners.remember import remembered


class Step(NamedTuple):
    """run: an operator; store: a tensor begins to leave for the host; release: the device lets go
    of it, once it has arrived there; load: it begins to come back. Whoever reads a tensor reads
    what was made, or loaded, last, and waits for it."""

    kind: Literal["run", "store", "release", "load"]
    subject: int  # operator or tensor, by number


def run(operator: int) -> Step:
    return Step("run", operator)


class Footprint(NamedTuple):
    peak_bytes: int  # persistent included
    seconds: float
    exposed_seconds: float  # of these, waiting for copies


@dataclass(frozen=True)
class Problem:
    graph: core.Graph
    device: core.Device
    structure: core.Structure

    @staticmethod
    def of(graph: core.Graph, device: core.Device) -> Problem:
        return Problem(graph, device, core.structure(graph, device=device))

    # ---- tables, by number; the core's views are slow to look into again and again

    @cached_property
    def operators(self) -> list[core.OperatorFacts]:
        return self.structure.operators

    @cached_property
    def tensors(self) -> list[core.TensorFacts]:
        return self.structure.tensors

    @cached_property
    def reads(self) -> list[list[int]]:
        return [op.reads for op in self.operators]

    @cached_property
    def makes(self) -> list[list[int]]:
        return [op.makes for op in self.operators]

    @cached_property
    def seconds(self) -> list[float]:
        return [op.seconds for op in self.operators]

    @cached_property
    def recomputable(self) -> list[bool]:
        return [op.recomputable for op in self.operators]

    @cached_property
    def bytes(self) -> list[int]:
        return [tensor.bytes for tensor in self.tensors]

    @cached_property
    def producer(self) -> list[int]:
        return [tensor.producer for tensor in self.tensors]

    @cached_property
    def is_output(self) -> list[bool]:
        return [tensor.is_output for tensor in self.tensors]

    @cached_property
    def copy_seconds(self) -> list[float]:
        return [tensor.copy_seconds for tensor in self.tensors]

    @cached_property
    def predecessors(self) -> list[list[int]]:
        return [op.predecessors for op in self.operators]

    @cached_property
    def overwriters(self) -> list[list[int]]:
        return [op.overwriters for op in self.operators]

    @cached_property
    def readers(self) -> list[list[int]]:
        """Of every tensor, in program order."""
        readers: list[list[int]] = [[] for _ in self.tensors]
        for number, reads in enumerate(self.reads):
            for tensor in reads:
                readers[tensor].append(number)
        return readers

    @property
    def persistent_bytes(self) -> int:
        return self.structure.persistent_bytes

    @property
    def copies_overlap(self) -> bool:
        """Or else the step waits for every copy."""
        return self.structure.copies_overlap

    @cached_property
    def program_order(self) -> list[Step]:
        return [run(number) for number in range(len(self.operators))]

    @cached_property
    def baseline(self) -> Footprint:
        return self.footprint(self.program_order)

    # ---- programs

    def plan(self, steps: Sequence[Step]) -> core.Plan:
        """Raises core.UserError if the steps are not an execution of the graph."""
        return core.Plan.of(self.graph, self.text(steps))

    def footprint(self, steps: Sequence[Step]) -> Footprint:
        return Footprint(*self.plan(steps).footprint(self.device))

    def text(self, steps: Sequence[Step]) -> str:
        """As a program, without what ends lifetimes."""
        numbers = [0] * len(self.operators)  # copies so far of what each makes
        latest: dict[int, int] = {}
        stored: dict[int, str] = {}
        loading: set[int] = set()
        lines = ["program"]

        def name(tensor: int) -> str:
            number = latest.get(tensor, 0)
            return f"%{self.tensors[tensor].name}" + (f".{number}" if number else "")

        for kind, subject in steps:
            if kind == "store":
                stored[subject] = name(subject)
                lines.append(f"store {stored[subject]}")
            elif kind == "release":
                lines.append(f"await {stored[subject]}")
            elif kind == "load":
                producer = self.producer[subject]
                latest[subject] = numbers[producer]
                numbers[producer] += 1
                loading.add(subject)
                lines.append(f"load %{self.tensors[subject].name} as .{latest[subject]}")
            else:
                reads, copy = self.reads[subject], numbers[subject]
                named = [*reads, *self.makes[subject]]  # what is made anew must not be on its way
                if arriving := [name(tensor) for tensor in named if tensor in loading]:
                    lines.append("await " + ", ".join(arriving))
                    loading.difference_update(named)
                numbers[subject] += 1
                line = f"run %{self.operators[subject].name}" + (f" as .{copy}" if copy else "")
                if copies := [name(tensor) for tensor in reads if latest.get(tensor)]:
                    line += " reading " + ", ".join(copies)
                lines.append(line)
                for tensor in self.makes[subject]:
                    latest[tensor] = copy
        return "\n".join(lines) + "\n"


@remembered
def rewritten(graph: core.Graph, device: core.Device) -> core.Graph:
    """With the rewrite rules, which all planners get: merged operators too where they save time,
    unless that raises the peak in program order."""
    careful = core.rewrite(graph, device=device)
    merged = core.rewrite(graph, device=device, merge=True)
    peaks = [core.Plan.program_order(g).footprint(device)[0] for g in (careful, merged)]
    return merged if peaks[1] <= peaks[0] else careful


def order_by(
    problem: Problem, key: Callable[[int], tuple[float, ...]], operators: Iterable[int]
) -> list[int]:
    """The order of `operators` that always takes the least key among those that may run next; what
    is not among them is taken to have run."""
    chosen = set(operators)
    waiting = {op: sum(p in chosen for p in problem.predecessors[op]) for op in chosen}
    successors: dict[int, list[int]] = {op: [] for op in chosen}
    for op in chosen:
        for before in problem.predecessors[op]:
            if before in chosen:
                successors[before].append(op)
    ready = [(key(op), op) for op, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, op = heapq.heappop(ready)
        order.append(op)
        for after in successors[op]:
            waiting[after] -= 1
            if waiting[after] == 0:
                heapq.heappush(ready, (key(after), after))
    return order
