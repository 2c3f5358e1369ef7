"""How far a plan's promised time is from the truth: the step, and its operators one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from magis.report.text import change_text, plural, seconds_text

# Calls whose promises were farthest from the truth, and operators that take most of the step.
_MOST_OFFENDERS = 5
_MOST_OPERATORS = 12


@dataclass(frozen=True)
class TimeOf:
    """A call or an operator, with the seconds that all its runs in a step were promised to take,
    and took.
    """

    name: str
    runs: int
    promised: float
    measured: float


@dataclass(frozen=True)
class PromisedTimes:
    """Promised and measured seconds of one step. The operators are timed in a step that reads the
    clock after each of them, and are not there for plans that copy to the host.
    """

    promised_seconds: float
    step_seconds: float  # processor time where one thread computes
    calls: int  # distinct ones
    calls_measured: int  # of these, with a time that was measured before
    operators: list[TimeOf]  # by name, those first that take longest
    offenders: list[TimeOf]  # calls, by how many seconds of a step their promise is off

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PromisedTimes:
        """The inverse of dataclasses.asdict."""
        lists = {name: [TimeOf(**row) for row in data[name]] for name in ("operators", "offenders")}
        return cls(**{**data, **lists})

    def rows(self) -> Iterator[tuple[str, str]]:
        """(what, words), for a table of two columns."""
        share = f"{self.calls_measured:,} of {plural(self.calls, 'call')} measured before"
        yield "promised", f"{seconds_text(self.promised_seconds)} a step ({share})"
        change = change_text(self.step_seconds, self.promised_seconds)
        measured = seconds_text(self.step_seconds)
        yield "step", f"{measured} ({change}; processor time where one thread computes)"
        yield from _rows("longest", self.operators[:_MOST_OFFENDERS])
        yield from _rows("farthest off", self.offenders)


def promised_times(
    promised_seconds: float,
    step_seconds: float,
    costs: list[tuple[str, float]],
    measured: list[float] | None,
    *,
    calls: int,
    calls_measured: int,
) -> PromisedTimes:
    """Of a plan with these `run_costs`, whose runs took `measured` seconds each; None: unknown."""
    seconds = [] if measured is None else measured
    known = costs if measured is not None else []
    by_operator = _times(known, seconds, lambda call: call.partition("(")[0])
    by_call = _times(known, seconds, lambda call: call)
    return PromisedTimes(
        promised_seconds=promised_seconds,
        step_seconds=step_seconds,
        calls=calls,
        calls_measured=calls_measured,
        operators=sorted(by_operator, key=lambda row: -row.measured)[:_MOST_OPERATORS],
        offenders=farthest_off(by_call)[:_MOST_OFFENDERS],
    )


def farthest_off(rows: Iterable[TimeOf]) -> list[TimeOf]:
    return sorted(rows, key=lambda row: -abs(row.promised - row.measured))


def _times(
    costs: list[tuple[str, float]], measured: list[float], name_of: Callable[[str], str]
) -> list[TimeOf]:
    found: dict[str, TimeOf] = {}
    for (call, promised), seconds in zip(costs, measured, strict=True):
        name = name_of(call)
        row = found.get(name, TimeOf(name, 0, 0.0, 0.0))
        found[name] = TimeOf(name, row.runs + 1, row.promised + promised, row.measured + seconds)
    return list(found.values())


def _rows(title: str, rows: list[TimeOf]) -> Iterator[tuple[str, str]]:
    for number, row in enumerate(rows):
        times = f"{seconds_text(row.promised)} promised, {seconds_text(row.measured)} measured"
        yield title if number == 0 else "", f"{times}, {plural(row.runs, 'run')}: {row.name}"
