"""A step as the simulator sees it, each part of each loop by itself.

The simulator tells of a loop's first part alone, which is enough for the peak: a shorter last part
counts as a full one, here too. The parts of a loop share its time evenly.
"""

from __future__ import annotations

from collections.abc import Iterable

from magis import _core
from magis.report.memory import WORKSPACE
from magis.report.viewers.drawing import Drawing, loop_name, part_name
from magis.report.viewers.holding import Holding
from magis.report.viewers.program import Program
from magis.report.viewers.record import FROM_HOST, TO_HOST, Block, Nanoseconds, Place, Record

# Operators that are drawn one by one. In a step that runs more, of every loop only the first part
# is drawn, and how many there are like it is said.
MOST_RUNS = 100_000


def predicted(plan: _core.Plan, device: _core.Device, *, most_runs: int = MOST_RUNS) -> Record:
    """`plan` under the profile `device`."""
    return _Walk(plan, device, most_runs).record()


class _Walk:
    """The clock is read and the record written while it walks; `_drawing` is off where it only
    finds out how long things take.
    """

    def __init__(self, plan: _core.Plan, device: _core.Device, most_runs: int) -> None:
        self._program = Program(plan)
        self._record = Record(f"predicted (profile {device})")
        self._holding = Holding(self._record, plan, self._program, device)
        self._draw = Drawing(self._record, self._program)
        simulation = plan.simulate(device)
        self._scratch = self._scratch_bytes(point.live_bytes for point in simulation.timeline)
        self._seconds = self._program.seconds(plan.run_costs(device))
        self._copy_seconds = {point.tensor: point.end - point.start for point in simulation.copies}
        self._overlap = _core.copies_overlap(device)
        self._whole = self._program.runs <= most_runs
        self._drawing = True
        self._now = 0.0
        self._free_from = {TO_HOST: 0.0, FROM_HOST: 0.0}
        self._arrives: dict[str, float] = {}  # copies on their way
        self._on_host_from: dict[str, float] = {}  # tensors

    def record(self) -> Record:
        self._holding.inputs()
        self._record.sample(0)
        self._walk(0, len(self._program.statements))
        self._record.sample(self._time())
        return self._record

    def _time(self) -> Nanoseconds:
        return round(self._now * 1e9)

    def _scratch_bytes(self, moments: Iterable[int]) -> dict[int, int]:
        """What operators hold beside tensors, by statement. moments: bytes while each runs."""
        scratch: dict[int, int] = {}
        live = 0
        points = iter(moments)
        for number, statement in enumerate(self._program.statements):
            tensors = map(self._program.tensor, statement.copies)
            sizes = [self._holding.rounded(tensor.bytes) for tensor in tensors]
            if statement.kind in ("run", "begin", "end"):
                live += sum(sizes[1:] if statement.over else sizes)
                scratch[number] = next(points) - live
            elif statement.kind == "load":
                live += sum(sizes)
            elif statement.kind == "free":
                live -= sum(sizes)
        return scratch

    def _walk(self, first: int, end: int) -> None:
        number = first
        while number < end:
            statement = self._program.statements[number]
            if statement.kind != "free" and self._drawing:
                self._record.sample(self._time())
            if statement.kind == "begin":
                self._run(number)
                self._loop(number)
                number = self._program.ends[number]
                self._run(number)
            elif statement.kind == "run":
                self._run(number)
            elif statement.kind == "free":
                if self._drawing:
                    for copy in statement.copies:
                        self._holding.free(copy, self._time())
            elif statement.kind == "await":
                self._await(statement.copies)
            else:
                self._move(statement.kind, statement.copies[0])
            number += 1

    def _loop(self, begin: int) -> None:
        statement = self._program.statements[begin]
        body = begin + 1, self._program.ends[begin]
        count = statement.iterations
        if not self._drawing:
            self._skip(*body, count)
            return
        drawn = count if self._whole else 1
        around = self._draw.open(loop_name(statement.loop, count), self._time())
        for part in range(1, drawn + 1):
            self._record.sample(self._time())
            inside = self._draw.open(part_name(statement.loop, part, count), self._time())
            self._walk(*body)
            self._draw.close(inside, self._time())
        if drawn < count:
            words = f"{statement.loop}, parts 2 to {count:,}: like the first"
            self._record.sample(self._time())
            inside = self._draw.open(words, self._time())
            self._drawing = False
            self._skip(*body, count - drawn)
            self._drawing = True
            self._draw.close(inside, self._time())
        self._draw.close(around, self._time())

    def _skip(self, first: int, end: int, times: int) -> None:
        """Parts after a first one take the same time: no copy is on its way when one begins."""
        self._walk(first, end)
        if times > 1:
            start = self._now
            self._walk(first, end)
            self._now += (times - 2) * (self._now - start)

    def _run(self, number: int) -> None:
        statement = self._program.statements[number]
        start = self._time()
        self._now += self._seconds[number]
        if not self._drawing:
            return
        place = Place(statement.operator, statement.module, statement.source)
        fresh = statement.copies
        if statement.over:
            self._holding.take_over(fresh[0], statement.over)
            fresh = fresh[1:]
        for copy in fresh:
            self._holding.make(copy, start, place)
        scratch = None
        if size := self._scratch[number]:
            block = Block(f"beside %{statement.name}", WORKSPACE, size, size, place)
            scratch = self._record.allocate(start, block)
        self._record.sample(start)
        if statement.kind == "run":
            self._draw.run(number, start, self._time())
        if scratch is not None:
            self._record.free(self._time(), scratch)

    def _move(self, kind: str, copy: str) -> None:
        """Begins a copy. What overlaps with nothing is waited for at once."""
        tensor = self._program.tensor(copy)
        engine = TO_HOST if kind == "store" else FROM_HOST
        ready = self._on_host_from[tensor.name] if kind == "load" else 0.0
        start = max(self._now, ready, self._free_from[engine])
        arrival = start + self._copy_seconds[copy]
        self._free_from[engine] = self._arrives[copy] = arrival
        if kind == "store":
            self._on_host_from[tensor.name] = arrival
        if self._drawing:
            if kind == "store":
                self._draw.host_takes(copy)
            else:
                place = Place("load from the host", tensor.module, tensor.source)
                self._holding.make(copy, self._time(), place)
            self._record.sample(self._time())
            draw = self._draw.store if kind == "store" else self._draw.load
            draw(copy, round(start * 1e9), round(arrival * 1e9))
        if not self._overlap:
            begun = self._arrive([copy])
            if self._drawing:
                self._draw.wait([copy], begun, self._time())

    def _await(self, copies: list[str]) -> None:
        begun = self._arrive(copies)
        if self._drawing:
            self._draw.awaited(copies, begun, self._time())

    def _arrive(self, copies: list[str]) -> Nanoseconds:
        """Goes on to when these have arrived; returns since when that is waited for."""
        begun = self._time()
        for copy in copies:
            self._now = max(self._now, self._arrives.pop(copy, 0.0))
        return begun
