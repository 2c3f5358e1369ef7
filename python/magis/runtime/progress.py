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
        with _bar(time_budget, baseline_seconds) as show:
            listener = Listener(show)
            yield listener
    else:
        listener = Listener(lambda _: True)
        yield listener
    if listener.error is not None:
        raise listener.error


@contextmanager
def _bar(time_budget: float, baseline_seconds: float) -> Iterator[Callback]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("magis"), BarColumn(bar_width=16), TextColumn("{task.description}"))
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("searching", total=time_budget)

    def show(progress: _core.Progress) -> bool:
        unmet = "" if progress.met else ", limit not met yet"
        bar.update(
            task,
            completed=min(progress.elapsed, time_budget),
            description=f"{bytes_text(progress.best_peak_bytes)}, "
            f"time {change_text(progress.best_seconds, baseline_seconds)}, "
            f"{progress.states_evaluated:,} states{unmet}",
        )
        return True

    with bar:
        yield show
