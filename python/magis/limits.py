"""What a user may write as a limit, and what it comes to in bytes or seconds."""

from __future__ import annotations

import contextlib
import math
import operator
import re
from dataclasses import dataclass, replace
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

# The core counts bytes in 64 bits.
_LARGEST_BYTES = 2**63 - 1
# Longer than any step takes, and what the core counts in picoseconds in 64 bits.
_LONGEST_SECONDS = 1e6
# More decimals of a unit than its smallest part has: a byte is a 40th binary place of a TiB.
_DECIMALS = 100
_MOST_SHOWN = 40

_MEMORY_FORMS = (
    'a number of bytes (8589934592), a string with a unit ("8GiB", "8 GB", "512MB"; B, kB, MB, GB, '
    "TB are powers of 1000, "
    'KiB, MiB, GiB, TiB of 1024), a share of the baseline\'s peak ("40%", or a float in (0, 1] '
    'such as 0.4), or "auto" for what the device has free now'
)
_LATENCY_FORMS = (
    "a multiple of the baseline's time that is at least 1 (1.1), or by how much slower the step "
    'may get ("10%")'
)


@dataclass(frozen=True)
class MemoryLimit:
    """The most that persistent and transient bytes may come to: `bytes`, or `ratio` times the
    baseline's peak, or what the device has free (`auto`), which has to be found out first.
    """

    bytes: int | None = None
    ratio: float | None = None
    auto: bool = False

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
        return cls._checked_bytes(count, value)

    @classmethod
    def _parse_text(cls, text: str) -> MemoryLimit:
        if text.strip().lower() == "auto":
            return cls(auto=True)
        match = _QUANTITY.fullmatch(text)
        if match is None:
            raise _memory_error(text)
        number, unit = match.groups()
        if unit == "%":
            return cls._checked_ratio(float(number) / 100, text)
        count = _bytes_of(number, unit.lower())
        if count is None:
            raise _memory_error(text)
        return cls._checked_bytes(count, text)

    @classmethod
    def _checked_bytes(cls, count: int, given: Any) -> MemoryLimit:
        if count <= 0:
            raise LimitError(f"a memory limit must be positive, got {_shown(given)}")
        if count > _LARGEST_BYTES:
            raise _too_large(given)
        return cls(bytes=count)

    @classmethod
    def _parse_ratio(cls, value: Any) -> MemoryLimit:
        try:
            ratio = float(value)
        except OverflowError:
            ratio = math.inf
        except (TypeError, ValueError):
            raise _memory_error(value) from None
        return cls._checked_ratio(ratio, value)

    @classmethod
    def _checked_ratio(cls, ratio: float, given: Any) -> MemoryLimit:
        if math.isnan(ratio):
            raise _memory_error(given)
        if not 0 < ratio <= 1:
            raise LimitError(
                f"memory limit {_shown(given)} is out of range: a share lies above 0 and is at "
                f"most 100 % (1.0); give {_MEMORY_FORMS}"
            )
        return cls(ratio=ratio)

    def known(self, available: int) -> MemoryLimit:
        """`auto`, of which `available` bytes turned out to be there. LimitError if none are."""
        if available <= 0:
            raise LimitError(
                "memory limit 'auto': nothing is free on the device beyond what is kept in "
                "reserve; free some memory, or give a limit in bytes"
            )
        return replace(self, bytes=available)

    def resolve(self, baseline_peak_bytes: int) -> int:
        """The limit in bytes, for a step whose baseline peaks at `baseline_peak_bytes`."""
        if self.bytes is not None:
            return self.bytes
        assert self.ratio is not None, "what is free was not looked up"
        return math.floor(self.ratio * baseline_peak_bytes)

    def __str__(self) -> str:
        if self.auto:
            count = "" if self.bytes is None else f", {self.bytes:,} bytes"
            return f"memory at most what the device has free{count}"
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
            return cls._checked(1 + float(match[1]) / 100, value)
        if isinstance(value, bool):
            raise _latency_error(value)
        try:
            ratio = float(value)
        except OverflowError:
            ratio = math.inf
        except (TypeError, ValueError):
            raise _latency_error(value) from None
        return cls._checked(ratio, value)

    @classmethod
    def _checked(cls, ratio: float, given: Any) -> LatencyLimit:
        if not math.isfinite(ratio):
            raise LimitError(
                f"latency limit {_shown(given)} is not a finite number; give {_LATENCY_FORMS}"
            )
        if ratio < 1:
            raise LimitError(
                f"latency limit {_shown(given)} is out of range: give {_LATENCY_FORMS}"
            )
        return cls(ratio)

    def resolve(self, baseline_seconds: float) -> float:
        """The limit in seconds, for a step whose baseline takes `baseline_seconds`: at most 1e6
        (every plan meets that), or the baseline's time if that is longer.
        """
        # The times of the same operators in another order, or in whole picoseconds, add up to
        # other last digits.
        longest = max(baseline_seconds, _LONGEST_SECONDS)
        return min(self.ratio * baseline_seconds, longest) * (1 + 1e-6)

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


def parse_host_memory(value: Any) -> int:
    """Bytes that may be kept on the host, 0 or more; LimitError names the accepted forms."""
    return _parse_bytes(value, "host memory", "0: nothing is kept there")


def parse_search_memory(value: Any) -> int:
    """Bytes that the search's waiting states may take; LimitError names the accepted forms."""
    return _parse_bytes(value, "search memory", "0: one state at a time")


def _parse_bytes(value: Any, what: str, zero: str) -> int:
    count = None
    if isinstance(value, str):
        match = _QUANTITY.fullmatch(value)
        count = _bytes_of(match[1], match[2].lower()) if match else None
    elif not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            count = operator.index(value)
    if count is None or not 0 <= count <= _LARGEST_BYTES:
        raise LimitError(
            f"{what} {_shown(value)} is not understood; give a number of bytes, or a string "
            f'with a unit such as "8GiB" ({zero})'
        )
    return count


def _bytes_of(number: str, unit: str) -> int | None:
    """Exact for every number of digits: "0.1GB" is 100,000,000 bytes, not one less. None if the
    unit is unknown, or parts of bytes are asked for.
    """
    if unit not in _UNITS or ("." in number and unit in {"", "b"}):
        return None
    whole, _, decimals = number.partition(".")
    whole, decimals = whole.lstrip("0"), decimals[:_DECIMALS]
    if len(whole) > len(str(_LARGEST_BYTES)):
        return _LARGEST_BYTES + 1
    count: int = int(whole + decimals or "0") * _UNITS[unit] // 10 ** len(decimals)
    return count


def _memory_error(value: Any) -> LimitError:
    return LimitError(f"memory limit {_shown(value)} is not understood; give {_MEMORY_FORMS}")


def _latency_error(value: Any) -> LimitError:
    return LimitError(f"latency limit {_shown(value)} is not understood; give {_LATENCY_FORMS}")


def _too_large(value: Any) -> LimitError:
    return LimitError(
        f"memory limit {_shown(value)} is larger than any memory; give {_MEMORY_FORMS}"
    )


def _shown(value: Any) -> str:
    """As the user wrote it, but not hundreds of digits of it."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
