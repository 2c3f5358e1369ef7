"""How the reference evaluator runs loops: what each iteration walks, slices, writes of parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from magis.errors import PlanError
from magis.verify.document import Document, Loop, Operation, PartLength
from magis.verify.loops import WRITE_PART, sliced_dimension

# What is allocated and not written yet is filled with: it shows in whatever reads it.
_UNWRITTEN = float("nan")


@dataclass
class OpenLoop:
    """A loop that is being executed."""

    loop: Loop
    length: int  # of its axis, in units
    in_full: bool  # the loops around it walk full parts: its results are as long as their types
    number: int = 0  # of the iteration
    done: int = 0  # iterations executed before it
    writes: dict[str, int] = field(default_factory=dict)  # by result: in how many iterations

    @property
    def count(self) -> int:
        return -(-self.length // self.loop.part)

    @property
    def start(self) -> int:
        return self.number * self.loop.part

    @property
    def units(self) -> int:
        """What the iteration walks."""
        return min(self.loop.part, self.length - self.start)

    @property
    def is_first(self) -> bool:
        return self.done == 0


class Iterations:
    """The loops that are open, outer before inner, and what lengths are in their iterations."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.open: dict[str, OpenLoop] = {}

    @property
    def innermost(self) -> OpenLoop | None:
        return list(self.open.values())[-1] if self.open else None

    def enter(self, loop: Loop) -> OpenLoop:
        self.open[loop.name] = OpenLoop(loop, self.length(loop.length), self.are_full)
        return self.open[loop.name]

    def leave(self, loop: Loop) -> None:
        del self.open[loop.name]

    @property
    def are_full(self) -> bool:
        """Whether every type is as it is written."""
        return all(opened.units == opened.loop.part for opened in self.open.values())

    @property
    def are_at_start(self) -> bool:
        """Whether every offset is as it is written, too."""
        return self.are_full and all(opened.number == 0 for opened in self.open.values())

    def place(self) -> str:
        """ " in iteration 2 of r1", to follow a statement; "" outside all loops."""
        inner = self.innermost
        return f" in iteration {inner.number} of {inner.loop.name}" if inner else ""

    def length(self, length: int | PartLength) -> int:
        if isinstance(length, int):
            return length
        return length.coefficient * prod(self._opened(length, n).units for n in length.loops)

    def start(self, length: PartLength) -> int:
        """Where the slice that is `length` long begins."""
        *around, last = (self._opened(length, name) for name in length.loops)
        return length.coefficient * prod(opened.units for opened in around) * last.start

    def whole(self, length: PartLength) -> int:
        """What the iterations of the last loop walk together."""
        *around, last = (self._opened(length, name) for name in length.loops)
        return length.coefficient * prod(opened.units for opened in around) * last.length

    def _opened(self, length: PartLength, name: str) -> OpenLoop:
        if name not in self.open:
            raise PlanError(f"{length} is read outside the loop {name}")
        return self.open[name]

    def part(self, operation: Operation, whole: Tensor) -> Tensor:
        """magis.part"""
        dimension, length = sliced_dimension(operation)
        walked = self.whole(length)
        if whole.shape[dimension] != walked:
            message = (
                f"{length} walks {walked} of {whole.shape[dimension]} in dimension {dimension}"
            )
            raise PlanError(message)
        return whole.narrow(dimension, self.start(length), self.length(length))

    def written_shape(self, operation: Operation, parts: list[Tensor]) -> list[int]:
        """Shape of the result that takes such parts."""
        if operation.operator == "magis.add_mm_part":
            return [parts[0].shape[0], parts[1].shape[1]]
        if operation.operator == "magis.add_bmm_part":
            return [*parts[0].shape[:2], parts[1].shape[2]]
        shape = list(parts[0].shape)
        if operation.operator == WRITE_PART:
            dimension, length = sliced_dimension(operation)
            if shape[dimension] != self.length(length):
                message = f"writes {shape[dimension]} in dimension {dimension}, where {length} is"
                raise PlanError(f"{message} {self.length(length)}")
            shape[dimension] = self.whole(length)
        return shape

    def write(self, operation: Operation, result: Tensor, parts: list[Tensor]) -> None:
        """What any of the operators in `WRITERS` does."""
        is_first = self.innermost is None or self.innermost.is_first
        if operation.operator == WRITE_PART:
            self.part(operation, result).copy_(parts[0])
        elif operation.operator in _PRODUCTS:
            _PRODUCTS[operation.operator](result, parts[0], parts[1], 0 if is_first else 1)
        elif is_first:
            result.copy_(parts[0])
        elif operation.operator in _COMBINED:
            result.copy_(_COMBINED[operation.operator](result, parts[0]))


def unwritten(shape: list[int], like: Tensor) -> Tensor:
    """A result of a begin, of this shape and with dimensions in memory in the order of `like`."""
    order = sorted(range(like.dim()), key=lambda d: -like.stride(d))
    dense = torch.empty([shape[d] for d in order], dtype=like.dtype, device=like.device)
    return fill_unwritten(dense.permute([order.index(d) for d in range(like.dim())]))


def fill_unwritten(tensor: Tensor) -> Tensor:
    """NaN, or the largest integer; booleans have no value to spare and are True."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return tensor.fill_(_UNWRITTEN)
    if tensor.dtype == torch.bool:
        return tensor.fill_(True)
    return tensor.fill_(torch.iinfo(tensor.dtype).max)


_COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "magis.add_part": torch.add,
    "magis.mul_part": torch.mul,
    "magis.max_part": torch.maximum,
    "magis.min_part": torch.minimum,
    "magis.any_part": torch.logical_or,
    "magis.all_part": torch.logical_and,
}

_PRODUCTS: dict[str, Callable[[Tensor, Tensor, Tensor, int], object]] = {
    "magis.add_mm_part": lambda acc, a, b, keep: acc.addmm_(a, b, beta=keep),
    "magis.add_bmm_part": lambda acc, a, b, keep: acc.baddbmm_(a, b, beta=keep),
}
