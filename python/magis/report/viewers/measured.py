"""A step as it was recorded while it ran, in the form of the predicted one.

What is allocated while an operator runs and still there when it is done are its results, in their
order; all else is workspace. Blocks that the plan does not know of are said to be such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from magis import _core
from magis.measure.hook import LoggedChange
from magis.report.memory import WORKSPACE
from magis.report.viewers.drawing import Drawing, loop_name, part_name
from magis.report.viewers.holding import Holding
from magis.report.viewers.program import Program
from magis.report.viewers.record import DEVICE, LIBRARIES, Block, Nanoseconds, Place, Record
from magis.report.viewers.snapshot import Snapshot

UNPLANNED = "not in the plan"
NONE = -1  # no statement: before the program and after it


@dataclass(frozen=True, slots=True)
class Mark:
    """At this moment a statement was done, or a part of the loop that it begins starts."""

    statement: int
    nanoseconds: int
    starts_part: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """Bytes that a device's allocator held, above what it held before the step: the most since the
    mark before, and at the mark.
    """

    peak: int
    now: int


@dataclass
class Recording:
    """Of one step; all times by one clock."""

    method: str  # "hook", "cuda"
    begun: int  # nanoseconds
    marks: list[Mark] = field(default_factory=list)
    changes: list[LoggedChange] = field(default_factory=list)  # every block, or else
    levels: list[Level] = field(default_factory=list)  # one for each mark
    snapshot: Snapshot | None = None  # of a device that has its own


@dataclass(frozen=True, slots=True)
class _Span:
    statement: int
    start: int
    end: int
    starts_part: bool
    level: Level | None


def measured(plan: _core.Plan, device: _core.Device, recording: Recording) -> Record:
    """device: the profile whose bytes this machine's allocator hands out."""
    return _Replay(plan, device, recording).record()


class _Replay:
    def __init__(self, plan: _core.Plan, device: _core.Device, recording: Recording) -> None:
        self._program = Program(plan)
        self._record = Record(f"measured ({recording.method})")
        self._holding = Holding(self._record, plan, self._program, device)
        self._draw = Drawing(self._record, self._program)
        self._recording = recording
        self._copies_wait = recording.method == "hook"  # on a CPU, which does one thing at a time
        self._by_address: dict[int, int] = {}  # blocks of tensors
        self._persistent = self._level = 0  # bytes on the device
        self._open: dict[int, list[int]] = {}  # begin of a loop -> slices of it and of its parts
        self._last = NONE  # the statement that was done last

    def record(self) -> Record:
        self._holding.inputs()
        self._record.sample(0)
        self._persistent = self._level = sum(block.bytes for block in self._record.blocks)
        for span, changes in _by_span(self._recording.changes, self._spans()):
            if span.starts_part:
                self._remember(changes, [], Place("outside the program", "", ""))
                self._part(span)
            else:
                self._span(span, changes)
        return self._record

    def _spans(self) -> Iterator[_Span]:
        """What lies between marks; marks of one statement after each other are one."""
        levels: Sequence[Level | None] = self._recording.levels
        pairs = zip(
            self._recording.marks, levels or [None] * len(self._recording.marks), strict=True
        )
        start = self._recording.begun
        for (statement, starts_part), group in groupby(
            pairs, key=lambda pair: (pair[0].statement, pair[0].starts_part)
        ):
            marks = list(group)
            end = marks[-1][0].nanoseconds
            yield _Span(statement, start, end, starts_part, _joined([level for _, level in marks]))
            start = end

    def _time(self, nanoseconds: int) -> Nanoseconds:
        return max(0, nanoseconds - self._recording.begun)

    def _part(self, span: _Span) -> None:
        """A part starts where the one before ends."""
        now = self._time(span.end)
        statement = self._program.statements[span.statement]
        if span.statement not in self._open:
            self._open[span.statement] = [self._draw.open(statement.loop, self._time(span.start))]
        else:
            self._draw.close(self._open[span.statement][-1], self._time(span.start))
        self._open[span.statement].append(self._draw.open(statement.loop, now))
        self._last = span.statement

    def _end_loop(self, end: int, now: Nanoseconds) -> None:
        """Only now it is known how many parts there were."""
        begin = self._program.begins[end]
        if begin not in self._open:
            return
        around, *parts = self._open.pop(begin)
        loop = self._program.statements[begin].loop
        self._record.slices[around].name = loop_name(loop, len(parts))
        for number, part in enumerate(parts, start=1):
            self._record.slices[part].name = part_name(loop, number, len(parts))
        self._draw.close(parts[-1], now)
        self._draw.close(around, now)

    def _span(self, span: _Span, changes: list[LoggedChange]) -> None:
        start, end = self._time(span.start), self._time(span.end)
        if span.statement == NONE:
            self._remember(changes, [], Place("outside the program", "", ""))
            return
        self._pass_over(span.statement, start)
        statement = self._program.statements[span.statement]
        fresh = statement.copies if statement.kind in ("run", "begin", "load") else []
        if statement.over:
            self._holding.take_over(fresh[0], statement.over)
            fresh = fresh[1:]
        self._remember(changes, fresh, self._place(statement))
        self._sample_level(span, start, end)
        if statement.kind == "run":
            self._draw.run(span.statement, start, end)
        elif statement.kind == "end":
            self._end_loop(span.statement, start)
        elif statement.kind in ("store", "load"):
            self._copy(statement, start, end)
        self._last = span.statement

    def _place(self, statement: _core.Statement) -> Place:
        if statement.kind in ("run", "begin", "end"):
            return Place(statement.operator, statement.module, statement.source)
        tensor = self._program.tensor(statement.copies[0])
        return Place(f"{statement.kind} %{statement.copies[0]}", tensor.module, tensor.source)

    def _pass_over(self, statement: int, now: Nanoseconds) -> None:
        """Statements that need no code have left no mark."""
        for number in range(self._last + 1, statement):
            passed = self._program.statements[number]
            if passed.kind == "await":
                self._draw.awaited(passed.copies, now, now)

    def _copy(self, statement: _core.Statement, start: Nanoseconds, end: Nanoseconds) -> None:
        if not self._copies_wait:  # begun here, done at some time beside what is computed
            return
        copy = statement.copies[0]
        if statement.kind == "store":
            self._draw.host_takes(copy)
            self._record.sample(start)
            self._draw.store(copy, start, end)
        else:
            self._draw.load(copy, start, end)
        self._draw.wait(statement.copies, start, end)

    def _remember(self, changes: list[LoggedChange], fresh: list[str], place: Place) -> None:
        """Blocks that come and go while a statement runs which makes `fresh`."""
        lasting = _lasting(changes)
        results = self._results([(number, changes[number].bytes) for number in lasting], fresh)
        for number, change in enumerate(changes):
            time = self._time(change.nanoseconds)
            if not change.of_tensors:
                self._record.count(LIBRARIES, change.bytes)
            elif change.bytes < 0:
                self._forget(change, time)
            elif number in results:
                block = self._holding.make(results[number], time, place, change.bytes)
                self._by_address[change.address] = block
            else:
                kind = UNPLANNED if number in lasting else WORKSPACE
                new = Block(place.operator, kind, change.bytes, change.bytes, place)
                self._by_address[change.address] = self._record.allocate(time, new)
            self._record.sample(time)

    def _results(self, blocks: list[tuple[int, int]], fresh: list[str]) -> dict[int, str]:
        """Which of these (number, bytes) is which tensor: by sizes, those of parts that are shorter
        than their types say by their order.
        """
        found: dict[int, str] = {}
        left = [copy for copy in fresh if self._program.tensor(copy).bytes]
        for number, size in blocks:
            same = (copy for copy in left if self._program.tensor(copy).bytes == size)
            if (copy := next(same, None)) is not None:
                found[number] = copy
                left.remove(copy)
        others = [number for number, _ in blocks if number not in found]
        if len(others) == len(left):
            found.update(zip(others, left, strict=True))
        return found

    def _forget(self, change: LoggedChange, time: Nanoseconds) -> None:
        block = self._by_address.pop(change.address, None)
        if block is None:  # from before the step
            self._record.count(DEVICE, change.bytes)
            self._record.count(UNPLANNED, change.bytes)
        else:
            self._holding.give_back(block, time)

    def _sample_level(self, span: _Span, start: Nanoseconds, end: Nanoseconds) -> None:
        """Where single blocks are not known: the most while this ran, then what is left."""
        if span.level is None:
            return
        for time, level in ((start, span.level.peak), (end, span.level.now)):
            self._record.count(DEVICE, self._persistent + level - self._level)
            self._level = self._persistent + level
            self._record.sample(time)


def _lasting(changes: list[LoggedChange]) -> list[int]:
    """Which blocks come and do not go again, by their numbers."""
    there: dict[int, int] = {}
    for number, change in enumerate(changes):
        if not change.of_tensors:
            continue
        if change.bytes < 0:
            there.pop(change.address, None)
        else:
            there[change.address] = number
    return list(there.values())


def _by_span(
    changes: list[LoggedChange], spans: Iterator[_Span]
) -> Iterator[tuple[_Span, list[LoggedChange]]]:
    """Each span with the changes until its end; in the last one, of no statement, what follows."""
    done = 0
    for span in spans:
        first = done
        while done < len(changes) and changes[done].nanoseconds <= span.end:
            done += 1
        yield span, changes[first:done]
    if done < len(changes):
        yield _Span(NONE, 0, 0, False, None), changes[done:]


def _joined(levels: list[Level | None]) -> Level | None:
    known = [level for level in levels if level is not None]
    return Level(max(level.peak for level in known), known[-1].now) if known else None
