"""The model fitted to measurements, and profiles that users write."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from magis import _core
from magis.errors import MagisError
from magis.timing.calibration import calibrate, fit_calls
from magis.timing.entries import Entry
from magis.timing.user_profile import read_profile

GRAPH = """magis 1
device cpu
batch %x "x" : f32[64,64]
%a = aten.mm(%x, %x) : f32[64,64]
%b = aten.sin(%a) : f32[64,64]
output loss "" %b
"""
MM = "aten.mm(%0, %0) : f32[64,64] of f32[64,64]"


def test_a_straight_line_in_logarithms_is_found() -> None:
    sizes = [10.0**n for n in range(-6, 2)]
    fits = fit_calls([("aten.mm", s, 3 * s**1.2) for s in sizes])
    fit = fits["aten.mm"]
    for size in sizes[1:-1]:
        assert fit.scale * size**fit.exponent == pytest.approx(3 * size**1.2, rel=0.06)


def test_odd_calls_count_little() -> None:
    noise = random.Random(0)
    calls = [("aten.mm", 10**-n, 2 * 10**-n * math.exp(noise.gauss(0, 0.02))) for n in range(1, 9)]
    calls += [("aten.mm", 1e-4, 1.0), ("aten.mm", 1e-5, 1.0)]
    fit = fit_calls(calls)["aten.mm"]
    assert fit.scale * 1e-3**fit.exponent == pytest.approx(2e-3, rel=0.15)


def test_few_calls_keep_the_slope_near_one() -> None:
    fit = fit_calls([("aten.mm", 1e-3, 1e-3), ("aten.mm", 2e-3, 6e-3)])["aten.mm"]
    assert 1.0 <= fit.exponent < 1.3


def test_operators_without_calls_take_the_median_of_all() -> None:
    fits = fit_calls([("a", 1.0, 2.0), ("a", 2.0, 4.0), ("b", 1.0, 2.0)])
    assert "b" not in fits
    assert fits[""].scale == pytest.approx(2.0)
    assert fit_calls([]) == {}


def test_modelled_times_follow_the_calibration_measured_ones_do_not() -> None:
    plan = _core.Plan.program_order(_core.Graph.parse(GRAPH))
    before = {call.key: call.seconds for call in plan.calls("cpu")}
    device = _core.DeviceProfile.named("cpu").with_calibration({"aten.sin": (2.0, 1.0), "": (3, 1)})
    after = {call.key: call.seconds for call in plan.calls(device)}
    assert after[MM] == pytest.approx(3 * before[MM])
    (sine,) = set(before) - {MM}
    assert after[sine] == pytest.approx(2 * before[sine])
    timed = device.with_times(_core.MeasuredTimes.of([(MM, 0.5)]))
    assert plan.simulate(timed).seconds == pytest.approx(0.5 + after[sine])


def test_calibrating_brings_the_model_to_what_was_measured() -> None:
    shapes = [(n, f"aten.sin(%0) : f32[{n}] of f32[{n}]") for n in (1000, 10_000, 100_000)]
    entries = {key: Entry(4e-9 * n, 0.0, 5, 0) for n, key in shapes}
    entries["aten.cos(%0) : f32[8] of f32[8]"] = Entry(0.0, 0.0, 0, 0, failure="no")
    fits = calibrate(entries, "cpu")
    assert fits["aten.sin"].calls == 3
    assert fits[""].calls == 3


@pytest.mark.parametrize("fit", [(0.0, 1.0), (-1.0, 1.0), (float("nan"), 1.0), (1.0, 0.0)])
def test_a_calibration_that_makes_no_sense_is_refused(fit: tuple[float, float]) -> None:
    with pytest.raises(MagisError, match="not usable"):
        _core.DeviceProfile.named("cpu").with_calibration({"aten.mm": fit})


FILE = """
name = "mine"
flops_per_second = 1e12
half_flops_per_second = 2e12
bytes_per_second = 1e9
launch_seconds = 1e-6
memory_bytes = 8e9
allocation_bytes = 512
"""


def test_a_profile_that_a_user_wrote(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    device = read_profile(path)
    assert str(device) == "mine"
    assert _core.device_memory(device) == 8_000_000_000
    plan = _core.Plan.program_order(_core.Graph.parse(GRAPH))
    # 2 * 64^3 operations at 1e12, 2 * 16384 bytes at 1e9; the sine moves 32768 bytes.
    assert plan.simulate(device).seconds == pytest.approx(2 * (1e-6 + 32768e-9))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("name", "nom"), "name = None must be a word"),
        (('"mine"', '"a100"'), "built-in"),
        (("launch_seconds", "lunch"), "launch_seconds is missing"),
        (("memory_bytes", "memory"), "memory is not known; the figures are allocation_bytes"),
        (("= 1e9", "= -1"), "bytes_per_second = -1 must be a number"),
        (("= 1e9", "= 0"), "bytes_per_second must be more than 0"),
        (("= 1e9", '= "fast"'), "bytes_per_second = 'fast'"),
        (("= 1e9", "= = "), "line 5"),
    ],
)
def test_what_is_wrong_with_it_is_said(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE.replace(*change))
    with pytest.raises(MagisError, match=message):
        read_profile(path)
