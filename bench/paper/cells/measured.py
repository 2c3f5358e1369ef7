"""Small networks that really run on this CPU, under the allocator's hook: what was promised, and
what came of it.

One thread. Peaks are what the allocator handed out above its level when the step began; times are
processor time, medians over rounds in which all ways take turns, over eager's in the same round.
Promises are ratios to the captured step in program order, with the times of operators measured on
this machine. What torch.compile's own kernels and Hugging Face's checkpointing do is not in our
operators, so nothing is promised of them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import magis._core as core
from cells.cell import Cell, Figures
from magis import measure
from magis.errors import MagisError

if TYPE_CHECKING:
    from planners.problem import Problem

    from cells.subjects import Subject, Way
    from magis.runtime.refinement import Refinement


@dataclass(frozen=True)
class Extent:
    limits: tuple[float, ...]  # of the captured step's peak, for ours
    parts: tuple[int, ...]  # of gradient accumulation
    budgets: tuple[float, ...]  # activation_memory_budget
    compile: bool
    search_seconds: float
    rounds: int


EXTENTS = {
    "quick": Extent((0.6,), (2,), (0.5,), False, 4.0, 5),
    "full": Extent((0.8, 0.6, 0.4), (2, 4), (0.5, 0.2), True, 10.0, 11),
}

Promise = tuple[float, float]  # memory, time


class Bench:
    """One network, captured, with the times of what it runs."""

    def __init__(self, subject: Subject, extent: Extent, measuring: float) -> None:
        import torch

        from magis.capture import capture
        from magis.runtime.refinement import refinement_on
        from magis.runtime.scratch import with_measured_scratch

        self.subject = subject
        self.extent = extent
        model, loss_fn, batch = subject.make()
        text = with_measured_scratch(capture(model, loss_fn, batch).text)
        self.graph = core.Graph.parse(text, "captured step")
        self.refinement: Refinement = refinement_on(torch.device("cpu"), "cpu", measuring)
        self.refinement.learn(core.Plan.program_order(self.graph))

    # ---- promises

    def promise(self, plan: core.Plan) -> Promise:
        """Above what is persistent, as peaks are measured."""
        self.refinement.learn(plan)
        device = self.refinement.device
        base, found = (p.simulate(device) for p in (core.Plan.program_order(self.graph), plan))
        memory = found.transient_peak_bytes / base.transient_peak_bytes
        return memory, found.seconds / base.seconds

    # Of what peers run, which is the graph as it was captured.

    def accumulated(self, parts: int) -> core.Plan | None:
        from planners.microbatch import splits
        from planners.recompute import eager_order

        for _, problem in splits(self._problem(), (parts,)):
            return problem.plan(eager_order(problem))
        return None

    def saving(self, budget: float) -> core.Plan:
        from planners.joint_graph import JointGraph
        from planners.recompute import saving

        problem = self._problem()
        return problem.plan(saving(problem, JointGraph(problem).saved(budget, "flops")))

    def _problem(self) -> Problem:
        """With the times that have been measured by now."""
        from planners.problem import Problem

        return Problem.of(self.graph, self.refinement.device)

    # ---- ways

    def peers(self) -> Iterator[tuple[Callable[[], Way], Callable[[], core.Plan | None]]]:
        """How to make each, and what promises for it."""
        from cells import subjects

        def nothing() -> None:
            return None

        yield partial(subjects.eager, self.subject), nothing
        if self.subject.checkpointed:
            yield partial(subjects.checkpointing, self.subject), nothing
        if not self.subject.normed:
            for parts in self.extent.parts:
                make = partial(subjects.accumulation, self.subject, parts)
                yield make, partial(self.accumulated, parts)
        for budget in self.extent.budgets:
            yield partial(subjects.budgeted, self.subject, budget), partial(self.saving, budget)
        if self.extent.compile:
            yield partial(subjects.compiled, self.subject), nothing

    def ours(self) -> Iterator[tuple[Way, Promise]]:
        import magis
        from cells.subjects import Way

        for limit in self.extent.limits:
            model, loss_fn, batch = self.subject.make()
            step = magis.optimize(
                model,
                loss_fn,
                batch,
                memory_limit=f"{limit:.0%}",
                time_budget=self.extent.search_seconds,
                measure=self.refinement.budget,
                tolerance=1e-3,
            )
            way = Way(f"magis, {limit:.0%}", model, partial(step, **batch))
            yield way, self.promise(step.plan)


def time_ratios(ways: list[Way], rounds: int) -> list[float]:
    from magis.timing.stopwatch import CpuClock

    now = CpuClock().now
    seconds: list[list[float]] = [[] for _ in ways]
    for turn in range(rounds + 1):
        for i in range(len(ways)) if turn % 2 else range(len(ways) - 1, -1, -1):
            start = now()
            ways[i].step()
            if turn:  # the first one warms up
                seconds[i].append(now() - start)
    return [median(a / b for a, b in zip(own, seconds[0], strict=True)) for own in seconds]


def compute(cell: Cell) -> Figures:
    """`variant` is quick or full."""
    measure.reexec_with_hook()
    import torch

    from cells.subjects import SUBJECTS

    if cell.workload not in SUBJECTS or cell.variant not in EXTENTS:
        raise MagisError(f'nothing to run is called "{cell.workload} {cell.variant}"')
    torch.set_num_threads(1)
    extent = EXTENTS[cell.variant]
    ways: list[Way] = []
    promises: list[Promise | None] = []
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MAGIS_CACHE_DIR"] = folder
        bench = Bench(SUBJECTS[cell.workload], extent, cell.seconds)
        for make, planned in bench.peers():
            try:
                way = make()
                plan = planned()
                promise = None if plan is None else bench.promise(plan)
            except Exception as error:  # a peer that cannot be had is no reason to know nothing
                failures.append(f"{type(error).__name__}: {error}".splitlines()[0])
                continue
            ways.append(way)
            promises.append(promise)
        if not ways or ways[0].name != "eager":
            raise MagisError(f"eager did not run: {failures[0]}")
        for way, promise in bench.ours():
            ways.append(way)
            promises.append(promise)
        return figures(ways, promises, failures, extent.rounds)


def figures(
    ways: list[Way], promises: list[Promise | None], failures: list[str], rounds: int
) -> Figures:
    peaks = [way.peak_bytes() for way in ways]
    times = time_ratios(ways, rounds)
    words = "One thread, processor time." + "".join(f" Left out: {f}." for f in failures)
    rows: list[dict[str, Any]] = []
    for way, promise, peak, time in zip(ways, promises, peaks, times, strict=True):
        memory_promised, time_promised = promise or (None, None)
        rows.append(
            {
                "way": way.name,
                "memory": peak / peaks[0],
                "time": time,
                "promised_memory": memory_promised,
                "promised_time": time_promised,
            }
        )
    return {"words": words, "ways": rows}
