"""How many threads the search runs on."""

from __future__ import annotations

import os

from magis.errors import MagisError

USEFUL = 4  # the search goes in batches of so many
MOST = 1024


def choose_threads(threads: int | None) -> int:
    """`threads`, or where it is None as many as this process has processors, as far as they help.

    Raises MagisError if it is no number of threads.
    """
    if threads is None:
        return min(USEFUL, len(os.sched_getaffinity(0)))
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST:
        raise MagisError(f"threads={threads!r} must be a whole number between 1 and {MOST}")
    return threads
