"""Train networks that do not fit: the same PyTorch step, with a peak memory promised to the byte.

step = magis.optimize(model, loss_fn, (x, y), memory_limit="8GiB")
loss = step(x, y)
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from magis import capture, errors
    from magis.report import Report
    from magis.runtime import Frontier, Step, find_frontier, optimize
    from magis.torch_compile import backend

__all__ = [
    "Frontier",
    "Report",
    "Step",
    "__version__",
    "backend",
    "capture",
    "errors",
    "find_frontier",
    "optimize",
]

_SUPPORTED_TORCH = "2.13"

# Imported on first use: the command line starts without PyTorch.
_HOMES = {
    "Frontier": "magis.runtime",
    "Report": "magis.report",
    "Step": "magis.runtime",
    "backend": "magis.torch_compile",
    "find_frontier": "magis.runtime",
    "optimize": "magis.runtime",
}
_PACKAGES = {"capture", "errors"}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"magis.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'magis' has no attribute {name!r}")
    if _HOMES[name] in ("magis.runtime", "magis.torch_compile"):
        _check_torch()
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def _check_torch() -> None:
    """Warns, naming both versions, if this is not the PyTorch that magis is made for."""
    import torch

    if not torch.__version__.startswith(f"{_SUPPORTED_TORCH}."):
        warnings.warn(
            f"magis is made for torch {_SUPPORTED_TORCH}, this is torch {torch.__version__}: "
            "capture relies on interfaces that differ between versions, and may fail or be refused "
            "by the replay check",
            stacklevel=3,
        )
