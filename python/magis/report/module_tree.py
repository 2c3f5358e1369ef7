"""What is live at the peak, as a tree of modules that fits on a screen."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from magis.report.modules import NO_MODULE, without_layer_number

MOST_ROWS = 24
# Siblings that hold less than this share of the whole are summed up.
_LEAST_SHARE = 0.01

ITSELF = "(itself)"


class Placed(Protocol):
    """Memory, and the module that asked for it."""

    @property
    def bytes(self) -> int: ...
    @property
    def module(self) -> str: ...


@dataclass(frozen=True)
class TreeRow:
    """A module with all that is inside it."""

    depth: int
    name: str  # of the path, what the row above it does not say
    bytes: int
    tensors: int


@dataclass
class _Node:
    name: str
    bytes: int = 0
    tensors: int = 0
    own_bytes: int = 0  # of these, in no module inside
    own_tensors: int = 0
    inside: dict[str, _Node] = field(default_factory=dict)
    is_open: bool = False

    def add(self, size: int) -> None:
        self.bytes += size
        self.tensors += 1


def module_tree(live: Iterable[Placed], *, most: int = MOST_ROWS) -> list[TreeRow]:
    """At most about so many rows: the modules that hold most are opened first. The same place in
    all layers is one module.
    """
    root = _Node("")
    for tensor in live:
        _insert(root, tensor)
    for node in root.inside.values():
        _join_chains(node)
    _open_largest(root, most)
    return list(_rows(root, 0, root.bytes))


def _insert(root: _Node, tensor: Placed) -> None:
    path = without_layer_number(tensor.module).split(".") if tensor.module else [NO_MODULE]
    node = root
    node.add(tensor.bytes)
    for name in path:
        node = node.inside.setdefault(name, _Node(name))
        node.add(tensor.bytes)
    node.own_bytes += tensor.bytes
    node.own_tensors += 1


def _join_chains(node: _Node) -> None:
    """A module that holds nothing but one other is one row with it."""
    while len(node.inside) == 1 and not node.own_tensors:
        (only,) = node.inside.values()
        node.name += f".{only.name}"
        node.inside = only.inside
        node.own_bytes, node.own_tensors = only.own_bytes, only.own_tensors
    for inside in node.inside.values():
        _join_chains(inside)


def _open_largest(root: _Node, most: int) -> None:
    waiting = [(-root.bytes, 0, root)]
    number = shown = 0
    while waiting:
        _, _, node = heapq.heappop(waiting)
        large, small = _told_apart(node, root.bytes)
        rows = len(large) + bool(small) + bool(node.own_tensors)
        if not node.inside or (shown and shown + rows > most):
            continue
        node.is_open = True
        shown += rows
        for inside in large:
            number += 1
            heapq.heappush(waiting, (-inside.bytes, number, inside))


def _told_apart(node: _Node, whole: int) -> tuple[list[_Node], list[_Node]]:
    """Modules inside, largest first, and those too small for rows of their own."""
    ranked = sorted(node.inside.values(), key=lambda inside: (-inside.bytes, inside.name))
    large = [inside for inside in ranked if inside.bytes >= _LEAST_SHARE * whole][:MOST_ROWS]
    small = ranked[len(large) :]
    return (ranked, []) if len(small) == 1 else (large, small)


def _rows(node: _Node, depth: int, whole: int) -> Iterator[TreeRow]:
    large, small = _told_apart(node, whole)
    for inside in large:
        yield TreeRow(depth, inside.name, inside.bytes, inside.tensors)
        if inside.is_open:
            yield from _rows(inside, depth + 1, whole)
    if node.own_tensors:
        yield TreeRow(depth, ITSELF, node.own_bytes, node.own_tensors)
    if small:
        yield TreeRow(
            depth,
            f"({len(small)} others)",
            sum(inside.bytes for inside in small),
            sum(inside.tensors for inside in small),
        )
