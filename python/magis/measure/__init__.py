"""The real allocator: how many bytes a call takes above what was allocated when it started.

>>> from magis import measure
>>> measure.reexec_with_hook()                        # first thing in main: runs it under the hook
>>> measure.measure_peak(lambda: step(x)).peak_bytes
>>> measure.measure_kernels(lambda: step(x)).kernels  # kernel scratch apart, by operator
"""

from magis.measure.hook import (
    HookError,
    available,
    environment,
    library_path,
    reexec_with_hook,
    run_with_hook,
)
from magis.measure.peak import Kernel, KernelMeasurement, Measurement, measure_kernels, measure_peak

__all__ = [
    "HookError",
    "Kernel",
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
