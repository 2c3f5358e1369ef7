"""The real allocator: how many bytes a call takes above what was allocated when it started.

>>> from magis import measure
>>> measure.reexec_with_hook()                        # first thing in main: runs it under the hook
>>> measure.measure_peak(lambda: step(x)).peak_bytes
>>> measure.measure_kernels(lambda: step(x)).kernels  # kernel scratch apart, by operator
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from magis.measure.hook import (
    HookError,
    available,
    environment,
    library_path,
    reexec_with_hook,
    run_with_hook,
)

if TYPE_CHECKING:
    from magis.measure.peak import (
        Kernel,
        KernelLog,
        KernelMeasurement,
        Measurement,
        measure_kernels,
        measure_peak,
    )

__all__ = [
    "HookError",
    "Kernel",
    "KernelLog",
    "KernelMeasurement",
    "Measurement",
    "available",
    "environment",
    "library_path",
    "measure_kernels",
    "measure_peak",
    "reexec_with_hook",
    "run_with_hook",
]


def __getattr__(name: str) -> Any:
    """What needs PyTorch is imported on first use: a process that restarts imports it once."""
    if name not in __all__:
        raise AttributeError(f"module 'magis.measure' has no attribute {name!r}")
    return getattr(importlib.import_module("magis.measure.peak"), name)
