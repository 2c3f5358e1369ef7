"""The search under a limit: what the limit comes to, whether it can be kept, the best plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from magis import _core
from magis.limits import Limit, MemoryLimit
from magis.report.text import bytes_text, seconds_text
from magis.runtime.auto_limit import room_now, room_of_profile, room_on_this_cpu
from magis.runtime.lower_bound import check_lower_bound
from magis.runtime.parts import search_with_parts_measured
from magis.runtime.progress import search_progress

if TYPE_CHECKING:
    from magis.runtime.refinement import Refinement

    Progress = Callable[[_core.Progress], bool]


@dataclass(frozen=True)
class Budget:
    """When the search ends, and the seed that it starts from."""

    seconds: float
    states: int  # 0: no bound
    seed: int
    threads: int
    memory: int  # bytes that states waiting to be looked at may take

    def keywords(self) -> dict[str, Any]:
        """For the core's searches."""
        return {
            "time_budget": self.seconds,
            "state_budget": self.states,
            "seed": self.seed,
            "threads": self.threads,
            "search_memory": self.memory,
        }


@dataclass(frozen=True)
class Method:
    """How the search goes about it; all but the strategy are the paper's ablations."""

    strategy: str = "default"  # or "paper"
    random_fission: bool = False
    naive_schedule_rules: bool = False
    max_level: int = 4


@dataclass(frozen=True)
class Rules:
    """Which kinds of change the search may make; `swap` is told by how much fits on the host."""

    fission: bool = True
    recompute: bool = True
    rewrite: bool = True  # operators into others that compute the same
    without_rules: tuple[str, ...] = ()  # rewrite rules, by name

    def keywords(self) -> dict[str, Any]:
        """For the core's searches."""
        return {**asdict(self), "without_rules": list(self.without_rules)}


@dataclass(frozen=True)
class Target:
    """A limit for one graph under one device profile."""

    text: str  # as the user gave it, and what it comes to
    keywords: dict[str, Any]  # for the core: memory_limit in bytes, or latency_limit in seconds
    baseline_seconds: float


def resolve(
    graph: _core.Graph,
    limit: Limit,
    profile: _core.Device,
    *,
    fission: bool = True,
    host_memory: int | None = None,
    host_on_disk: bool = False,
) -> Target:
    """What `limit` comes to; ratios refer to the captured graph in program order.

    Raises LimitError, quoting the certified lower bound and what dominates it, if no plan of this
    graph can keep a memory limit.
    """
    baseline = _core.Plan.program_order(graph).simulate(profile)
    given = str(limit)
    if isinstance(limit, MemoryLimit) and limit.auto:
        limit = limit.known(_room(graph, str(profile), 0 if host_on_disk else host_memory))
    target = target_of(limit, baseline.peak_bytes, baseline.seconds, given)
    if (most := target.keywords.get("memory_limit")) is not None:
        check_lower_bound(graph, profile, given, most, fission=fission, host_memory=host_memory)
    return target


def target_of(
    limit: Limit, baseline_peak_bytes: int, baseline_seconds: float, given: str | None = None
) -> Target:
    """What `limit` comes to, whether or not any plan can keep it. given: as the user wrote it."""
    given = given or str(limit)
    if isinstance(limit, MemoryLimit):
        most = limit.resolve(baseline_peak_bytes)
        return Target(f"{given} ({bytes_text(most)})", {"memory_limit": most}, baseline_seconds)
    seconds = limit.resolve(baseline_seconds)
    return Target(
        f"{given} ({seconds_text(seconds)})", {"latency_limit": seconds}, baseline_seconds
    )


def _room(graph: _core.Graph, profile: str, host_memory: int | None) -> int:
    """What "auto" comes to: of the device that `profile` describes, if it is here."""
    if profile == "cpu":
        return room_on_this_cpu(host_memory)
    if graph.device.startswith("cuda"):
        import torch

        from magis.runtime.planner import choose_profile

        here = torch.device("cuda")
        if torch.cuda.is_available() and choose_profile(None, here) == profile:
            return room_now(here, profile)
    return room_of_profile(profile)


def search(
    graph: _core.Graph,
    target: Target,
    profile: _core.Device,
    budget: Budget,
    *,
    rules: Rules,
    batch_parts: int,
    host_memory: int | None,
    method: Method,
    refinement: Refinement | None = None,
) -> _core.Result:
    """The best plan found, verified. Ctrl-C ends the search; the best plan so far comes back.

    refinement: measures what the best plans use, and has the search run again.

    Where the graph holds scratch measured on CPU, that of a plan's parts is measured here too.
    """

    def device() -> _core.Device:
        return profile if refinement is None else refinement.device

    def run(memory_limit: int | None) -> _core.Result:
        limit = target.keywords if memory_limit is None else {"memory_limit": memory_limit}
        with search_progress(budget.seconds, target.baseline_seconds) as progress:
            return _core.optimize(
                graph,
                device=device(),
                **budget.keywords(),
                **rules.keywords(),
                batch_parts=batch_parts,
                host_memory=host_memory,
                **asdict(method),
                progress=progress,
                **limit,
            )

    most = target.keywords.get("memory_limit")
    measured = has_measured_scratch(graph)

    def once() -> _core.Result:
        return search_with_parts_measured(run, device(), most) if measured else run(most)

    if refinement is None:
        result = once()
    else:
        result = refinement.refine(once, most, target.keywords.get("latency_limit"))
    result.plan.verify()
    return result


def has_measured_scratch(graph: _core.Graph) -> bool:
    """Whether the graph holds what CPU kernels took for themselves when it was captured."""
    return graph.device == "cpu" and " scratch " in graph.text()
