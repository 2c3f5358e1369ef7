"""What is known of one call on one machine."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from magis.errors import MagisError


@dataclass(frozen=True)
class Entry:
    """A call's time, or why it has none."""

    seconds: float  # median
    spread: float  # median deviation from the median
    samples: int
    workspace: int  # bytes that the call holds beside operands and results while it runs
    clock: float = 0.0  # MHz of the device then; 0: unknown
    failure: str = ""  # what PyTorch said when the call was run alone; then there is no time

    def check(self, call: str) -> int:
        """A checksum of the row: what was damaged on disk is never taken for a time."""
        numbers = struct.pack(
            "<ddqqd", self.seconds, self.spread, self.samples, self.workspace, self.clock
        )
        return zlib.crc32(f"{call}\0{self.failure}".encode(), zlib.crc32(numbers))


@dataclass(frozen=True)
class Fit:
    """What modelled seconds of an operator come to: scale * seconds ** exponent."""

    scale: float
    exponent: float
    calls: int  # that it was fitted to

    @property
    def is_sane(self) -> bool:
        """Whether it can be used at all: a file may hold anything."""
        numbers = (self.scale, self.exponent)
        if not all(isinstance(n, float) and math.isfinite(n) for n in numbers):
            return False
        return self.scale > 0 and 0.1 < self.exponent < 3


def entry_from(values: Mapping[str, object]) -> Entry:
    """The entry with these fields; raises MagisError if one is missing or not of its kind."""

    def number(name: str) -> float:
        value = values.get(name)
        if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise MagisError(f"{name} is {value!r}, no number that is finite and not negative")
        return float(value)

    def count(name: str) -> int:
        value = values.get(name)
        if not isinstance(value, int) or value < 0:
            raise MagisError(f"{name} is {value!r}, not a count")
        return value

    failure = values.get("failure")
    if not isinstance(failure, str):
        raise MagisError(f"failure is {failure!r}, not text")
    return Entry(
        number("seconds"),
        number("spread"),
        count("samples"),
        count("workspace"),
        number("clock"),
        failure,
    )
