"""How each kind of cell is computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import workloads
from planners import PLANNERS, Planner, Task
from profiles import device_named

import magis._core as core
from cells.cell import Cell, Figures, Limit
from magis.errors import MagisError

# What moves bytes and computes nothing; the paper's implementation charges nothing for it.
MOVERS = ("aten.cat", "aten.clone")


class Problem:
    """A workload on a device, and what its step takes in program order, as it was captured."""

    def __init__(self, cell: Cell, graphs: Path) -> None:
        self.cell = cell
        self.graph = workloads.load(cell.workload, cell.variant, graphs)
        self.device = device_named(cell.profile)
        base = core.Plan.program_order(self.graph).simulate(self.device)
        self.peak, self.seconds = base.peak_bytes, base.seconds
        self.moving = sum(p.end - p.start for p in base.timeline if p.operator in MOVERS)

    def task(self, limit: Limit | None = None) -> Task:
        limit = limit or Limit.parse(self.cell.limit)
        memory = limit.of == "memory"
        return Task(
            graph=self.graph,
            device=self.device,
            memory_limit=int(limit.ratio * self.peak) if memory else None,
            latency_limit=None if memory else limit.ratio * self.seconds,
            seconds=self.cell.seconds,
            seed=self.cell.seed,
        )

    def ratios(self, peak: int, seconds: float) -> Figures:
        return {"memory": peak / self.peak, "time": seconds / self.seconds}

    @property
    def baseline(self) -> Figures:
        return {
            "baseline_peak_bytes": self.peak,
            "baseline_seconds": self.seconds,
            "baseline_moving_seconds": self.moving,  # of these
        }

    def search_options(self) -> Figures:
        """Of core.optimize, for the cell's limit."""
        task = self.task()
        return {
            "device": self.device,
            "memory_limit": task.memory_limit,
            "latency_limit": task.latency_limit,
            "time_budget": task.seconds,
            "seed": task.seed,
        }


def planner_named(name: str) -> Planner:
    if name not in PLANNERS:
        raise MagisError(f'no planner "{name}"; there are: {", ".join(PLANNERS)}')
    return PLANNERS[name]


def _plan(cell: Cell, graphs: Path) -> Figures:
    planner = planner_named(cell.planner)
    problem = Problem(cell, graphs)
    task = problem.task()
    outcome = planner.plan(task)
    if outcome.plan is None:
        raise MagisError(outcome.note or "no plan was found")
    outcome.plan.verify()
    found = outcome.plan.simulate(problem.device)
    promised = (outcome.peak_bytes, outcome.seconds)
    if (found.peak_bytes, found.seconds) != promised:
        raise MagisError(
            f"the planner promised {promised}, its plan takes {(found.peak_bytes, found.seconds)}"
        )
    return (
        problem.baseline
        | problem.ratios(*promised)
        | {
            "peak_bytes": found.peak_bytes,
            "seconds": found.seconds,
            "met": _met(task, found),
            "wall_seconds": outcome.wall_seconds,
            "note": outcome.note,
        }
    )


def _met(task: Task, found: core.Simulation) -> bool:
    if task.memory_limit is not None:
        return found.peak_bytes <= task.memory_limit
    assert task.latency_limit is not None
    return found.seconds <= task.latency_limit


def _frontier(cell: Cell, graphs: Path) -> Figures:
    """All of what magis can trade, from one search."""
    problem = Problem(cell, graphs)
    plans = core.find_frontier(
        problem.graph, device=problem.device, time_budget=cell.seconds, seed=cell.seed
    )
    return problem.baseline | {
        "points": [problem.ratios(plan.peak_bytes, plan.seconds) for plan in plans]
    }


ABLATIONS: dict[str, dict[str, bool | int]] = {
    "magis-paper": {},
    "random fission": {"random_fission": True},
    "naive schedule rules": {"naive_schedule_rules": True},
    "L = 2": {"max_level": 2},
    "L = 8": {"max_level": 8},
}


def _ablation(cell: Cell, graphs: Path) -> Figures:
    """The search as published with a heuristic left out, and how it got on over time."""
    problem = Problem(cell, graphs)
    trace: list[tuple[float, float, float, bool]] = []

    def note(elapsed: float, peak: int, seconds: float, met: bool) -> None:
        ratios = problem.ratios(peak, seconds)
        point = (elapsed, ratios["memory"], ratios["time"], met)
        if not trace or trace[-1][1:] != point[1:]:
            trace.append(point)

    def watch(progress: core.Progress) -> bool:
        note(progress.elapsed, progress.best_peak_bytes, progress.best_seconds, progress.met)
        return True

    options = problem.search_options()
    if cell.planner != "magis":
        options |= {"strategy": "paper", **ABLATIONS[cell.planner]}
    result = core.optimize(problem.graph, progress=watch, **options)
    note(result.wall_seconds, result.peak_bytes, result.seconds, result.met)
    met_at = next((elapsed for elapsed, _, _, met in trace if met), None)
    return (
        problem.baseline
        | problem.ratios(result.peak_bytes, result.seconds)
        | {
            "met": result.met,
            "met_after": met_at,
            "best_after": trace[-1][0],
            "trace": trace,
        }
    )


def _phases(cell: Cell, graphs: Path) -> Figures:
    """Where the time of the search as published goes."""
    problem = Problem(cell, graphs)
    result = core.optimize(problem.graph, strategy="paper", **problem.search_options())
    phases = dict(result.phase_seconds)
    phases["other"] = result.wall_seconds - sum(phases.values())
    return problem.baseline | {
        "seconds": phases,
        "wall_seconds": result.wall_seconds,
        "generated": result.states_scored,
        "repeated": result.states_repeated,
        "evaluated": result.states_evaluated,
    }


MOST_POINTS = 2_000  # of a curve on the page


def _timeline(cell: Cell, graphs: Path) -> Figures:
    """Bytes over a step's time, persistent ones included."""
    planner = planner_named(cell.planner)
    problem = Problem(cell, graphs)
    outcome = planner.plan(problem.task())
    if outcome.plan is None:
        raise MagisError(outcome.note or "no plan was found")
    found = outcome.plan.simulate(problem.device)
    persistent = found.persistent_bytes
    points = [(point.start, persistent + point.live_bytes) for point in found.timeline]
    step = -(-len(points) // MOST_POINTS)
    # Of every stretch the highest point: a peak is never left out.
    kept = [max(points[i : i + step], key=lambda p: p[1]) for i in range(0, len(points), step)]
    return (
        problem.baseline
        | problem.ratios(found.peak_bytes, found.seconds)
        | {
            "met": outcome.met,
            "persistent_bytes": persistent,
            "points": kept,
        }
    )


def _scheduling(cell: Cell, _graphs: Path) -> Figures:
    from cells.scheduling import compute as run

    return run(cell)


def _measured(cell: Cell, _graphs: Path) -> Figures:
    from cells.measured import compute as run

    return run(cell)


KINDS: dict[str, Callable[[Cell, Path], Figures]] = {
    "plan": _plan,
    "frontier": _frontier,
    "ablation": _ablation,
    "phases": _phases,
    "timeline": _timeline,
    "scheduling": _scheduling,
    "measured": _measured,
}


def compute(cell: Cell, graphs: Path) -> Figures:
    """Raises MagisError, and whatever else a planner raises."""
    if cell.kind not in KINDS:
        raise MagisError(f'no kind of cell "{cell.kind}"; there are: {", ".join(KINDS)}')
    return KINDS[cell.kind](cell, graphs)
