"""Where the memory goes and what was done about it. Free of PyTorch."""

from magis.report.memory import MemoryReport
from magis.report.report import Report

__all__ = ["MemoryReport", "Report"]
