"""Memory over the time of a step: each moment of a plan's program, and what lives until when.

Bytes are the simulator's: at each moment the lifetimes that hold it, and the running operator's
scratch, come to what it counts. A property test holds the two together.

What is in a loop stands here once, with the times of its first part; `loops` says how often it
comes, and when. A shorter last part counts as a full one, as it does for the simulator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magis.report.lifetimes import tensor_of
from magis.timing.in_step import loop_ends

if TYPE_CHECKING:
    from magis import _core

RUN = "run"  # an operator runs
LOAD = "load"  # a tensor takes memory again, to come back from the host; takes no time
WAIT = "wait"  # the step waits for copies


@dataclass(frozen=True)
class Moment:
    """Something that takes time, or memory."""

    kind: str  # RUN, LOAD or WAIT
    name: str  # RUN: the operator's first result, LOAD: the copy, each with its number; else ""
    start: float
    end: float
    live_bytes: int  # on the device, above what was there on entry; scratch included
    scratch_bytes: int  # of these, the running operator's own


@dataclass
class Lifetime:
    """Memory that a tensor, or a copy of one, holds on the device."""

    name: str  # with the copy's number: "mm_3.1"
    tensor: _core.TensorInfo
    bytes: int  # as the allocator rounds them
    first: int  # moments, both included
    last: int


@dataclass
class HostStay:
    """What the host holds of a stored tensor."""

    tensor: _core.TensorInfo
    first: int  # moments, both included
    last: int


@dataclass
class Loop:
    """Moments that come once for each part, one part after the other.

    Parts after the first differ from it where a copy from before the loop delays the first one's;
    they count as the first, stretched to the time that they take.
    """

    name: str
    parts: int
    copies: bool  # whether something in it leaves for the host
    first: int  # moments, both included; `last` is before `first` if there are none
    last: int
    start: float  # of the first part
    seconds: float = 0.0  # that the first part takes
    other_seconds: float = 0.0  # that each other part takes

    @property
    def end(self) -> float:
        """Of all parts, if this is the first time that the loop runs."""
        return self.start + self.seconds + (self.parts - 1) * self.other_seconds


@dataclass
class Timeline:
    moments: list[Moment] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)  # in the order in which they begin
    lifetimes: list[Lifetime] = field(default_factory=list)  # of inputs first, then by `first`
    on_host: list[HostStay] = field(default_factory=list)
    # Of each copy of the simulation the innermost loop around it; None outside all loops.
    copy_loops: list[int | None] = field(default_factory=list)
    peak: int = 0  # the first moment at which most memory is live

    @classmethod
    def of(cls, plan: _core.Plan, simulation: _core.Simulation, device: _core.Device) -> Timeline:
        """simulation: `plan.simulate(device)`."""
        return _Walk(plan, simulation, device).timeline()


class _Walk:
    """The simulator records of a loop that copies its first part, and of any other what each
    operator takes in all parts together.
    """

    def __init__(
        self, plan: _core.Plan, simulation: _core.Simulation, device: _core.Device
    ) -> None:
        from magis import _core

        self._plan = plan
        self._granularity = _core.allocation_granularity(device)
        self._copies_wait = not _core.copies_overlap(device)
        self._seconds = simulation.seconds
        self._points = iter(simulation.timeline)
        self._copies = iter(simulation.copies)
        self._tensors = {tensor.name: tensor for tensor in plan.graph.tensors}
        self._copying = _copying_loops(plan.statements)
        self._found = Timeline()
        self._open: dict[str, Lifetime] = {}
        self._open_loops: list[int] = []
        self._parts_told = 1  # in how many parts what the simulator says of an operator runs
        self._live = 0  # bytes of transient tensors
        self._clock = 0.0
        self._arrivals: dict[str, float] = {}  # of copies on their way
        self._stays: dict[str, HostStay] = {}  # by tensor

    def timeline(self) -> Timeline:
        inputs = [tensor for tensor in self._plan.graph.tensors if tensor.is_input]
        for tensor in inputs:
            self._begin(tensor.name, 0)
        self._live = 0
        for number, statement in enumerate(self._plan.statements):
            if statement.operator:
                self._run(number, statement)
            else:
                self._move(statement)
        end = max(0, len(self._found.moments) - 1)
        for lifetime in self._open.values():
            lifetime.last = end
        moments = self._found.moments
        if moments:
            self._found.peak = max(range(len(moments)), key=lambda m: (moments[m].live_bytes, -m))
        return self._found

    def _move(self, statement: _core.Statement) -> None:
        for name in statement.copies:
            if statement.kind == "free":
                self._end(name, len(self._found.moments) - 1)
                continue
            if statement.kind == LOAD:
                self._begin(name, len(self._found.moments))
                self._add(LOAD, name, self._clock, self._clock, 0)
            elif statement.kind == "store":
                tensor = tensor_of(name)
                stay = HostStay(self._tensors[tensor], len(self._found.moments), 0)
                self._stays[tensor] = stay
                self._found.on_host.append(stay)
            if statement.kind == "await":
                self._wait_until(self._arrivals.pop(name, 0.0))
                if tensor_of(name) in self._stays:  # it may have come back for good
                    self._stays[tensor_of(name)].last = len(self._found.moments) - 1
            else:
                self._copy(name)

    def _copy(self, name: str) -> None:
        self._arrivals[name] = next(self._copies).end
        self._found.copy_loops.append(self._open_loops[-1] if self._open_loops else None)
        if self._copies_wait:
            self._wait_until(self._arrivals[name])

    def _run(self, number: int, statement: _core.Statement) -> None:
        point = next(self._points)
        if statement.kind == "end":
            self._end_loop(point.start)
        start, end = point.start, point.end
        if self._parts_told > 1:
            start = self._clock
            end = start + (point.end - point.start) / self._parts_told
        here = len(self._found.moments)
        if statement.over:
            self._end(statement.over, here - 1)
        for result in statement.copies:
            self._begin(result, here)
        self._add(RUN, statement.name, start, end, point.live_bytes - self._live)
        self._clock = end
        if statement.kind == "begin":
            self._begin_loop(statement, number in self._copying)

    def _begin_loop(self, statement: _core.Statement, copies: bool) -> None:
        here = len(self._found.moments)
        loop = Loop(statement.loop, statement.iterations, copies, here, here - 1, self._clock)
        self._open_loops.append(len(self._found.loops))
        self._found.loops.append(loop)
        if not copies:
            self._parts_told *= loop.parts

    def _end_loop(self, end: float) -> None:
        """end: of all its parts, if the loop copies."""
        loop = self._found.loops[self._open_loops.pop()]
        loop.last = len(self._found.moments) - 1
        loop.seconds = loop.other_seconds = self._clock - loop.start
        if not loop.copies:
            self._parts_told //= loop.parts
        elif loop.parts > 1:
            loop.other_seconds = max(0.0, end - self._clock) / (loop.parts - 1)
        self._clock = loop.end

    def _wait_until(self, end: float) -> None:
        if end - self._clock > 1e-9 * self._seconds:
            self._add(WAIT, "", self._clock, end, 0)
            self._clock = end

    def _add(self, kind: str, name: str, start: float, end: float, scratch: int) -> None:
        self._found.moments.append(Moment(kind, name, start, end, self._live + scratch, scratch))

    def _begin(self, name: str, moment: int) -> None:
        tensor = self._tensors[tensor_of(name)]
        size = -(-tensor.bytes // self._granularity) * self._granularity
        self._open[name] = Lifetime(name, tensor, size, moment, moment)
        self._found.lifetimes.append(self._open[name])
        self._live += size

    def _end(self, name: str, moment: int) -> None:
        lifetime = self._open.pop(name)
        lifetime.last = moment
        self._live -= lifetime.bytes


def _copying_loops(statements: list[_core.Statement]) -> set[int]:
    """Begins of loops in which something leaves for the host."""
    moves = [n for n, statement in enumerate(statements) if statement.kind in ("store", LOAD)]
    return {
        begin
        for begin, end in loop_ends(statements).items()
        if any(begin < move < end for move in moves)
    }


def running_bytes(timeline: Timeline) -> Iterator[int]:
    """What lifetimes and scratch come to at each moment, persistent bytes included: the long way
    round, to be held against `live_bytes`.
    """
    change = [0] * (len(timeline.moments) + 1)
    for lifetime in timeline.lifetimes:
        change[lifetime.first] += lifetime.bytes
        change[lifetime.last + 1] -= lifetime.bytes
    live = 0
    for moment, step in zip(timeline.moments, change, strict=False):
        live += step
        yield live + moment.scratch_bytes
