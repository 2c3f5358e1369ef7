"""Bytes, seconds and ratios as people read them. For display only, never parsed."""

import re

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

# What nobody sees: C0 and C1 controls, half of a surrogate pair, line and paragraph separators, and
# what turns the direction of writing.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """`text` with characters that nobody sees written as `\\x1b`: names may hold any."""
    return _UNSEEN.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def bytes_text(count: int) -> str:
    """`1536` as "1.50 KiB"; whole bytes below 1 KiB."""
    if abs(count) < 1024:
        return f"{count} B"
    value = float(count)
    for unit in _BYTE_UNITS:
        # Compared after rounding, so that 1023.999 KiB is written "1.00 MiB".
        if abs(round(value, 2)) < 1024 or unit == _BYTE_UNITS[-1]:
            return f"{value:.2f} {unit}"
        value /= 1024
    raise AssertionError("unreachable: the last unit takes everything")


def seconds_text(seconds: float) -> str:
    """`0.0123` as "12.3 ms": three significant digits, in the unit that fits."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(seconds) >= scale or (unit == "us" and seconds != 0):
            return f"{_three_digits(seconds / scale)} {unit}"
    return "0 s"


def copies_text(to_host: int, to_device: int, seconds: float, exposed: float) -> str:
    """Bytes copied to the host and back in a step, and what of the copies' time is waited for."""
    hidden = seconds - exposed
    if hidden < 1e-9 * seconds:  # two sums of the same times, rounded
        hidden = 0.0
    return (
        f"{bytes_text(to_host)} to the host and {bytes_text(to_device)} back a step; of "
        f"{seconds_text(seconds)} of copying {seconds_text(hidden)} hidden, "
        f"{seconds_text(exposed)} exposed"
    )


def percent_text(part: float, whole: float) -> str:
    """`part` of `whole` as "35.6 %"; "-" if there is no whole."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def change_text(value: float, before: float) -> str:
    """How much more or less than `before`, as "+8.0 %"."""
    if not before:
        return "-"
    change = 100 * (value / before - 1)
    return "unchanged" if value == before else f"{change:+.1f} %"


def plural(count: int, noun: str) -> str:
    """`plural(1, "operator")` is "1 operator", `plural(1200, "operator")` is "1,200 operators"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def escaped(name: str) -> str:
    """`name` in one line, with control characters, which files may hold, written as `\\x1b`."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", name)


def _three_digits(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{decimals}f}"
