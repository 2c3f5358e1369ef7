"""What a user may write as a limit, and what it comes to in bytes or seconds."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from typing import Any

from magis.errors import LimitError

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-zA-Z]*|%)\s*", re.ASCII)

_MEMORY_FORMS = (
    'a number of bytes (8589934592), a string with a unit ("8GiB", "8 GB", "512MB"; B, kB, MB, GB, '
    "TB are powers of 1000, "
    'KiB, MiB, GiB, TiB of 1024), or a share of the baseline\'s peak ("40%", or a float in (0, 1] '
    "such as 0.4)"
)
_LATENCY_FORMS = (
    "a multiple of the baseline's time that is at least 1 (1.1), or by how much slower the step "
    'may get ("10%")'
)


@dataclass(frozen=True)
class MemoryLimit:
    """The most that persistent and transient bytes may come to: `bytes`, or `ratio` times the
    baseline's peak.
    """

    bytes: int | None = None
    ratio: float | None = None

    @classmethod
    def parse(cls, value: Any) -> MemoryLimit:
        """Raises LimitError that names the accepted forms."""
        if isinstance(value, str):
            return cls._parse_text(value)
        if isinstance(value, bool):
            raise _memory_error(value)
        try:
            count = operator.index(value)
        except TypeError:
            return cls._parse_ratio(value)
        if count <= 0:
            raise LimitError(f"a memory limit must be positive, got {count}")
        return cls(bytes=count)

    @classmethod
    def _parse_text(cls, text: str) -> MemoryLimit:
        match = _QUANTITY.fullmatch(text)
        if match is None:
            raise _memory_error(text)
        number, unit = match.groups()
        if unit == "%":
            return cls._checked_ratio(float(number) / 100, text)
        if unit.lower() not in _UNITS or ("." in number and unit.lower() in {"", "b"}):
            raise _memory_error(text)
        # Exact for every number of digits: "0.1GB" is 100,000,000 bytes, not one less.
        whole, _, decimals = number.partition(".")
        count = int(whole + decimals or "0") * _UNITS[unit.lower()] // 10 ** len(decimals)
        if count <= 0:
            raise LimitError(f"a memory limit must be positive, got {text!r}")
        return cls(bytes=count)

    @classmethod
    def _parse_ratio(cls, value: Any) -> MemoryLimit:
        try:
            ratio = float(value)
        except (TypeError, ValueError):
            raise _memory_error(value) from None
        return cls._checked_ratio(ratio, value)

    @classmethod
    def _checked_ratio(cls, ratio: float, given: Any) -> MemoryLimit:
        if not 0 < ratio <= 1:  # also refuses nan
            raise _memory_error(given)
        return cls(ratio=ratio)

    def resolve(self, baseline_peak_bytes: int) -> int:
        """The limit in bytes, for a step whose baseline peaks at `baseline_peak_bytes`."""
        if self.bytes is not None:
            return self.bytes
        assert self.ratio is not None
        return math.floor(self.ratio * baseline_peak_bytes)

    def __str__(self) -> str:
        if self.bytes is not None:
            return f"memory at most {self.bytes:,} bytes"
        assert self.ratio is not None
        return f"memory at most {100 * self.ratio:g} % of the baseline's peak"


@dataclass(frozen=True)
class LatencyLimit:
    """The longest that the step may take: `ratio` times the baseline's time, ratio >= 1."""

    ratio: float
    asked_for: bool = True  # False: the user gave no limit at all

    @classmethod
    def parse(cls, value: Any) -> LatencyLimit:
        """Raises LimitError that names the accepted forms."""
        if isinstance(value, str):
            match = _QUANTITY.fullmatch(value)
            if match is None or match[2] != "%":
                raise _latency_error(value)
            return cls(1 + float(match[1]) / 100)
        if isinstance(value, bool):
            raise _latency_error(value)
        try:
            ratio = float(value)
        except (TypeError, ValueError):
            raise _latency_error(value) from None
        if not 1 <= ratio < math.inf:
            raise _latency_error(value)
        return cls(ratio)

    def resolve(self, baseline_seconds: float) -> float:
        """The limit in seconds, for a step whose baseline takes `baseline_seconds`."""
        # The times of the same operators in another order, or in whole picoseconds, add up to
        # other last digits.
        return self.ratio * baseline_seconds * (1 + 1e-6)

    def __str__(self) -> str:
        if not self.asked_for:
            return "none given: the least memory at no more time than the baseline"
        return f"time at most {self.ratio:g} times the baseline's"


Limit = MemoryLimit | LatencyLimit


def parse_limit(memory_limit: Any = None, latency_limit: Any = None) -> Limit:
    """The one limit that was given. With neither: the least memory at no more time than the
    baseline.

    Raises LimitError if both were given or one is not understood; the message names the accepted
    forms.
    """
    if memory_limit is not None and latency_limit is not None:
        raise LimitError(
            "both a memory limit and a latency limit were given; give one, the other is what gets "
            "optimized"
        )
    if memory_limit is not None:
        return MemoryLimit.parse(memory_limit)
    if latency_limit is not None:
        return LatencyLimit.parse(latency_limit)
    return LatencyLimit(1.0, asked_for=False)


def _memory_error(value: Any) -> LimitError:
    return LimitError(f"memory limit {value!r} is not understood; give {_MEMORY_FORMS}")


def _latency_error(value: Any) -> LimitError:
    return LimitError(f"latency limit {value!r} is not understood; give {_LATENCY_FORMS}")
