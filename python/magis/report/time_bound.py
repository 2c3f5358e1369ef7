"""How fast a plan can be at all within its limit on memory, as far as that is certified."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from magis.report.text import bytes_text, percent_text, seconds_text


@dataclass(frozen=True)
class TimeBound:
    """A lower bound on the time of all plans within a limit that differ from one plan in what they
    recompute alone: the same operators, first run in the same order, nothing kept on the host.
    Bytes and seconds are counted as the plan's own promise counts them.

    Exactly one of `seconds`, `least_bytes` and `missing` is set.
    """

    seconds: float | None = None  # no such plan within the limit takes less
    least_bytes: int | None = None  # none keeps the limit: all take at least so much memory
    missing: str = ""  # why there is no bound
    gap: float | None = None  # by what share of `seconds` the plan takes longer, if it is within
    in_parts: bool = False  # regions of the plan run so: other plans run them in the same parts

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TimeBound:
        """The inverse of dataclasses.asdict. Raises TypeError if something is of another kind, and
        ValueError if it is none of the three, or more than one.
        """
        wanted = {"seconds": float, "least_bytes": int, "missing": str, "gap": float}
        for field in fields(cls):
            value, kind = data[field.name], wanted.get(field.name, bool)
            if not isinstance(value, kind) and not (value is None and kind in (float, int)):
                raise TypeError(field.name)
        bound = cls(**data)
        numbers = [value for value in (bound.seconds, bound.least_bytes) if value is not None]
        if len(numbers) + bool(bound.missing) != 1:
            raise ValueError("exactly one of seconds, least_bytes and missing")
        if not all(0 <= value < math.inf for value in [*numbers, bound.gap or 0.0]):
            raise ValueError("bounds are finite and not negative")
        return bound

    def rows(self) -> list[str]:
        """In words: the bound, and which plans it speaks of."""
        if self.missing:
            return [f"none: {self.missing}"]
        regions = ", regions in these parts," if self.in_parts else ""
        plans = f"no plan of these operators{regions} in this order, without swapping, "
        if self.least_bytes is not None:
            return [
                f"none keeps the limit: at least {bytes_text(self.least_bytes)}",
                plans + "fits",
            ]
        assert self.seconds is not None
        words = seconds_text(self.seconds)
        if self.gap is not None:
            gap = percent_text(self.gap, 1.0)
            words += "; the plan reaches it" if gap == "0.0 %" else f"; the plan is {gap} above it"
        return [words, plans + "is faster within the limit"]
