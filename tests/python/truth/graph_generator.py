"""Graphs grown at random, written in the text language as they are computed.

Every operator is called on real tensors while the graph grows: its recorded type is what came out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from axes_cases import all_cases
from axes_support import Case, argument_text
from torch import Tensor

from magis.verify.document import VIEW_OPERATORS, Type
from magis.verify.kernels import find_operator
from magis.verify.tensors import describe

LARGEST = 4096  # elements of a value

# Not the random ones, which no region holds, and those whose results mean nothing.
CASES = [
    case
    for case in all_cases()
    if case.compared and case.operator not in VIEW_OPERATORS and case.device == "cpu"
]


@dataclass(frozen=True, eq=False)
class Value:
    name: str
    tensor: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)


@dataclass
class RandomGraph:
    text: str
    inputs: dict[str, Tensor]


@dataclass
class Writer:
    """A graph as text, and its values as tensors."""

    lines: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    inputs: dict[str, Tensor] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    read: set[str] = field(default_factory=set)

    def input(self, tensor: Tensor, kind: str = "batch") -> Value:
        value = Value(f"in{len(self.inputs)}", tensor.detach().clone())
        self.inputs[value.name] = value.tensor
        self.lines.append(f'{kind} %{value.name} "{value.name}" : {describe(value.tensor)}')
        return value

    def call(self, operator: str, *args: Any, **kwargs: Any) -> list[Value]:
        """Results that are tensors; `Value`s among the arguments, in lists too, are operands."""
        given = [_replaced(arg, lambda v: v.tensor) for arg in args]
        named = {key: _replaced(arg, lambda v: v.tensor) for key, arg in kwargs.items()}
        made = find_operator(operator)(*given, **named)
        results = list(made) if isinstance(made, tuple | list) else [made]
        names = [f"v{len(self.statements)}_{i}" for i in range(len(results))]
        words = [argument_text(_replaced(arg, self._reading)) for arg in args]
        words += [
            f"{key}={argument_text(_replaced(arg, self._reading))}" for key, arg in kwargs.items()
        ]
        types = [_type(r, operator in VIEW_OPERATORS) for r in results]
        left = ", ".join("%" + name for name in names)
        self.statements.append(f"{left} = {operator}({', '.join(words)}) : {', '.join(types)}")
        values = [Value(n, r) for n, r in zip(names, results, strict=True) if isinstance(r, Tensor)]
        self.values += values
        return values

    def one(self, operator: str, *args: Any, **kwargs: Any) -> Value:
        return self.call(operator, *args, **kwargs)[0]

    def _reading(self, value: Value) -> str:
        self.read.add(value.name)
        return f"%{value.name}"

    def finish(self, also: list[Value]) -> RandomGraph:
        """What nobody reads is an output, and so are the values `also`."""
        wanted = [v for v in self.values if v.name not in self.read or v in also]
        outputs = [f'output aux "{value.name}" %{value.name}' for value in wanted]
        lines = ["magis 1", "device cpu", *self.lines, *self.statements, *outputs]
        return RandomGraph("\n".join(lines) + "\n", self.inputs)


def _type(result: Any, is_view: bool) -> str:
    """A kernel owns what its result needs: some return a part of what they worked in."""
    if not isinstance(result, Tensor):
        return "none"
    found = describe(result)
    if not is_view:
        storage = Type.minimal_storage(found.dtype, found.shape, found.strides, 0)
        found = replace(found, offset=0, storage=storage)
    return str(found)


def _replaced(arg: Any, change: Callable[[Value], Any]) -> Any:
    if isinstance(arg, Value):
        return change(arg)
    return [_replaced(item, change) for item in arg] if isinstance(arg, list) else arg


class Generator:
    """Grows one graph: steps are tried in turn, those that find no operand do nothing."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.noise = torch.Generator().manual_seed(seed)
        self.graph = Writer()
        self.batch = self.rng.choice((3, 4, 5, 6))

    def generate(self, steps: Sequence[Step]) -> RandomGraph:
        for _ in range(self.rng.choice((1, 2))):
            self._start()
        for _ in range(self.rng.randrange(6, 22)):
            self.rng.choice(steps)(self)
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            self.embed(self.rng.choice(CASES))
        inner = [v for v in self.graph.values if self.rng.random() < 0.06]
        return self.graph.finish(inner)

    def _start(self) -> None:
        rank = self.rng.choice((2, 2, 3, 3, 4))
        shape = [self.batch, *(self.rng.choice((2, 3, 4, 6)) for _ in range(rank - 1))]
        self.graph.one("aten.tanh", self.new(shape))

    # ---- operands

    def new(self, shape: list[int], kind: str = "batch") -> Value:
        return self.graph.input(torch.randn(shape, generator=self.noise), kind)

    def old(
        self, least: int = 1, most: int = 4, dtype: torch.dtype = torch.float32
    ) -> Value | None:
        """A value of so many dimensions; the latest are likeliest."""
        found = [
            v
            for v in self.graph.values
            if least <= v.tensor.dim() <= most
            and v.tensor.dtype == dtype
            and 0 < v.tensor.numel() <= LARGEST
        ]
        return self.rng.choice(found[-6:] if self.rng.random() < 0.7 else found) if found else None

    def same_shape(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Value:
        found = [v for v in self.graph.values if v.shape == shape and v.tensor.dtype == dtype]
        return self.rng.choice(found) if found and self.rng.random() < 0.7 else self.new([*shape])

    def dim(self, value: Value) -> int:
        dim = self.rng.randrange(value.tensor.dim())
        return dim if self.rng.random() < 0.5 else dim - value.tensor.dim()

    def dims(self, value: Value) -> list[int]:
        rank = value.tensor.dim()
        return sorted(self.rng.sample(range(rank), self.rng.randrange(1, rank + 1)))

    # ---- whole table

    def embed(self, case: Case) -> None:
        """A call from the table's tests on the values that it needs, made in this graph."""

        def operand(arg: Any) -> Any:
            if isinstance(arg, Tensor):
                value = self.graph.input(arg)
                if arg.dtype == torch.float64 and self.rng.random() < 0.8:
                    return self.graph.one("aten.mul.Scalar", value, 1.0)
                return value
            return [operand(item) for item in arg] if isinstance(arg, list) else arg

        kwargs = {key: operand(arg) for key, arg in case.kwargs.items()}
        for result in self.graph.call(case.operator, *map(operand, case.args), **kwargs):
            if result.tensor.dtype == torch.float64 and self.rng.random() < 0.7:
                doubled = self.graph.one("aten.mul.Scalar", result, 2.0)
                if doubled.tensor.dim() and self.rng.random() < 0.5:
                    # Sums of what a norm makes are zero but for rounding, not to be compared.
                    tame = self.graph.one("aten.sigmoid", doubled)
                    self.graph.one("aten.sum.dim_IntList", tame, self.dims(tame), True)


Step = Callable[[Generator], object]
