"""Results that are kept for the next call with the same arguments."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def remembered(function: Function) -> Function:
    """The last few results; let go of before the interpreter ends, as the core's objects have to
    be."""
    kept = lru_cache(maxsize=16)(function)
    atexit.register(kept.cache_clear)
    return kept  # type: ignore[return-value]
