"""The captured step between fx and text: values, statements, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from magis._torch_internals import OpOverload

InputKind = Literal["param", "buffer", "batch", "const", "state", "scalar"]
OutputKind = Literal["loss", "aux", "grad", "buffer", "param", "state"]


@dataclass(eq=False)
class Value:
    """An input, an operator's result, or a view.

    `name` is a wish until assign_names has made names distinct. `fake` carries dtype, shape,
    strides and storage; None for scalars and for results that an operator leaves out.
    """

    name: str
    fake: torch.Tensor | None
    base: Value | None = None  # for views: what it is a view of
    input: Input | None = None

    @property
    def root(self) -> Value:
        """The value that owns the storage."""
        value = self
        while value.base is not None:
            value = value.base
        return value


@dataclass(eq=False)
class Input:
    kind: InputKind
    path: str
    value: Value
    data: torch.Tensor | None = None  # of a constant


@dataclass(frozen=True)
class Site:
    module: str
    source: str  # "file.py:12", or empty


@dataclass(eq=False)
class Statement:
    """One operator or view."""

    operator: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[Value]
    site: Site | None = None
    backward: bool = False

    def reads(self) -> Iterator[Value]:
        """The values that it names, with repetitions."""
        yield from values_in(self.args)
        yield from values_in(tuple(self.kwargs.values()))


@dataclass(eq=False)
class Output:
    kind: OutputKind
    path: str
    value: Value


@dataclass
class Graph:
    inputs: list[Input] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)


def values_in(arg: Any) -> Iterator[Value]:
    """The values in an argument, nested lists included, in order."""
    if isinstance(arg, Value):
        yield arg
    elif isinstance(arg, (list, tuple)):
        for item in arg:
            yield from values_in(item)


def map_values(arg: Any, change: Any) -> Any:
    """`arg` with every value v replaced by change(v), nested lists included."""
    if isinstance(arg, Value):
        return change(arg)
    if isinstance(arg, (list, tuple)):
        return [map_values(item, change) for item in arg]
    if isinstance(arg, dict):
        return {key: map_values(item, change) for key, item in arg.items()}
    return arg
