"""What a planner is given, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import magis._core as core


@dataclass(frozen=True)
class Task:
    """Exactly one limit is set: least time under a memory limit, or least memory under a latency
    limit."""

    graph: core.Graph
    device: core.Device
    memory_limit: int | None = None  # bytes, persistent included
    latency_limit: float | None = None  # seconds of a step
    seconds: float = 10.0  # budget of one core
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.memory_limit is None) == (self.latency_limit is None):
            raise ValueError("a task has either a memory_limit or a latency_limit")


@dataclass(frozen=True)
class Outcome:
    """Peak and seconds are those of plan.simulate(device), never the planner's own figures. Where
    the limit was not met, the plan is the one that came nearest to it."""

    plan: core.Plan | None  # None: none was found
    peak_bytes: int
    seconds: float
    met: bool
    wall_seconds: float
    note: str


class Planner(Protocol):
    name: str
    published: str  # authors, venue, year
    simplified: str  # against the publication

    def plan(self, task: Task) -> Outcome: ...
