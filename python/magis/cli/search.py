"""The search under a limit: what the limit comes to, whether it can be kept, the best plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magis import _core
from magis.cli.progress import search_progress
from magis.errors import LimitError
from magis.limits import Limit, MemoryLimit
from magis.report.text import bytes_text, seconds_text

if TYPE_CHECKING:
    Progress = Callable[[_core.Progress], bool]


@dataclass(frozen=True)
class Budget:
    """When the search ends, and the seed that it starts from."""

    seconds: float
    states: int  # 0: no bound
    seed: int


@dataclass(frozen=True)
class Target:
    """A limit for one graph under one device profile."""

    text: str  # as the user gave it, and what it comes to
    keywords: dict[str, Any]  # for the core: memory_limit in bytes, or latency_limit in seconds
    baseline_seconds: float


def resolve(graph: _core.Graph, limit: Limit, profile: str) -> Target:
    """What `limit` comes to; ratios refer to the captured graph in program order.

    Raises LimitError, quoting the certified lower bound and what dominates it, if no plan of this
    graph can keep a memory limit.
    """
    baseline = _core.Plan.program_order(graph).simulate(profile)
    if not isinstance(limit, MemoryLimit):
        seconds = limit.resolve(baseline.seconds)
        text = f"{limit} ({seconds_text(seconds)})"
        return Target(text, {"latency_limit": seconds}, baseline.seconds)
    most = limit.resolve(baseline.peak_bytes)
    text = f"{limit} ({bytes_text(most)})"
    _check_lower_bound(graph, profile, text, most)
    return Target(text, {"memory_limit": most}, baseline.seconds)


def search(graph: _core.Graph, target: Target, profile: str, budget: Budget) -> _core.Result:
    """The best plan found, verified. Ctrl-C ends the search; the best plan so far comes back."""
    with search_progress(budget.seconds, target.baseline_seconds) as progress:
        result = _core.optimize(
            graph,
            device=profile,
            time_budget=budget.seconds,
            state_budget=budget.states,
            seed=budget.seed,
            progress=progress,
            **target.keywords,
        )
    result.plan.verify()
    return result


def _check_lower_bound(graph: _core.Graph, profile: str, text: str, most: int) -> None:
    # The bound comes with every result; the shortest search there is yields it.
    probe = _core.optimize(
        graph, device=profile, memory_limit=most, time_budget=0.0, state_budget=1
    )
    if most < probe.lower_bound_bytes:
        raise LimitError(
            f"{text} lies below the certified lower bound of {probe.lower_bound_bytes:,} bytes "
            f"({bytes_text(probe.lower_bound_bytes)}): no order and no recomputation of this graph "
            f"stays under it. {bytes_text(probe.persistent_bytes)} are there before the step "
            f"(parameters, buffers, batch); the rest is {probe.lower_bound_reason}. "
            "Give a higher limit, or capture a smaller batch"
        )
