"""The optimized step: guards, plan cache, running a plan, gradients, hooks, buffers, generator,
comparison with eager.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magis.runtime.api import optimize
    from magis.runtime.frontier import Frontier
    from magis.runtime.frontier_api import find_frontier
    from magis.runtime.step import Step

__all__ = ["Frontier", "Step", "find_frontier", "optimize"]


def __getattr__(name: str) -> Any:
    # On first use: plan files and limits are read by commands that start without PyTorch.
    homes = {
        "Frontier": "magis.runtime.frontier",
        "Step": "magis.runtime.step",
        "find_frontier": "magis.runtime.frontier_api",
        "optimize": "magis.runtime.api",
    }
    if name not in homes:
        raise AttributeError(f"module 'magis.runtime' has no attribute {name!r}")
    value = getattr(importlib.import_module(homes[name]), name)
    globals()[name] = value
    return value
