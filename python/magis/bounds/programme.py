"""Linear and integer programmes as HiGHS takes them, and what their multipliers prove."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from magis.errors import MissingExtraError

if TYPE_CHECKING:
    import highspy
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

# Of the sum of all terms' sizes: more than rounding can have added to a bound.
_ROUNDING = 1e-12


@dataclass
class Programme:
    """The least cost of columns within their bounds that keep all rows."""

    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    binary: list[bool] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def variable(
        self, cost: float = 0, low: float = 0, high: float = 1, *, binary: bool = False
    ) -> int:
        self.cost.append(cost)
        self.lower.append(low)
        self.upper.append(high)
        self.binary.append(binary)
        return len(self.cost) - 1

    def at_least(self, terms: Sequence[tuple[int, float]], low: float) -> None:
        self._row(terms, low, math.inf)

    def at_most(self, terms: Sequence[tuple[int, float]], high: float) -> None:
        self._row(terms, -math.inf, high)

    def _row(self, terms: Sequence[tuple[int, float]], low: float, high: float) -> None:
        self.columns += [column for column, _ in terms]
        self.values += [value for _, value in terms]
        self.starts.append(len(self.columns))
        self.row_lower.append(low)
        self.row_upper.append(high)

    def solve(self, time_limit: float, **options: str | float) -> highspy.Highs:
        """HiGHS after its run. Raises MissingExtraError if it is not installed."""
        require_solver()
        import highspy

        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self.cost), len(self.row_lower)
        model.col_cost_ = np.array(self.cost)
        model.col_lower_, model.col_upper_ = np.array(self.lower), np.array(self.upper)
        model.row_lower_, model.row_upper_ = np.array(self.row_lower), np.array(self.row_upper)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(self.starts)
        model.a_matrix_.index_ = np.array(self.columns)
        model.a_matrix_.value_ = np.array(self.values)
        if any(self.binary):
            kinds = highspy.HighsVarType
            model.integrality_ = [kinds.kInteger if b else kinds.kContinuous for b in self.binary]
        with _silence():
            solver = highspy.Highs()  # type: ignore[no-untyped-call]
        given = {"output_flag": False, "threads": 1, "time_limit": time_limit, **options}
        for option, value in given.items():
            solver.setOptionValue(option, value)
        solver.passModel(model)
        solver.run()
        return solver

    def proven_minimum(self, multipliers: Vector) -> float:
        """A cost that no solution stays below, whole or fractional, by weak duality: whatever the
        rows' multipliers are, and so wherever a solver stopped. All bounds of columns are finite.

        A solution x keeps every row, so that cost(x) >= cost(x) - y (row(x) - side) for a row's
        multiplier y and the side that its sign names; the right side is least where each column
        stands at the bound that its reduced cost names.
        """
        low, high = np.array(self.row_lower), np.array(self.row_upper)
        y = np.where(np.isfinite(low), multipliers, np.minimum(multipliers, 0))
        y = np.where(np.isfinite(high), y, np.maximum(y, 0))
        sides = y * np.where(y > 0, low, np.where(y < 0, high, 0))
        weights = np.repeat(y, np.diff(self.starts)) * np.array(self.values)
        columns, count = np.array(self.columns, np.intp), len(self.cost)
        cost = np.array(self.cost)
        reduced = cost - np.bincount(columns, weights, count)
        lower, upper = np.array(self.lower), np.array(self.upper)
        least = np.minimum(reduced * lower, reduced * upper)
        sizes = np.abs(cost) + np.bincount(columns, np.abs(weights), count)
        size = np.abs(sides).sum() + (sizes * np.maximum(np.abs(lower), np.abs(upper))).sum()
        return float(sides.sum() + least.sum() - _ROUNDING * size)


def require_solver() -> None:
    """Raises MissingExtraError if HiGHS is not installed."""
    if find_spec("highspy") is None:
        raise MissingExtraError(
            "bounds on time are found by HiGHS, which comes with highspy, and that is not "
            "installed: pip install 'magis[bounds]'"
        )


@contextmanager
def _silence() -> Iterator[None]:
    """The first solver of a process prints a line of its own to the output, whatever its options
    say."""
    if sys.stdout is None:  # closed
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
        ctypes.CDLL(None).fflush(None)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
