"""How a search got on: what it had found after so many seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magis import _core


@dataclass(frozen=True)
class SearchHistory:
    """Columns of one length, a row for each time that the search told of itself."""

    elapsed: list[float]  # seconds
    peak_bytes: list[int]  # of the best plan so far
    seconds: list[float]  # its time
    met: list[bool]  # whether it keeps the limit
    states: list[int]  # evaluated
    bound_bytes: list[int]  # no plan stays below it

    @classmethod
    def of(cls, told: Iterable[_core.Progress]) -> SearchHistory:
        told = list(told)
        return cls(
            elapsed=[row.elapsed for row in told],
            peak_bytes=[row.best_peak_bytes for row in told],
            seconds=[row.best_seconds for row in told],
            met=[row.met for row in told],
            states=[row.states_evaluated for row in told],
            bound_bytes=[row.lower_bound_bytes for row in told],
        )

    @classmethod
    def from_json(cls, data: Any) -> SearchHistory:
        """The inverse of `asdict`; raises KeyError, TypeError or ValueError for anything else."""
        found = cls(**{entry.name: list(data[entry.name]) for entry in fields(cls)})
        columns = [getattr(found, entry.name) for entry in fields(cls)]
        if len({len(column) for column in columns}) != 1:
            raise ValueError("columns of several lengths")
        if not all(isinstance(value, int | float) for column in columns for value in column):
            raise TypeError("a column that holds no numbers")
        return found
