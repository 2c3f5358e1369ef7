"""What a user sees of the search: a line on the terminal, or calls of a function of theirs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from magis.report.text import bytes_text, change_text

if TYPE_CHECKING:
    from magis import _core

Callback = Callable[["_core.Progress"], Any]


class Listener:
    """The core's callback. What a user's function raises, Ctrl-C included, ends the search and is
    raised after it.
    """

    def __init__(self, show: Callback) -> None:
        self._show = show
        self.error: BaseException | None = None

    def __call__(self, progress: _core.Progress) -> bool:
        try:
            return self._show(progress) is not False
        except BaseException as error:
            self.error = error
            return False


@contextmanager
def listening(
    progress: Callback | None, time_budget: float, baseline_seconds: float
) -> Iterator[Listener]:
    """Yields the callback for the search: `progress` itself, or a bar on stderr if that is a
    terminal, or nothing seen.
    """
    if progress is not None:
        listener = Listener(progress)
        yield listener
    elif sys.stderr is not None and sys.stderr.isatty():
        with search_progress(time_budget, baseline_seconds) as show:
            listener = Listener(show)
            yield listener
    else:
        listener = Listener(lambda _: True)
        yield listener
    if listener.error is not None:
        raise listener.error


@contextmanager
def search_progress(
    time_budget: float, baseline_seconds: float
) -> Iterator[Callable[[_core.Progress], bool]]:
    """A callback for the search that shows the best plan, the speed and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: True
        return
    bar = Progress(
        BarColumn(bar_width=5), TextColumn("{task.description}"), console=console, transient=True
    )
    task = bar.add_task("searching", total=time_budget)

    def show(progress: _core.Progress) -> bool:
        bar.update(
            task,
            completed=min(progress.elapsed, time_budget),
            description=search_line(progress, time_budget, baseline_seconds),
        )
        return True

    with bar:
        yield show


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to be called with 1, 2, ... `total`: "measuring parts, 12 of 40" on stderr, if
    that is a terminal.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if total == 0 or not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda number: status.update(f"{what}, {number:,} of {total:,}")


def search_line(progress: _core.Progress, time_budget: float, baseline_seconds: float) -> str:
    """One line, as a rule of at most 74 columns: "best 42.10 MiB, bound 30.00 MiB, +8.0 % time,
    12,345 states/s, 32 s left"; "unmet" in place of "best" while the limit is not met.
    """
    speed = progress.states_evaluated / progress.elapsed if progress.elapsed > 0 else 0.0
    left = max(0.0, time_budget - progress.elapsed)
    best = f"{'best' if progress.met else 'unmet'} {bytes_text(progress.best_peak_bytes)}"
    bound = f"bound {bytes_text(progress.lower_bound_bytes)}"
    change = change_text(progress.best_seconds, baseline_seconds)
    time = "same time" if change == "unchanged" else f"{change} time"
    return f"{best}, {bound}, {time}, {speed:,.0f} states/s, {left:.0f} s left"
