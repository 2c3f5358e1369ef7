"""Repetitions, with a clock that says what the test wants."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
import torch

from magis.timing.calls import Prepared, read_call
from magis.timing.measuring import measure, most_valuable_first
from magis.timing.stopwatch import CpuClock, Stopwatch, Timing

CPU = torch.device("cpu")
ADD = "aten.add.Tensor(%0, %0) over 0 : f32[4] of f32[4]"


class FakeClock:
    """Says these seconds for one run, in turn."""

    def __init__(self, *seconds: float, least_sample: float = 0.0) -> None:
        self._seconds = cycle(seconds)
        self.least_sample = least_sample
        self.runs: list[Callable[[], Any]] = []

    def seconds(self, run: Callable[[], Any], count: int, held: list[Any]) -> float:
        for _ in range(count):
            held[0] = run()
        self.runs += [run] * count
        return next(self._seconds) * count


def prepared(key: str) -> Prepared:
    return read_call(key).prepare(CPU, torch.Generator())


def time_with(clock: FakeClock, budget: float = 10.0) -> Timing:
    (timing,) = Stopwatch(CPU, clock).time([prepared(ADD)], budget)
    return timing


def test_steady_times_need_few_samples() -> None:
    timing = time_with(FakeClock(0.5))
    assert timing == Timing(0.5, 0.0, 5)


def test_a_spread_asks_for_more_samples() -> None:
    timing = time_with(FakeClock(1.0, 1.1, 0.9))
    assert timing.median == pytest.approx(1.0)
    assert timing.samples > 50


def test_the_budget_ends_sampling() -> None:
    assert time_with(FakeClock(1.0, 1.1, 0.9), budget=0.0).samples <= 5


def test_what_is_shorter_than_the_clock_can_tell_runs_in_a_row() -> None:
    clock = FakeClock(1e-7, least_sample=5e-6)
    assert time_with(clock).median == pytest.approx(1e-7)
    assert len(clock.runs) >= 2 + 5 * 50  # 5 us a sample
    clock = FakeClock(1e-7)
    time_with(clock)
    assert len(clock.runs) == 2 + 5


def test_calls_take_turns() -> None:
    calls = [prepared(ADD) for _ in range(3)]
    clock = FakeClock(1.0)
    timings = Stopwatch(CPU, clock).time(calls, 10.0)
    assert [timing.samples for timing in timings] == [5, 5, 5]
    order = [[call.run for call in calls].index(run) for run in clock.runs]
    assert order == [0, 0, 1, 1, 2, 2, *([0, 1, 2] * 5)]


def test_all_are_run_until_the_last_is_steady() -> None:
    # Of two calls in turns the first takes 1 and the second 1, 1.1 or 0.9.
    clock = FakeClock(1.0, 1.0, 1.0, 1.1, 1.0, 0.9)
    steady, other = Stopwatch(CPU, clock).time([prepared(ADD), prepared(ADD)], 10.0)
    assert steady.samples == other.samples > 50
    assert (steady.median, steady.spread) == (1.0, 0.0)


def test_a_result_is_kept_until_the_call_runs_again() -> None:
    kept: list[Any] = []

    class Watching(FakeClock):
        def seconds(self, run: Callable[[], Any], count: int, held: list[Any]) -> float:
            before = held[0]
            kept.append(before is not None)
            return super().seconds(run, count, held)

    clock = Watching(1.0)
    Stopwatch(CPU, clock).time([prepared("aten.relu(%0) : f32[4] of f32[4]")] * 2, 10.0)
    # Each has nothing to give back when it runs for the first time.
    assert kept[:4] == [False, True, False, True]
    assert all(kept[4:])


def test_one_slow_sample_does_not_count() -> None:
    assert time_with(FakeClock(1.0, 1.0, 1.0, 1.0, 50.0)).median == 1.0


def test_a_longer_call_takes_longer() -> None:
    torch.set_num_threads(1)
    seconds = []
    for n in (256, 1024):
        call = read_call(f"aten.mm(%0, %0) : f32[{n},{n}] of f32[{n},{n}]")
        (timing,) = Stopwatch(CPU, CpuClock()).time([call.prepare(CPU, torch.Generator())], 0.3)
        seconds.append(timing.median)
    assert 16 < seconds[1] / seconds[0] < 256  # 64 times the arithmetic


def test_a_call_that_fails_is_noted_and_the_others_are_measured() -> None:
    before = torch.get_rng_state()
    keys = [
        "aten.mm(%0, %1) : f32[2,2] of f32[2,3], f32[2,2]",
        "aten.nothing(%0) : f32[2] of f32[2]",
    ]
    keys += ["nonsense", "magis.bernoulli([4], [1], 0.5, dtype=torch.float32) : f32[4]"]
    found = measure(keys, CPU, 5.0, free_bytes=1 << 30)
    assert list(found.entries) == keys
    assert set(found.failures) == set(keys[:3])
    assert "shapes cannot be multiplied" in found.failures[keys[0]]
    assert found.entries[keys[3]].seconds > 0
    assert torch.equal(before, torch.get_rng_state())


def test_a_call_without_room_is_noted() -> None:
    key = "aten.relu(%0) : f32[1000,1000] of f32[1000,1000]"
    found = measure([key], CPU, 5.0, free_bytes=1 << 20)
    assert "do not fit" in found.failures[key]


def test_workspace_is_measured() -> None:
    # Summing over a strided dimension of another dtype makes a float copy of its own.
    key = "aten.mean.dim(%0, [0,2], false) : bf16[8] of bf16[64,8,64]"
    whole = "aten.mm(%0, %0) : f32[64,64] of f32[64,64]"
    found = measure([key, whole], CPU, 5.0, free_bytes=1 << 30)
    assert found.entries[whole].workspace == 0


def test_no_budget_measures_nothing() -> None:
    found = measure([ADD], CPU, 0.0, free_bytes=1 << 30)
    assert found.entries == {}
    assert found.left == 1


class Count:
    def __init__(self, key: str, runs: float, seconds: float, measured: bool = False) -> None:
        self.key, self.runs, self.seconds, self.measured = key, runs, seconds, measured


def test_the_most_valuable_come_first() -> None:
    calls: list[Any] = [
        Count("a", 1, 2),
        Count("b", 3, 1),
        Count("c", 9, 9, True),
        Count("d", 1, 2),
    ]
    assert [call.key for call in most_valuable_first(calls)] == ["b", "a", "d"]
