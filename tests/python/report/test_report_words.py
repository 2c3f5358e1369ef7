"""How bytes, seconds and ratios are written for people."""

import pytest

from magis.report.text import bytes_text, change_text, percent_text, plural, seconds_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (1024**2 - 1, "1.00 MiB"),  # 1024.00 KiB after rounding
        (8 * 1024**3, "8.00 GiB"),
        (105 * 1024**4, "105.00 TiB"),
        (-1536, "-1.50 KiB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (5e-6, "5.00 us"),
        (12.34e-6, "12.3 us"),
        (0.0123, "12.3 ms"),
        (0.123, "123 ms"),
        (1.5, "1.50 s"),
        (6532.4, "6,532 s"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_shares_and_changes() -> None:
    assert percent_text(1, 3) == "33.3 %"
    assert percent_text(1, 0) == "-"
    assert change_text(1.08, 1.0) == "+8.0 %"
    assert change_text(0.9, 1.0) == "-10.0 %"
    assert change_text(1.0, 1.0) == "unchanged"
    assert change_text(1.0, 0.0) == "-"


def test_plurals() -> None:
    assert plural(1, "operator") == "1 operator"
    assert plural(1200, "operator") == "1,200 operators"
