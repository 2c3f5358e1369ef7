"""Slices and arrows of a step, and what the host holds: predicted or measured alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from magis.report.lifetimes import tensor_of
from magis.report.viewers.program import Program
from magis.report.viewers.record import (
    COMPUTE,
    FROM_HOST,
    HOST,
    TO_HOST,
    Arrow,
    Nanoseconds,
    Record,
)

if TYPE_CHECKING:
    from magis import _core

LOOP = "loop"
COPY = "copy"
WAIT = "wait"
FRAMES = (LOOP, COPY, WAIT)  # categories of slices that are no operators

# Places in the pool on the host are multiples of it.
_HOST_ALIGNMENT = 64


def loop_name(loop: str, parts: int) -> str:
    return f"{loop}: {parts:,} parts"


def part_name(loop: str, part: int, parts: int) -> str:
    return f"{loop}, part {part:,} of {parts:,}"


class Drawing:
    """Draws on `record` what a program does, statement by statement as it goes."""

    def __init__(self, record: Record, program: Program) -> None:
        self._record = record
        self._program = program
        self._made_by: dict[str, int] = {}  # first result -> slice of the run that made it
        self._stored_by: dict[str, int] = {}  # tensor -> slice
        self._loading: dict[str, Arrow] = {}  # by copy
        self._arrived: list[Arrow] = []  # that end at what the device computes next

    def open(self, name: str, start: Nanoseconds) -> int:
        """A slice around what comes until it is closed: a loop, or a part of one."""
        return self._record.slice(COMPUTE, name, LOOP, start, start)

    def close(self, number: int, end: Nanoseconds) -> None:
        self._record.slices[number].end = end

    def run(self, number: int, start: Nanoseconds, end: Nanoseconds) -> None:
        """The statement of that number runs an operator."""
        statement = self._program.statements[number]
        details = self._program.details(number)
        category = self._program.category(number)
        drawn = self._record.slice(COMPUTE, statement.operator, category, start, end, **details)
        for arrow in self._arrived:
            arrow.stops.append(drawn)
        self._arrived.clear()
        if "." not in statement.name:
            self._made_by[statement.name] = drawn
        elif (producer := self._made_by.get(tensor_of(statement.name))) is not None:
            self._record.arrows.append(Arrow("computed again", [producer, drawn]))

    def store(self, copy: str, start: Nanoseconds, end: Nanoseconds) -> None:
        self._stored_by[tensor_of(copy)] = self._copy(TO_HOST, copy, start, end)

    def load(self, copy: str, start: Nanoseconds, end: Nanoseconds) -> None:
        drawn = self._copy(FROM_HOST, copy, start, end)
        self._loading[copy] = Arrow("swapped", [self._stored_by[tensor_of(copy)], drawn])
        self._record.arrows.append(self._loading[copy])

    def wait(self, copies: Iterable[str], start: Nanoseconds, end: Nanoseconds) -> None:
        """The device computes nothing until these are through."""
        if end > start:
            names = ", ".join(f"%{copy}" for copy in copies)
            self._record.slice(COMPUTE, f"wait for {names}", WAIT, start, end)

    def awaited(self, copies: list[str], start: Nanoseconds, end: Nanoseconds) -> None:
        """The statement that awaits these. Arrows of loads end at what is computed next."""
        self.wait(copies, start, end)
        for copy in copies:
            if copy not in self._loading:
                continue
            self._arrived.append(self._loading.pop(copy))
            if self._program.last_load[tensor_of(copy)] == copy:
                self._record.count(HOST, -_host_bytes(self._program.tensor(copy)))

    def host_takes(self, copy: str) -> None:
        """From a store on, until the last load is awaited."""
        self._record.count(HOST, _host_bytes(self._program.tensor(copy)))

    def _copy(self, engine: str, copy: str, start: Nanoseconds, end: Nanoseconds) -> int:
        tensor = self._program.tensor(copy)
        return self._record.slice(
            *(engine, f"%{copy}", COPY, start, end),
            bytes=tensor.bytes,
            module=tensor.module,
            source=tensor.source,
        )


def _host_bytes(tensor: _core.TensorInfo) -> int:
    return -(-tensor.bytes // _HOST_ALIGNMENT) * _HOST_ALIGNMENT
