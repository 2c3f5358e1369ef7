"""This package's own search, as it is and as the paper describes it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import magis._core as core
from planners.budgets import judged
from planners.planner import Outcome, Task


@dataclass(frozen=True)
class Search:
    name: ClassVar[str] = "magis"
    published: ClassVar[str] = "this package"
    simplified: ClassVar[str] = "Nothing: the search that `magis optimize` runs, on one thread."

    def plan(self, task: Task) -> Outcome:
        return searched(task, "default")


@dataclass(frozen=True)
class PaperSearch:
    name: ClassVar[str] = "magis-paper"
    published: ClassVar[str] = "Chen et al. (MAGIS), ASPLOS 2024"
    simplified: ClassVar[str] = (
        "Our engine restricted to the paper's algorithm: its fission tree, schedule rules at"
        " hotspots, incremental scheduling and best-first search over single edits, with this"
        " package's rewrite rules, its placement of copies and its accounting. Candidates of the"
        " tree that cost more than splitting in two saves are left out."
    )

    def plan(self, task: Task) -> Outcome:
        return searched(task, "paper")


def searched(task: Task, strategy: str) -> Outcome:
    began = time.monotonic()
    result = core.optimize(
        task.graph,
        device=task.device,
        memory_limit=task.memory_limit,
        latency_limit=task.latency_limit,
        time_budget=task.seconds,
        seed=task.seed,
        strategy=strategy,
    )
    note = (
        f"{result.regions} regions, {result.recomputed} operators again, {result.swapped} swaps,"
        f" {result.states_evaluated:,} states"
    )
    return judged(task, result.plan, time.monotonic() - began, note)
