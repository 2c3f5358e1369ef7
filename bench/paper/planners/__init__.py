"""All planners behind one interface, by the names under which they are chosen."""

from __future__ import annotations

from planners.planner import Outcome, Planner, Task

PLANNERS: dict[str, Planner] = {}
"""In the paper's order."""

__all__ = ["PLANNERS", "Outcome", "Planner", "Task"]
