"""Bytes, seconds and ratios as people read them. For display only, never parsed."""

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def printable(text: str, keep: str = "") -> str:
    """`text` with characters that nobody sees written as `\\x1b` or `\\u202e`, for names may hold
    any: what a terminal obeys, what turns the direction of writing or takes no room, line ends,
    halves of pairs. Those in `keep` stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _spelled(ord(c)) for c in text)


def _spelled(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


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


def part_bytes_text(count: int, parts: int) -> str:
    """The bytes of something that is there in `parts` parts, one after the other; 0: of some in so
    many and of some in others.
    """
    return bytes_text(count) + ("" if parts == 1 else " a part")


def plural(count: int, noun: str) -> str:
    """`plural(1, "operator")` is "1 operator", `plural(1200, "operator")` is "1,200 operators"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _three_digits(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{decimals}f}"
