"""Memory over the time of a step, as a terminal can show it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from magis.report.text import bytes_text, seconds_text
from magis.report.viewers.record import DEVICE, Record

if TYPE_CHECKING:
    from magis import _core

# Finer than terminals are wide.
STRETCHES = 240

_ROWS = 10
_WIDEST = 72  # of the drawing, without its labels
_LABEL = 10
_EIGHTHS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class MemoryCurve:
    """The most that is on the device in each of STRETCHES equal stretches of a step."""

    seconds: float
    persistent_bytes: int
    levels: list[int]  # persistent included

    @classmethod
    def of(cls, record: Record, simulation: _core.Simulation) -> MemoryCurve:
        """record: the step whose simulation this is, as predicted."""
        samples = [(s.time, s.bytes) for s in record.samples if s.counter == DEVICE]
        end = max(1, max((time for time, _ in samples), default=0))
        levels = [0] * STRETCHES
        reached = level = 0
        for time, after in samples:
            stretch = min(STRETCHES - 1, STRETCHES * time // end)
            for passed in range(reached, stretch + 1):
                levels[passed] = max(levels[passed], level)
            reached, level = stretch, after
            levels[stretch] = max(levels[stretch], level)
        return cls(simulation.seconds, simulation.persistent_bytes, levels)

    def columns(self, count: int) -> list[int]:
        """The same in at most so many stretches; none is left out."""
        count = min(count, STRETCHES)
        bounds = [STRETCHES * column // count for column in range(count + 1)]
        return [max(self.levels[a:b]) for a, b in pairwise(bounds)]


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
