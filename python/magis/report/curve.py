"""Memory over the time of a step in few numbers: for a terminal, and where no script draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from magis.report.text import bytes_text, seconds_text
from magis.report.timeline import Loop, Timeline

if TYPE_CHECKING:
    from magis import _core

# Finer than terminals are wide.
STRETCHES = 240

_ROWS = 10
_WIDEST = 72  # of the drawing, without its labels
_LABEL = 10
_EIGHTHS = " ▁▂▃▄▅▆▇█"

_Clock = Callable[[float], float]  # from the time of a first part to that of another


@dataclass(frozen=True)
class MemoryCurve:
    """The most that is on the device in each of STRETCHES equal stretches of a step, all parts of
    all loops included.
    """

    seconds: float
    persistent_bytes: int
    levels: list[int]  # persistent included

    @classmethod
    def of(cls, timeline: Timeline, simulation: _core.Simulation) -> MemoryCurve:
        """timeline: of this simulation."""
        levels = _Levels(timeline, simulation)
        levels.part(0, len(timeline.moments), 0, len(timeline.loops), lambda time: time)
        return cls(simulation.seconds, simulation.persistent_bytes, levels.levels)

    def columns(self, count: int) -> list[int]:
        """The same in at most so many stretches; none is left out."""
        count = min(count, STRETCHES)
        bounds = [STRETCHES * column // count for column in range(count + 1)]
        return [max(self.levels[a:b]) for a, b in pairwise(bounds)]


class _Levels:
    def __init__(self, timeline: Timeline, simulation: _core.Simulation) -> None:
        self._timeline = timeline
        self._seconds = simulation.seconds or 1.0
        self._persistent = simulation.persistent_bytes
        self.levels = [simulation.persistent_bytes] * STRETCHES

    def part(self, first: int, end: int, loop: int, last_loop: int, clock: _Clock) -> None:
        """Moments from `first` to before `end` once, the loops among them (from number `loop` to
        before `last_loop`) in all their parts.
        """
        moments, loops = self._timeline.moments, self._timeline.loops
        while loop < last_loop:
            found = loops[loop]
            after = loop + 1  # the next loop that is not inside
            while after < last_loop and loops[after].first <= found.last:
                after += 1
            self._plain(first, found.first, clock)
            self._loop(loop, after, clock)
            first, loop = found.last + 1, after
        self._plain(first, min(end, len(moments)), clock)

    def _loop(self, number: int, after: int, clock: _Clock) -> None:
        loop = self._timeline.loops[number]
        if loop.last < loop.first:
            return
        width = clock(loop.start + loop.seconds) - clock(loop.start)
        if loop.parts > 2 and width < self._seconds / STRETCHES:
            # No stretch without a whole part in it.
            most = max(m.live_bytes for m in self._timeline.moments[loop.first : loop.last + 1])
            self._reach(clock(loop.start), clock(loop.end), most)
            return
        for part in range(loop.parts):
            self.part(loop.first, loop.last + 1, number + 1, after, _later(clock, loop, part))

    def _plain(self, first: int, end: int, clock: _Clock) -> None:
        for moment in self._timeline.moments[first:end]:
            self._reach(clock(moment.start), clock(moment.end), moment.live_bytes)

    def _reach(self, start: float, end: float, live: int) -> None:
        first = min(STRETCHES - 1, int(STRETCHES * start / self._seconds))
        last = min(STRETCHES - 1, int(STRETCHES * end / self._seconds))
        for stretch in range(first, last + 1):
            self.levels[stretch] = max(self.levels[stretch], self._persistent + live)


def _later(clock: _Clock, loop: Loop, part: int) -> _Clock:
    """The clock of another part of a loop than the first."""
    if part == 0:
        return clock
    begin = loop.start + loop.seconds + (part - 1) * loop.other_seconds
    stretched = loop.other_seconds / loop.seconds if loop.seconds else 1.0
    return lambda time: clock(begin + (time - loop.start) * stretched)


class CurveView:
    """In blocks on a terminal, in plain characters where it may be none, or knows no others."""

    def __init__(self, curve: MemoryCurve) -> None:
        self._curve = curve

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plain = options.ascii_only or not console.is_terminal
        columns = self._curve.columns(max(1, min(_WIDEST, options.max_width - _LABEL - 2)))
        peak = max(columns)
        if peak == 0:
            return
        for row in reversed(range(_ROWS)):
            yield self._row(row, columns, peak, plain)
        corner, line, mark = ("+", "-", "^") if plain else ("└", "─", "▲")
        yield Text(" " * _LABEL + " " + corner + line * len(columns), no_wrap=True)
        yield self._times(columns.index(peak), len(columns), mark)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(40, options.max_width), _LABEL + 2 + _WIDEST).with_maximum(
            options.max_width
        )

    def _row(self, row: int, columns: list[int], peak: int, plain: bool) -> Text:
        persistent_rows = round(_ROWS * self._curve.persistent_bytes / peak)
        label = ""
        if row == _ROWS - 1:
            label = bytes_text(peak)
        elif row == persistent_rows - 1:
            label = bytes_text(self._curve.persistent_bytes)
        text = Text(label.rjust(_LABEL) + (" |" if plain else " │"), no_wrap=True)
        for level in columns:
            cell = _cell(8 * _ROWS * level / peak - 8 * row, plain)
            lies_below = row < persistent_rows
            if plain and lies_below and cell != " ":
                cell = ":"
            text.append(cell, style="" if plain else "dim cyan" if lies_below else "cyan")
        return text

    def _times(self, at: int, width: int, mark: str) -> Text:
        """Under the axis: where the peak is reached, and how long a step takes."""
        peak = f"{mark} peak"
        end = seconds_text(self._curve.seconds)
        line = " " * at + peak if at + len(peak) <= width else " " * (at - 5) + f"peak {mark}"
        if len(line) + len(end) + 2 <= width:
            line = line.ljust(width - len(end)) + end
        return Text(" " * (_LABEL + 2) + line, no_wrap=True)


def _cell(eighths: float, plain: bool) -> str:
    """Of a column that stands so many eighths of a row above the row's foot."""
    if plain:
        return "#" if eighths >= 4 else " "
    return _EIGHTHS[max(0, min(8, round(eighths)))]
