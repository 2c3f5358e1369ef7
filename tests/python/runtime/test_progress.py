"""The line that a search shows on a terminal."""

from dataclasses import dataclass

from magis.runtime.progress import search_line


@dataclass
class Progress:
    """As the core's, which only a search can make."""

    best_peak_bytes: int = 42 * 2**20
    best_seconds: float = 1.08
    met: bool = True
    states_scored: int = 0
    states_evaluated: int = 24_690
    elapsed: float = 2.0
    lower_bound_bytes: int = 30 * 2**20


def test_best_plan_speed_and_time_left() -> None:
    line = search_line(Progress(), 34.0, 1.0)  # type: ignore[arg-type]
    assert line == "best 42.00 MiB, bound 30.00 MiB, +8.0 % time, 12,345 states/s, 32 s left"


def test_a_limit_that_is_not_met_yet() -> None:
    line = search_line(Progress(met=False, elapsed=0.0), 10.0, 1.0)  # type: ignore[arg-type]
    assert line == "unmet 42.00 MiB, bound 30.00 MiB, +8.0 % time, 0 states/s, 10 s left"


def test_the_time_left_is_never_negative() -> None:
    line = search_line(Progress(elapsed=12.0), 10.0, 1.0)  # type: ignore[arg-type]
    assert line.endswith(", 0 s left")
