"""A graph of magis in the making, and the nodes that it is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from arrays import Array, Shape, numbers


class ConversionError(ValueError):
    """A node that has no translation: which one, and why."""


@dataclass(frozen=True)
class Node:
    id: int
    kind: str
    shape: Shape
    args: tuple[int, ...]
    attrs: dict[str, Any]
    is_weight: bool

    @staticmethod
    def read(entry: dict[str, Any]) -> Node:
        return Node(
            entry["id"],
            entry["op"],
            tuple(entry["shape"]),
            tuple(entry["args"]),
            entry["attrs"],
            bool(entry["weight"]),
        )

    def pair(self, attr: str) -> tuple[int, int]:
        first, second = self.attrs[attr]
        return first, second


@dataclass
class Graph:
    """Text in the making. Statements are appended in the order of the nodes."""

    nodes: dict[int, Node]
    inputs: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    arrays: dict[int, list[Array]] = field(default_factory=dict)  # results of each node
    updated: dict[int, Array] = field(default_factory=dict)  # new values of weights, by node
    backward: bool = False
    written: Counter[str] = field(default_factory=Counter)  # names that begin with each prefix
    views: dict[tuple[str, str], Array] = field(default_factory=dict)
    permuted: dict[str, tuple[Array, Shape]] = field(default_factory=dict)  # of what, and how
    readers: dict[int, list[Node]] = field(default_factory=dict)  # of each node

    def __post_init__(self) -> None:
        self.readers = {number: [] for number in self.nodes}
        for node in self.nodes.values():
            for arg in node.args:
                self.readers[arg].append(node)

    def operand(self, node: Node, position: int) -> Array:
        return self.arrays[node.args[position]][0]

    def operands(self, node: Node) -> list[Array]:
        return [self.arrays[arg][0] for arg in node.args]

    def emit(
        self,
        operator: str,
        operands: Sequence[Array],
        arguments: str,
        results: Sequence[Array | None],
    ) -> None:
        """`arguments` holds a {} for each operand, in their order."""
        call = arguments.format(*(f"%{array.name}" for array in operands))
        names = ", ".join(
            f"%{self.fresh('nothing')}" if array is None else f"%{array.name}" for array in results
        )
        types = ", ".join("none" if array is None else array.type() for array in results)
        backward = " backward" if self.backward else ""
        self.statements.append(f"{names} = aten.{operator}({call}) : {types}{backward}")

    def fresh(self, prefix: str) -> str:
        self.written[prefix] += 1
        return f"{prefix}_{self.written[prefix]}"

    # ---- views, each written once

    def permute(self, array: Array, dims: Shape) -> Array:
        if array.name in self.permuted:
            array, before = self.permuted[array.name]
            dims = tuple(before[d] for d in dims)
        if dims == tuple(range(len(dims))):
            return array
        view = self._view(array, "permute", f"[{numbers(dims)}]", array.permuted(dims))
        self.permuted[view.name] = (array, dims)
        return view

    def expand(self, array: Array, length: int) -> Array:
        """The array `length` times, in a new first dimension."""
        seen = array.expanded(length)
        return self._view(array, "expand", f"[{numbers(seen.shape)}]", seen)

    def slice(self, array: Array, dim: int, start: int, end: int) -> Array:
        return self._view(
            array, "slice.Tensor", f"{dim}, {start}, {end}", array.sliced(dim, start, end)
        )

    def reshape(self, array: Array, shape: Shape) -> Array:
        if array.shape == shape:
            return array
        seen = array.viewed(shape)
        if seen is None:
            array = self._contiguous(array)
            seen = array.viewed(shape)
            assert seen is not None
        return self._view(array, "view", f"[{numbers(shape)}]", seen)

    def _contiguous(self, array: Array) -> Array:
        key = (array.name, "clone")
        if key not in self.views:
            copy = Array.dense(self.fresh("clone"), array.shape)
            self.emit("clone", [array], "{}, memory_format=torch.contiguous_format", [copy])
            self.views[key] = copy
        return self.views[key]

    def _view(self, array: Array, operator: str, arguments: str, seen: Array) -> Array:
        key = (array.name, f"{operator} {arguments}")
        if key not in self.views:
            prefix = operator.split(".")[0]
            view = Array(self.fresh(prefix), seen.shape, seen.strides, seen.offset, seen.storage)
            self.emit(operator, [array], "{}, " + arguments, [view])
            self.views[key] = view
        return self.views[key]

    # ---- products

    def product(self, left: Array, right: Array, name: str) -> Array:
        """[m, k] x [k, n], or the same for each of a batch."""
        result = Array.dense(name, (*left.shape[:-1], right.shape[-1]))
        operator = "mm" if len(left.shape) == 2 else "bmm"
        self.emit(operator, [left, right], "{}, {}", [result])
        return result
