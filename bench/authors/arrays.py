"""Arrays of a graph that is being written, and how far they can be seen in another shape."""

from __future__ import annotations

import math
from dataclasses import dataclass

Shape = tuple[int, ...]


def contiguous(shape: Shape) -> Shape:
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


@dataclass(frozen=True)
class Array:
    """A float32 value of the graph. Strides are in elements, storage too."""

    name: str
    shape: Shape
    strides: Shape
    offset: int = 0
    storage: int = 0

    @staticmethod
    def dense(name: str, shape: Shape) -> Array:
        return Array(name, shape, contiguous(shape), 0, math.prod(shape))

    def is_contiguous(self) -> bool:
        dense = contiguous(self.shape)
        return all(
            length == 1 or have == want
            for length, have, want in zip(self.shape, self.strides, dense, strict=True)
        )

    def type(self) -> str:
        """As the text language writes it: what is contiguous, at the start or all says nothing."""
        text = f"f32[{numbers(self.shape)}]"
        if self.strides != contiguous(self.shape):
            text += f"{{{numbers(self.strides)}}}"
        if self.offset:
            text += f"+{self.offset}"
        if 4 * self.storage != 4 * (self.offset + self._extent()):
            text += f"/{4 * self.storage}"
        return text

    def _extent(self) -> int:
        steps = zip(self.shape, self.strides, strict=True)
        return 1 + sum((length - 1) * stride for length, stride in steps)

    def permuted(self, dims: Shape) -> Array:
        return Array(
            self.name,
            tuple(self.shape[d] for d in dims),
            tuple(self.strides[d] for d in dims),
            self.offset,
            self.storage,
        )

    def sliced(self, dim: int, start: int, end: int) -> Array:
        shape = (*self.shape[:dim], end - start, *self.shape[dim + 1 :])
        offset = self.offset + start * self.strides[dim]
        return Array(self.name, shape, self.strides, offset, self.storage)

    def expanded(self, length: int) -> Array:
        shape, strides = (length, *self.shape), (0, *self.strides)
        return Array(self.name, shape, strides, self.offset, self.storage)

    def viewed(self, shape: Shape) -> Array | None:
        """The same elements in `shape`, in order; None if the strides do not allow it. No dimension
        may be 0 long."""
        strides: list[int] = []
        runs = self._runs()
        length, stride = runs.pop()
        for size in reversed(shape):
            if length == 1 and size > 1:
                if not runs:
                    return None
                length, stride = runs.pop()
            if length % size:
                return None
            strides.append(stride)
            length //= size
            stride *= size
        if length != 1 or runs:
            return None
        return Array(self.name, shape, tuple(reversed(strides)), self.offset, self.storage)

    def _runs(self) -> list[tuple[int, int]]:
        """Lengths and strides with neighbours joined that are one run in memory; none is 1 long
        unless it is the only one."""
        runs: list[tuple[int, int]] = []
        for length, stride in zip(self.shape, self.strides, strict=True):
            if length == 1:
                continue
            if runs and runs[-1][1] == length * stride:
                runs[-1] = (runs[-1][0] * length, stride)
            else:
                runs.append((length, stride))
        return runs or [(1, 1)]


def numbers(values: Shape) -> str:
    return ",".join(map(str, values))
