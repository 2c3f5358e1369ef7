"""Places for blocks that come and go: none overlaps another that is there at the same time.

A plan says when memory is held, not where. The place is the smallest gap that a block fits into, at
equal sizes the lowest; a device's own allocator may place otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from magis.report.viewers.record import Record

ALIGNMENT = 512


def place(record: Record) -> tuple[list[int], int]:
    """An address for each block, from 0, and the bytes of the whole.

    O(changes x log changes), but for moving entries of short lists.
    """
    space = _Space()
    addresses = [0] * len(record.blocks)
    for change in record.changes:
        size = _aligned(record.blocks[change.block].bytes)
        if change.allocated:
            addresses[change.block] = space.take(size)
        else:
            space.give_back(addresses[change.block], size)
    return addresses, space.size


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class _Space:
    """Memory that grows at its end."""

    def __init__(self) -> None:
        self.size = 0
        self._gaps: list[tuple[int, int]] = []  # (size, begin), sorted
        self._ends: dict[int, int] = {}  # begin of a gap -> its end
        self._begins: dict[int, int] = {}  # end of a gap -> its begin

    def take(self, size: int) -> int:
        found = bisect_left(self._gaps, (size, -1))
        if found == len(self._gaps):
            return self._grow(size)
        whole, begin = self._gaps[found]
        self._drop(begin)
        if whole > size:
            self._add(begin + size, begin + whole)
        return begin

    def _grow(self, size: int) -> int:
        begin = self._begins.get(self.size, self.size)  # of a gap at the end, too small
        if begin < self.size:
            self._drop(begin)
        self.size = begin + size
        return begin

    def give_back(self, begin: int, size: int) -> None:
        end = begin + size
        if end in self._ends:
            following = self._ends[end]
            self._drop(end)
            end = following
        if begin in self._begins:
            begin, before = self._begins[begin], begin
            assert self._ends[begin] == before
            self._drop(begin)
        self._add(begin, end)

    def _add(self, begin: int, end: int) -> None:
        insort(self._gaps, (end - begin, begin))
        self._ends[begin] = end
        self._begins[end] = begin

    def _drop(self, begin: int) -> None:
        end = self._ends.pop(begin)
        del self._begins[end]
        del self._gaps[bisect_left(self._gaps, (end - begin, begin))]
