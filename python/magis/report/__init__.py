"""Where the memory goes and what was done about it. Free of PyTorch."""

from magis.report.explanation import explain
from magis.report.explanation_words import Explanation
from magis.report.memory import MemoryReport
from magis.report.report import Report

__all__ = ["Explanation", "MemoryReport", "Report", "explain"]
