"""Holding back Ctrl-C while something must not be left half done."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class DeferredInterrupt:
    """Within the block, SIGINT waits; what its handler does (raise KeyboardInterrupt) happens at
    the end of the block.

    Python runs signal handlers in the main thread only, so in any other thread there is nothing to
    hold back.
    """

    def __init__(self) -> None:
        self._handler: Any = None
        self._pending: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):  # neither ignored, nor the system's default, nor set outside Python
            self._handler = handler
            signal.signal(signal.SIGINT, self._remember)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self._pending = (number, frame)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._handler is None:
            return
        signal.signal(signal.SIGINT, self._handler)
        if self._pending is not None and error is None:
            self._handler(*self._pending)
