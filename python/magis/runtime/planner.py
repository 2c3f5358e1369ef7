"""From a captured graph to a plan: the limit in bytes or seconds, the search, and what the user
must hear about it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from magis import _core
from magis.errors import LimitNotMetError, MagisError, PlanError
from magis.limits import Limit, MemoryLimit
from magis.report import Report
from magis.report.found import Found
from magis.report.text import bytes_text
from magis.runtime.auto_limit import is_auto
from magis.runtime.frontier import Frontier, FrontierPoint
from magis.runtime.parts import search_with_parts_measured
from magis.runtime.plan_store import KeptPlan, PlanStore, Request, kept_plan, kept_text
from magis.runtime.progress import Callback, listening
from magis.runtime.refinement import Refinement
from magis.runtime.replicas import Replicas
from magis.verify import verify_plan

Strategy: TypeAlias = Literal["default", "paper"]
"""How plans are searched for: by magis's own search, or as the MAGIS paper describes it."""


@dataclass(frozen=True)
class SearchSettings:
    """What the user asked of the search."""

    limit: Limit
    profile: str  # device profile that times come from
    time_budget: float  # seconds
    strict: bool
    seed: int
    threads: int
    progress: Callback | None
    exact: bool = False  # bit for bit as eager
    batch_parts: int = 0  # in how many parts the batch runs; 0: as the search decides
    host_memory: int | None = None  # bytes that may be kept there; None: what the profile says
    strategy: Strategy = "default"
    rewrite: bool = True  # operators may be replaced by others that compute the same
    frontier: Frontier | None = None  # whose plans are taken where they fit, in place of a search
    refinement: Refinement | None = None  # measures times; None: all come from the profile
    store: PlanStore | None = None  # of plans from earlier runs
    time_bound: bool = False  # reports say how fast a plan can be at all
    validate: int = 0  # plans that are run, to take the one that is best in truth; 0: none is

    @property
    def device(self) -> _core.Device:
        """The profile, with the times that have been measured by now."""
        return self.profile if self.refinement is None else self.refinement.device

    def request(self, graph: _core.Graph, bound: Bound, alter: bool) -> Request:
        """What a plan for this graph is kept under."""
        asked: dict[str, Any] = {
            "profile": self.profile,
            "measure": None if self.refinement is None else self.refinement.budget,
            "seed": self.seed,
            "exact": self.exact,
            "batch_parts": self.batch_parts,
            "strategy": self.strategy,
            "rewrite": self.rewrite,
            "alter": alter,
            "torch": torch.__version__,
        }
        return Request(
            *(graph.text(), tuple(asked.items()), bound.memory_bytes, bound.seconds),
            time_budget=self.time_budget,
            host_memory=self.host_memory,
        )

    def has_plans_for(self, graph: _core.Graph) -> bool:
        return self.frontier is not None and self.frontier.holds(graph)


@dataclass(frozen=True)
class Bound:
    """The user's limit, for one graph: exactly one is set."""

    memory_bytes: int | None = None
    seconds: float | None = None

    def keywords(self) -> dict[str, Any]:
        return {"memory_limit": self.memory_bytes, "latency_limit": self.seconds}


def choose_profile(wanted: str | None, device: torch.device) -> str:
    """The profile asked for, or the one that fits the device. Raises MagisError naming all if there
    is none of that name.
    """
    known = _core.device_profiles()
    if wanted is not None:
        if wanted not in known:
            raise MagisError(f"unknown device {wanted!r}; choose one of {', '.join(known)}")
        return wanted
    if device.type != "cuda" or not torch.cuda.is_available():
        return "cpu" if device.type == "cpu" else "reference"
    name = torch.cuda.get_device_name(device)
    squeezed = name.lower().replace(" ", "")
    # "h200" before "h100" and so on: the longest name that fits.
    for profile in sorted(known, key=len, reverse=True):
        if profile in squeezed:
            return profile
    warnings.warn(
        f'there is no profile for {name!r}; times are estimated with "reference", memory is exact '
        "all the same "
        f"(device=... chooses another: {', '.join(known)})",
        stacklevel=4,
    )
    return "reference"


def baseline_of(graph: _core.Graph, profile: _core.Device) -> _core.Simulation:
    """The captured graph as it is, in program order."""
    return _core.Plan.program_order(graph).simulate(profile)


def bound_for(
    limit: Limit,
    baseline: _core.Simulation,
    measured_peak_bytes: int | None = None,
    baseline_seconds: float | None = None,
) -> Bound:
    """The limit in bytes or seconds. Ratios of memory refer to eager's measured peak if it is
    known, ratios of time to `baseline_seconds` if they are given.
    """
    if isinstance(limit, MemoryLimit):
        return Bound(memory_bytes=limit.resolve(measured_peak_bytes or baseline.peak_bytes))
    return Bound(seconds=limit.resolve(baseline_seconds or baseline.seconds))


def bound_for_accumulation(settings: SearchSettings, bound: Bound, graph: _core.Graph) -> Bound:
    """`bound`, for the step `graph` that adds into gradients which are there already.

    They count as persistent, and adding takes time: ratios refer to this graph where that is more.
    """
    own = bound_for(settings.limit, baseline_of(graph, settings.device))
    if own.memory_bytes is None or bound.memory_bytes is None or is_auto(settings.limit):
        return own
    return Bound(memory_bytes=max(own.memory_bytes, bound.memory_bytes))


def search(
    graph: _core.Graph,
    settings: SearchSettings,
    bound: Bound,
    *,
    measured_on: torch.device,
    alter: bool = True,
    replicas: Replicas | None = None,
    which: str = "",
) -> Found:
    """The best plan found, or known from a frontier, verified. Raises LimitNotMetError if it does
    not keep the limit and that was asked for.

    measured_on: the device whose kernels' scratch the graph holds. On CPU it is measured anew for
    the parts of regions; a plan that the measurement pushes over the limit is searched for again.
    alter: the graph may become another one: regions run in parts, operators are rewritten.
    replicas: processes that all call this at the same time: where all have the same graph, the
    slowest plans for all.
    which: of a step's plans, for messages; "": it has one.
    """

    def alone() -> Found:
        return _search_alone(graph, settings, bound, measured_on, alter)

    request = settings.request(graph, bound, alter)
    planner = None
    if replicas is not None:
        seconds = baseline_of(graph, settings.device).seconds
        planner = replicas.planner(request.group, bound.memory_bytes, seconds)
    if replicas is None or planner is None:
        result = alone()
    else:

        def text() -> str:
            found = alone()
            return kept_text(request, found, _report(found, settings, bound))

        name = f"the plan of process {planner}"
        result = kept_plan(replicas.made_by(planner, text), name, graph, request)
        _verify(result, settings)
    if not result.met and settings.strict:
        raise LimitNotMetError(_not_met(result, settings, bound, which))
    return result


def _search_alone(
    graph: _core.Graph,
    settings: SearchSettings,
    bound: Bound,
    measured_on: torch.device,
    alter: bool,
) -> Found:
    def run(memory_limit: int | None) -> _core.Result:
        aim = Bound(memory_bytes=memory_limit, seconds=bound.seconds)
        return _optimize(graph, settings, aim, alter)

    def once() -> _core.Result:
        if measured_on.type == "cpu":
            return search_with_parts_measured(run, settings.device, bound.memory_bytes)
        return run(bound.memory_bytes)

    def searched() -> Found:
        if settings.refinement is None:
            return once()
        return settings.refinement.refine(once, bound.memory_bytes, bound.seconds)

    request = settings.request(graph, bound, alter)
    kept = _kept(request, graph, settings)
    known = _known(graph, settings, bound, alter)
    result: Found = kept or known or searched()
    if kept is None:
        _verify(result, settings)
    if kept is None and known is None and settings.store is not None:
        settings.store.keep(request, result, _report(result, settings, bound))
    return result


def _kept(request: Request, graph: _core.Graph, settings: SearchSettings) -> KeptPlan | None:
    """The plan of an earlier run, if there is one that serves and is what it says."""
    if settings.store is None or settings.has_plans_for(graph):
        return None
    plan = settings.store.find(request, graph)
    if plan is None:
        return None
    try:
        _verify(plan, settings)
    except PlanError as error:
        settings.store.drop(Path(plan.name), str(error))
        return None
    return plan


def _report(result: Found, settings: SearchSettings, bound: Bound) -> Report:
    return Report.build(
        result,
        device=settings.device,
        limit_text=str(settings.limit),
        limit_bytes=bound.memory_bytes,
        replayed="not replayed yet",
        times="" if settings.refinement is None else settings.refinement.words(result.plan),
    )


def _known(
    graph: _core.Graph, settings: SearchSettings, bound: Bound, alter: bool
) -> FrontierPoint | None:
    """The best plan of the user's frontier, or the nearest; None if it has none for this graph, or
    no good one on the graph as it is where such is wanted.
    """
    if settings.frontier is None or not settings.has_plans_for(graph):
        return None
    host = settings.host_memory
    point = settings.frontier.nearest(
        bound.memory_bytes,
        bound.seconds,
        most_on_host=_core.host_memory(settings.profile) if host is None else host,
        alter=alter,
    )
    return point if point is not None and (alter or point.met) else None


def _optimize(
    graph: _core.Graph, settings: SearchSettings, bound: Bound, alter: bool
) -> _core.Result:
    baseline = baseline_of(graph, settings.device)
    with listening(settings.progress, settings.time_budget, baseline.seconds) as listener:
        return _core.optimize(
            graph,
            device=settings.device,
            time_budget=settings.time_budget,
            seed=settings.seed,
            threads=settings.threads,
            fission=alter,
            rewrite=alter and settings.rewrite,
            exact=settings.exact,
            batch_parts=settings.batch_parts if alter else 0,
            host_memory=settings.host_memory,
            strategy=settings.strategy,
            progress=listener,
            **bound.keywords(),
        )


def _verify(result: Found, settings: SearchSettings) -> None:
    """Holds the plan to the graph and its promise to an independent count. Raises PlanError."""
    facts = verify_plan(result.plan.text(), device=settings.profile)
    if facts.peak_bytes != result.peak_bytes:
        raise PlanError(
            f"the plan promises {result.peak_bytes:,} bytes, an independent count comes to "
            f"{facts.peak_bytes:,} "
            f"(at {facts.peak_statement}); this is a bug in magis"
        )
    if facts.host_peak_bytes > result.host_bytes:
        raise PlanError(
            f"the plan promises {result.host_bytes:,} bytes on the host, an independent count "
            f"comes to {facts.host_peak_bytes:,}; this is a bug in magis"
        )


def tell_not_met(
    result: Found, settings: SearchSettings, bound: Bound, stacklevel: int, which: str = ""
) -> None:
    """Warns if the plan (`which` of a step's plans) does not keep the limit."""
    if not result.met:
        warnings.warn(_not_met(result, settings, bound, which), stacklevel=stacklevel + 1)


def tell_nothing_gained(
    result: Found,
    settings: SearchSettings,
    baseline_peak_bytes: int,
    stacklevel: int,
    which: str = "",
) -> None:
    """Warns if the plan (`which` of a step's plans) needs as much memory as the baseline."""
    if result.peak_bytes < baseline_peak_bytes:
        return
    if isinstance(settings.limit, MemoryLimit) and result.met:
        reason = "the limit holds without any change"
    else:
        reason = _why(result)
    warnings.warn(
        f"magis gained nothing{which and f' by {which}'}: the step's peak is "
        f"{bytes_text(result.peak_bytes)}, before {bytes_text(baseline_peak_bytes)} "
        f"(limit: {settings.limit}; {reason})",
        stacklevel=stacklevel + 1,
    )


def _not_met(result: Found, settings: SearchSettings, bound: Bound, which: str) -> str:
    if bound.memory_bytes is not None:
        wanted, found = bytes_text(bound.memory_bytes), bytes_text(result.peak_bytes)
    else:
        wanted, found = f"{bound.seconds:.4g} s", f"{result.seconds:.4g} s"
    return (
        f"the limit was not met{which and f' by {which}'} ({settings.limit}): {wanted} asked for, "
        "the best plan found needs "
        f"{found}; "
        f"{_why(result)}, the certified lower bound is {bytes_text(result.lower_bound_bytes)}. "
        "A longer time_budget may find a better plan"
    )


def _why(result: Found) -> str:
    reasons = {
        "converged": "nothing was left to try",
        "time_budget": "the time budget was used up",
        "state_budget": "the state budget was used up",
        "interrupted": "the search was interrupted",
        "kept": "the plan was kept from an earlier run",
    }
    return reasons.get(result.stop_reason, result.stop_reason)
