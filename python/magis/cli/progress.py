"""Signs of life during long work: on stderr, and only if that is a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """Shows `text` with a spinner while the block runs."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        yield
