"""What may be written as a limit, and what it comes to."""

from __future__ import annotations

import numpy as np
import pytest

from magis.errors import LimitError
from magis.limits import LatencyLimit, MemoryLimit, parse_limit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (8589934592, 8589934592),
        (np.int64(4096), 4096),
        ("8GiB", 8 << 30),
        ("8 GiB", 8 << 30),
        ("8 GB", 8_000_000_000),
        ("512MB", 512_000_000),
        ("1.5 kib", 1536),
        (" 3 tb ", 3_000_000_000_000),
        ("4096", 4096),
        ("4096 B", 4096),
        ("0.1GB", 100_000_000),
        ("1.1 TB", 1_100_000_000_000),
    ],
)
def test_absolute_memory_limits_do_not_depend_on_the_baseline(text, expected):
    assert MemoryLimit.parse(text).resolve(baseline_peak_bytes=7) == expected


@pytest.mark.parametrize("ratio", [0.4, "40%", "40 %", "40.0%", np.float32(0.4)])
def test_memory_ratios_are_of_the_baselines_peak(ratio):
    assert MemoryLimit.parse(ratio).resolve(baseline_peak_bytes=1001) == 400


@pytest.mark.parametrize(
    "value",
    [
        *[
            "8 GB ish",
            "lots",
            "",
            "GB",
            "8 Gb/s",
            "-8GB",
            "1e9",
            "40%%",
            "8.5",
            "8.5 B",
            "150%",
            "0%",
        ],
        *[1.5, 8e9, float("nan"), True, None, [8], 0.0, -0.1],
    ],
)
def test_what_is_no_memory_limit_is_refused_with_the_accepted_forms(value):
    with pytest.raises(LimitError, match=r'"8GiB".*"40%"'):
        MemoryLimit.parse(value)


@pytest.mark.parametrize("value", [0, -1, "0", "0GB"])
def test_a_memory_limit_of_nothing_is_refused(value):
    with pytest.raises(LimitError, match="must be positive"):
        MemoryLimit.parse(value)


@pytest.mark.parametrize(
    ("value", "expected"), [(1.1, 1.1), (1, 1.0), ("10%", 1.1), ("0 %", 1.0), (2, 2.0)]
)
def test_latency_limits_are_multiples_of_the_baselines_time(value, expected):
    assert LatencyLimit.parse(value).resolve(baseline_seconds=10.0) == pytest.approx(
        10 * expected, rel=1e-5
    )


@pytest.mark.parametrize(
    "value", [0.9, 0, -1, "fast", "1.1", "10", float("inf"), float("nan"), True, None]
)
def test_what_is_no_latency_limit_is_refused_with_the_accepted_forms(value):
    with pytest.raises(LimitError, match=r'1\.1.*"10%"'):
        LatencyLimit.parse(value)


@pytest.mark.parametrize(
    "value",
    [
        *["8388608TiB", 2**63, 10**30, "9" * 30, "9" * 5000, "9" * 400 + ".5GB"],
        pytest.param(10**5000, id="more digits than Python writes"),
    ],
)
def test_a_memory_limit_beyond_any_memory_is_refused(value):
    with pytest.raises(LimitError, match=r"is larger than any memory.*8GiB") as error:
        MemoryLimit.parse(value)
    assert len(str(error.value)) < 500


def test_the_largest_memory_limits_are_exact():
    assert MemoryLimit.parse(2**63 - 1).bytes == 2**63 - 1
    assert MemoryLimit.parse(str(2**63 - 1)).bytes == 2**63 - 1
    assert MemoryLimit.parse("0" * 5000 + "8GiB").bytes == 8 << 30
    assert MemoryLimit.parse("1.5" + "0" * 5000 + "KiB").bytes == 1536
    # A byte is 2^-40 TiB, which has 40 decimals.
    assert MemoryLimit.parse("0.0000000000009094947017729282379150390625 TiB").bytes == 1


@pytest.mark.parametrize("value", ["101%", "0%", 1.5, -0.1, float("inf"), "9" * 400 + "%"])
def test_a_share_that_is_out_of_range_is_told_from_one_that_is_not_understood(value):
    with pytest.raises(LimitError, match=r"is out of range: a share lies above 0"):
        MemoryLimit.parse(value)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "9" * 400 + "%", 10**400])
def test_a_latency_limit_that_is_not_finite_is_refused(value):
    with pytest.raises(LimitError, match="is not a finite number"):
        LatencyLimit.parse(value)


def test_a_huge_latency_limit_fits_what_the_core_counts_in():
    assert LatencyLimit.parse(1e308).resolve(100.0) == pytest.approx(1e6)
    assert LatencyLimit.parse("9" * 300 + "%").resolve(1e-3) == pytest.approx(1e6)
    assert LatencyLimit.parse(2).resolve(1e7) == pytest.approx(1e7)


def test_only_one_limit_may_be_given():
    with pytest.raises(LimitError, match="both a memory limit and a latency limit"):
        parse_limit(memory_limit="8GiB", latency_limit=1.1)


def test_without_a_limit_the_step_may_not_get_slower_and_says_so():
    limit = parse_limit()
    assert isinstance(limit, LatencyLimit)
    assert 3.0 < limit.resolve(3.0) < 3.0001
    assert str(limit) == "none given: the least memory at no more time than the baseline"


def test_limits_read_as_what_they_mean():
    assert str(parse_limit(memory_limit="8KiB")) == "memory at most 8,192 bytes"
    assert str(parse_limit(memory_limit=0.4)) == "memory at most 40 % of the baseline's peak"
    assert str(parse_limit(latency_limit="10%")) == "time at most 1.1 times the baseline's"
