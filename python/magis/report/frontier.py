"""The frontier between memory and time in figures: a table, and the choice of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from magis.report.report_words import STOP_REASONS
from magis.report.text import bytes_text, change_text, percent_text, plural, seconds_text

if TYPE_CHECKING:
    from rich.console import RenderableType

# Rows of a table; all plans are in `to_json`.
_MOST_ROWS = 20
# Sums of the same times in another order differ by less.
_SAME_TIME = 1e-6

Row = tuple[str, ...]


@dataclass(frozen=True)
class PlanFigures:
    """What one plan of a frontier promises, and what was done for it."""

    peak_bytes: int  # persistent and transient
    host_bytes: int  # the most that it keeps on the host
    seconds: float  # of a step
    parts: list[int]  # of each region that runs in parts, how many; empty: none does
    recomputed: int  # operators
    swapped: int  # uses before which a tensor was on the host

    @property
    def regions(self) -> int:
        return len(self.parts)


@dataclass(frozen=True)
class FrontierFigures:
    """A frontier without its programs, and the search that found it."""

    device: str  # the profile that times come from
    baseline_peak_bytes: int  # of the captured graph in program order
    baseline_seconds: float
    persistent_bytes: int
    lower_bound_bytes: int  # no plan of this graph stays below it
    lower_bound_reason: str
    exact: bool  # no sums that are added up part by part
    stop_reason: str
    states_scored: int
    states_evaluated: int
    wall_seconds: float
    cpu_seconds: float
    plans: list[PlanFigures]  # from the fastest to the smallest, each slower and smaller

    def within_memory(self, most_bytes: int) -> int:
        """Position of the fastest plan that takes at most so much; of the smallest if none does."""
        for position, plan in enumerate(self.plans):
            if plan.peak_bytes <= most_bytes:
                return position
        return len(self.plans) - 1

    def within_time(self, most_seconds: float) -> int:
        """Position of the smallest plan that takes at most so long; of the fastest if none does."""
        fits = [i for i, plan in enumerate(self.plans) if plan.seconds <= most_seconds]
        return fits[-1] if fits else 0

    def to_json(self) -> dict[str, Any]:
        """Every field by its name; numbers are bytes and seconds."""
        fields = asdict(self)
        for plan in fields["plans"]:
            plan["regions"] = len(plan["parts"])
        return fields

    def __str__(self) -> str:
        header, *rows = _table(self)
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in (header, *rows)
        ]
        return "\n".join([_title(self), "", *(f"  {line}" for line in lines), "", *_notes(self)])

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        header, *rows = _table(self)
        table = Table.grid(padding=(0, 2, 0, 0))
        for _ in header:
            table.add_column(justify="right", no_wrap=True)
        table.add_row(*(Text(cell, style="dim") for cell in header))
        for row in rows:
            table.add_row(*(Text(cell, style="" if row[0] else "bold") for cell in row))
        return Group(
            Text(_title(self), style="bold"),
            Text(""),
            Padding(table, (0, 0, 0, 2), expand=False),
            Text(""),
            *map(Text, _notes(self)),
        )


def telling_plans(plans: Sequence[PlanFigures], most: int) -> list[int]:
    """Positions of at most `most` plans that show the frontier's course: both ends, and the corners
    between them.

    Of three neighbours the middle one says least where they span the smallest triangle; the least
    telling goes first.
    """
    kept = list(range(len(plans)))
    while len(kept) > max(most, 2):

        def area(i: int) -> float:
            left, here, right = (plans[k] for k in kept[i - 1 : i + 2])
            return abs(
                (here.seconds - left.seconds) * (right.peak_bytes - left.peak_bytes)
                - (right.seconds - left.seconds) * (here.peak_bytes - left.peak_bytes)
            )

        del kept[min(range(1, len(kept) - 1), key=area)]
    return kept


def _title(figures: FrontierFigures) -> str:
    return (
        f"{plural(len(figures.plans), 'plan')}, the fastest first; before: "
        f"{bytes_text(figures.baseline_peak_bytes)}, {seconds_text(figures.baseline_seconds)} "
        f"(profile {figures.device})"
    )


def _table(figures: FrontierFigures) -> list[Row]:
    """The header, a row per plan, and one for the lower bound."""
    host = any(plan.host_bytes for plan in figures.plans)
    before = figures.baseline_peak_bytes
    header: Row = ("plan", "peak", "of before", "time", "parts", "recomputed", "swapped", "host")
    rows = [header]
    for position in telling_plans(figures.plans, _MOST_ROWS):
        plan = figures.plans[position]
        rows.append(
            (
                str(position + 1),
                bytes_text(plan.peak_bytes),
                percent_text(plan.peak_bytes, before),
                _time_text(plan.seconds, figures.baseline_seconds),
                ", ".join(map(str, plan.parts)) or "-",
                f"{plan.recomputed:,}",
                f"{plan.swapped:,}",
                bytes_text(plan.host_bytes),
            )
        )
    bound = figures.lower_bound_bytes
    rows.append(("", bytes_text(bound), percent_text(bound, before), "lower bound", "", "", "", ""))
    return rows if host else [row[:-1] for row in rows]


def _time_text(seconds: float, before: float) -> str:
    same = abs(seconds - before) <= _SAME_TIME * before
    return change_text(before if same else seconds, before)


def _notes(figures: FrontierFigures) -> list[str]:
    notes = [
        f"lower bound: {figures.lower_bound_reason}",
        f"search: {figures.states_evaluated:,} states evaluated in "
        f"{seconds_text(figures.wall_seconds)}; "
        f"{STOP_REASONS.get(figures.stop_reason, figures.stop_reason)}",
    ]
    if len(figures.plans) > _MOST_ROWS:
        notes.insert(0, f"{_MOST_ROWS} of {len(figures.plans)} plans shown")
    return notes
