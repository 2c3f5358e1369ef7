"""Memory over the time of a step: each moment of a plan's program, and what lives until when.

Bytes are the simulator's: at each moment the lifetimes that hold it, and the running operator's
scratch, come to what it counts. A property test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magis.report.lifetimes import tensor_of

if TYPE_CHECKING:
    from magis import _core

RUN = "run"  # an operator runs
LOAD = "load"  # a tensor takes memory again, to come back from the host; takes no time
WAIT = "wait"  # the step waits for copies
REPEAT = (
    "repeat"  # the loop's other parts, of which the simulator records times for the first alone
)


@dataclass(frozen=True)
class Moment:
    """Something that takes time, or memory."""

    kind: str  # RUN, LOAD, WAIT or REPEAT
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
class Timeline:
    moments: list[Moment] = field(default_factory=list)
    lifetimes: list[Lifetime] = field(default_factory=list)  # of inputs first, then by `first`
    on_host: list[HostStay] = field(default_factory=list)
    peak: int = 0  # the first moment at which most memory is live

    @classmethod
    def of(cls, plan: _core.Plan, simulation: _core.Simulation, device: _core.Device) -> Timeline:
        """simulation: `plan.simulate(device)`."""
        return _Walk(plan, simulation, device).timeline()


class _Walk:
    def __init__(
        self, plan: _core.Plan, simulation: _core.Simulation, device: _core.Device
    ) -> None:
        from magis import _core

        self._plan = plan
        self._granularity = _core.allocation_granularity(device)
        self._seconds = simulation.seconds
        self._points = simulation.timeline
        self._next_point = 0
        self._tensors = {tensor.name: tensor for tensor in plan.graph.tensors}
        self._found = Timeline()
        self._open: dict[str, Lifetime] = {}
        self._live = 0  # bytes of transient tensors
        self._clock = 0.0
        self._stays: dict[str, HostStay] = {}  # by tensor

    def timeline(self) -> Timeline:
        inputs = [tensor for tensor in self._plan.graph.tensors if tensor.is_input]
        for tensor in inputs:
            self._begin(tensor.name, 0)
        self._live = 0
        for statement in self._plan.statements:
            self._step(statement)
        self._wait_until(self._seconds, WAIT)
        end = max(0, len(self._found.moments) - 1)
        for lifetime in self._open.values():
            lifetime.last = end
        moments = self._found.moments
        if moments:
            self._found.peak = max(range(len(moments)), key=lambda m: (moments[m].live_bytes, -m))
        return self._found

    def _step(self, statement: _core.Statement) -> None:
        if statement.operator:
            self._run(statement)
            return
        for name in statement.copies:
            if statement.kind == "free":
                self._end(name, len(self._found.moments) - 1)
            elif statement.kind == LOAD:
                self._begin(name, len(self._found.moments))
                self._add(LOAD, name, self._clock, self._clock, 0)
            elif statement.kind == "store":
                tensor = tensor_of(name)
                stay = HostStay(self._tensors[tensor], len(self._found.moments), 0)
                self._stays[tensor] = stay
                self._found.on_host.append(stay)
        if statement.kind != "free" and self._next_point < len(self._points):
            self._wait_until(self._points[self._next_point].start, WAIT)
        if statement.kind == "await":
            for name in statement.copies:
                if tensor_of(name) in self._stays:  # it may have come back for good
                    self._stays[tensor_of(name)].last = len(self._found.moments) - 1

    def _run(self, statement: _core.Statement) -> None:
        point = self._points[self._next_point]
        self._next_point += 1
        self._wait_until(point.start, REPEAT if statement.kind == "end" else WAIT)
        here = len(self._found.moments)
        if statement.over:
            self._end(statement.over, here - 1)
        for result in statement.copies:
            self._begin(result, here)
        self._add(RUN, statement.name, point.start, point.end, point.live_bytes - self._live)
        self._clock = point.end

    def _wait_until(self, start: float, kind: str) -> None:
        if start - self._clock > 1e-9 * self._seconds:
            self._add(kind, "", self._clock, start, 0)
            self._clock = start

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
