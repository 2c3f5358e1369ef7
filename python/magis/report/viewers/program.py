"""A plan's program with what is said of its statements: how often they run, where they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magis.report.lifetimes import tensor_of
from magis.timing.in_step import loop_ends

if TYPE_CHECKING:
    from magis import _core

_RUNS = ("run", "begin", "end")


@dataclass(frozen=True)
class Tensor:
    """A copy of a tensor."""

    name: str
    tensor: _core.TensorInfo


class Program:
    def __init__(self, plan: _core.Plan) -> None:
        self.statements: list[_core.Statement] = plan.statements
        self._tensors = {tensor.name: tensor for tensor in plan.graph.tensors}
        self.ends = loop_ends(self.statements)  # begin of a loop -> its end, by number
        self.begins = {end: begin for begin, end in self.ends.items()}
        self.times_run: dict[int, int] = {}  # by the number of a statement that runs something
        self.last_load: dict[str, str] = {}  # tensor -> the copy that is loaded last
        self._count()

    def _count(self) -> None:
        times = [1]
        for number, statement in enumerate(self.statements):
            if statement.kind == "end":
                times.pop()
            if statement.kind in _RUNS:
                self.times_run[number] = times[-1]
            if statement.kind == "begin":
                times.append(times[-1] * statement.iterations)
            if statement.kind == "load":
                self.last_load.update((tensor_of(copy), copy) for copy in statement.copies)

    @property
    def runs(self) -> int:
        """Operators that run in a step, in all parts of loops."""
        return sum(self.times_run.values())

    def seconds(self, costs: Sequence[tuple[str, float]]) -> dict[int, float]:
        """Of one run of each statement that runs something. costs: the plan's `run_costs`."""
        cost = iter(costs)
        return {
            number: next(cost)[1] / times if self.statements[number].kind == "run" else 0.0
            for number, times in self.times_run.items()
        }

    def tensor(self, copy: str) -> _core.TensorInfo:
        return self._tensors[tensor_of(copy)]

    def category(self, number: int) -> str:
        """What kind of work a run is."""
        statement = self.statements[number]
        if "." in statement.name:
            return "computed again"
        return "backward" if statement.backward else "forward"

    def details(self, number: int) -> dict[str, str]:
        """What a viewer shows of a run beside its name."""
        statement = self.statements[number]
        results = (f"%{copy} {self.tensor(copy).type}" for copy in statement.copies)
        return {
            "result": ", ".join(results) or f"%{statement.name}",
            "module": statement.module,
            "source": statement.source,
            "over": statement.over and f"%{statement.over}",
        }
