"""Graphs whose bytes and times are chosen, as magis graph text.

Each tensor has whole units of 64 rows of 1024 float32. An operator is a matrix product of views
with strides of 0: it reads the whole tensors, its result has the rows that are asked for, and its
time follows the length of the inner dimension, `work`, whatever the sizes of its operands. No
operator can run in place and none has scratch memory, so that the memory of a plan is what the
planners here count: results from the start of their operator, everything to its last use, outputs
to the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import magis._core as core

COLUMNS = 1024
UNIT_ROWS = 64
UNIT_BYTES = UNIT_ROWS * COLUMNS * 4
PROFILE = "reference"


@dataclass(frozen=True)
class Operator:
    results: tuple[str, ...]  # the first one names the operator
    reads: tuple[str, ...]  # tensors that operators make

    @property
    def name(self) -> str:
        return self.results[0]


@dataclass
class Network:
    operators: list[Operator] = field(default_factory=list)
    units: dict[str, int] = field(default_factory=dict)  # of every result
    outputs: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)

    def batch(self, name: str, units: int) -> None:
        self.inputs.append(f'batch %{name} "{name}" : f32[{UNIT_ROWS * units},{COLUMNS}]')

    def product(
        self, name: str, units: int, reads: Sequence[str], work: int, backward: bool = False
    ) -> None:
        """An operator that reads one to three tensors; `work`: 2 * 64 * units * 1024 operations
        each."""
        rows = UNIT_ROWS * units
        if len(reads) == 1:
            left = f"w_{name}"
            self.inputs.append(f'param %{left} "{left}" : f32[{rows},{work}]')
        else:
            left = self._view(name, "left", reads[1], (rows, work))
        right = self._view(name, "right", reads[0], (work, COLUMNS))
        call = f"aten.mm(%{left}, %{right})"
        if len(reads) == 3:
            addend = self._view(name, "addend", reads[2], (rows, COLUMNS))
            call = f"aten.addmm(%{addend}, %{left}, %{right})"
        elif len(reads) > 3:
            raise ValueError(f"{name} reads {len(reads)} tensors")
        self._add({name: units}, reads, f"{call} : f32[{rows},{COLUMNS}]", backward)

    def pool(self, name: str, indices: str, units: int, read: str) -> None:
        """A maximum with its indices, which take two units for each one of the maximum."""
        shape = self._image(units)
        image = self._view(name, "image", read, shape)
        call = f"aten.max_pool2d_with_indices(%{image}, [1,1], [1,1])"
        types = f"f32[{dims(shape)}], i64[{dims(shape)}]"
        self._add({name: units, indices: 2 * units}, [read], f"{call} : {types}", False)

    def pool_backward(self, name: str, units: int, gradient: str, image: str, indices: str) -> None:
        shape = self._image(units)
        views = [
            self._view(name, part, read, shape, dtype)
            for part, read, dtype in [
                ("gradient", gradient, "f32"),
                ("image", image, "f32"),
                ("indices", indices, "i64"),
            ]
        ]
        call = (
            f"aten.max_pool2d_with_indices_backward(%{views[0]}, %{views[1]}, [1,1], [1,1], [0,0],"
            f" [1,1], false, %{views[2]})"
        )
        reads = [gradient, image, indices]
        self._add({name: units}, reads, f"{call} : f32[{dims(shape)}]", True)

    def text(self) -> str:
        outputs = [f'output grad "{name}" %{name}' for name in self.outputs]
        parts = [["magis 1", "device cpu"], self.inputs, self.statements, outputs]
        return "\n\n".join("\n".join(part) for part in parts) + "\n"

    def graph(self) -> core.Graph:
        return core.Graph.parse(self.text(), "network")

    def seconds(self) -> dict[str, float]:
        """Of every operator, as the profile says."""
        timeline = core.Plan.program_order(self.graph()).simulate(PROFILE).timeline
        return {point.result: point.end - point.start for point in timeline}

    @staticmethod
    def _image(units: int) -> tuple[int, ...]:
        return (1, UNIT_ROWS * units, 32, COLUMNS // 32)

    def _view(
        self, operator: str, part: str, read: str, shape: tuple[int, ...], dtype: str = "f32"
    ) -> str:
        name, strides = f"{operator}_{part}", dims((0,) * len(shape))
        self.statements.append(
            f"%{name} = aten.as_strided(%{read}, [{dims(shape)}], [{strides}])"
            f" : {dtype}[{dims(shape)}]{{{strides}}}"
        )
        return name

    def _add(
        self, results: Mapping[str, int], reads: Sequence[str], call: str, backward: bool
    ) -> None:
        made = tuple(dict.fromkeys(read for read in reads if read in self.units))
        self.operators.append(Operator(tuple(results), made))
        self.units.update(results)
        names = ", ".join(f"%{name}" for name in results)
        self.statements.append(f"{names} = {call}{' backward' if backward else ''}")


def dims(shape: Sequence[int]) -> str:
    return ",".join(map(str, shape))


def plan_of(network: Network, runs: Sequence[str]) -> core.Plan:
    """The plan that runs these operators in this order, each reading the latest copies, which are
    freed after their last use."""
    by_name = {op.name: op for op in network.operators}
    latest: dict[str, int] = {}  # copy of each tensor
    last_use: dict[tuple[str, int], int] = {}
    statements = []
    for position, name in enumerate(runs):
        op = by_name[name]
        copy = latest.get(name, -1) + 1
        operands = [(read, latest[read]) for read in op.reads]
        copies = ", ".join(f"%{read}.{number}" for read, number in operands if number)
        statements.append(
            f"run %{name}"
            + (f" as .{copy}" if copy else "")
            + (f" reading {copies}" * bool(copies))
        )
        latest.update(dict.fromkeys(op.results, copy))
        last_use.update(dict.fromkeys([*operands, *((r, copy) for r in op.results)], position))
    freed: dict[int, list[str]] = {}
    for (tensor, copy), position in last_use.items():
        if tensor not in network.outputs or copy:
            freed.setdefault(position, []).append(f"%{tensor}" + (f".{copy}" if copy else ""))
    lines = ["program"]
    for position, statement in enumerate(statements):
        lines.append(statement)
        if position in freed:
            lines.append("free " + ", ".join(freed[position]))
    plan = core.Plan.parse(network.text() + "\n" + "\n".join(lines) + "\n", "plan")
    plan.verify()
    return plan


def peak_units(simulation: core.Simulation) -> int:
    """Inputs are not counted."""
    return simulation.transient_peak_bytes // UNIT_BYTES


def search(
    graph: core.Graph, budget: int, *, seconds: float = 1e9, states: int = 0, seed: int = 0
) -> core.Result:
    """Our plan in so many units beside the inputs, by reordering and recomputing alone."""
    return core.optimize(
        graph,
        device=PROFILE,
        memory_limit=graph.persistent_bytes + budget * UNIT_BYTES,
        time_budget=seconds,
        state_budget=states,
        seed=seed,
        fission=False,
        host_memory=0,
    )
