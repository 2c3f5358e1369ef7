"""The optimized step: guards, plan cache, running a plan, gradients, hooks, buffers, generator,
comparison with eager.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magis.runtime.api import optimize
    from magis.runtime.step import Step

__all__ = ["Step", "optimize"]


def __getattr__(name: str) -> Any:
    # On first use: plan files and limits are read by commands that start without PyTorch.
    homes = {"Step": "magis.runtime.step", "optimize": "magis.runtime.api"}
    if name not in homes:
        raise AttributeError(f"module 'magis.runtime' has no attribute {name!r}")
    value = getattr(importlib.import_module(homes[name]), name)
    globals()[name] = value
    return value
