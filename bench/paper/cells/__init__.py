"""What the suite computes: cells, each in a process of its own, each kept as one file."""

from __future__ import annotations

from cells.cell import Cell, Figures
from cells.compute import KINDS, compute
from cells.store import Record, Store

__all__ = ["KINDS", "Cell", "Figures", "Record", "Store", "compute"]
