"""The whole frontier between memory and time: its plans, and the choice of one for a limit. Free of
PyTorch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from magis import _core
from magis.errors import LimitError, LimitNotMetError
from magis.limits import Limit, MemoryLimit, parse_limit
from magis.report.frontier import FrontierFigures, PlanFigures
from magis.report.text import bytes_text, percent_text, seconds_text

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class FrontierPoint:
    """One plan of a frontier; the facts of the search (`magis.report.found.Found`) are those of the
    whole frontier's.
    """

    source: _core.Graph  # as it was captured
    plan: _core.Plan
    figures: PlanFigures
    frontier: FrontierFigures
    met: bool = True  # the limit that it was chosen for

    @property
    def peak_bytes(self) -> int:
        """Persistent and transient."""
        return self.figures.peak_bytes

    @property
    def seconds(self) -> float:
        """Of one step, by the device profile."""
        return self.figures.seconds

    @property
    def peak_ratio(self) -> float:
        """Of the baseline's peak: the captured graph in program order."""
        return self.peak_bytes / self.baseline_peak_bytes

    @property
    def time_ratio(self) -> float:
        """Of the baseline's time; 1.0 where that is none."""
        return self.seconds / self.baseline_seconds if self.baseline_seconds else 1.0

    @property
    def host_bytes(self) -> int:
        return self.figures.host_bytes

    @property
    def regions(self) -> int:
        return self.figures.regions

    @property
    def recomputed(self) -> int:
        return self.figures.recomputed

    @property
    def swapped(self) -> int:
        return self.figures.swapped

    @property
    def persistent_bytes(self) -> int:
        return self.frontier.persistent_bytes

    @property
    def baseline_peak_bytes(self) -> int:
        return self.frontier.baseline_peak_bytes

    @property
    def baseline_seconds(self) -> float:
        return self.frontier.baseline_seconds

    @property
    def lower_bound_bytes(self) -> int:
        return self.frontier.lower_bound_bytes

    @property
    def lower_bound_reason(self) -> str:
        return self.frontier.lower_bound_reason

    @property
    def stop_reason(self) -> str:
        return self.frontier.stop_reason

    @property
    def states_scored(self) -> int:
        return self.frontier.states_scored

    @property
    def states_evaluated(self) -> int:
        return self.frontier.states_evaluated

    @property
    def wall_seconds(self) -> float:
        return self.frontier.wall_seconds

    @property
    def cpu_seconds(self) -> float:
        return self.frontier.cpu_seconds

    @property
    def history(self) -> Sequence[_core.Progress]:
        return ()  # it is told for a limit, of which a frontier has none


class Frontier:
    """Plans of one step from the fastest to the smallest, each slower and smaller than the one
    before it. `print(frontier)` shows them.

    `magis.optimize(..., memory_limit=..., frontier=frontier)` makes a step of one of them.
    """

    def __init__(
        self,
        graph: _core.Graph,
        figures: FrontierFigures,
        plans: Sequence[_core.Plan],
        times: str = "",
    ) -> None:
        self.graph = graph
        self.figures = figures
        self.times = times  # which were measured, in words; empty: none, or it was read from files
        self.points = tuple(
            FrontierPoint(graph, plan, facts, figures)
            for plan, facts in zip(plans, figures.plans, strict=True)
        )
        self._fingerprint = graph.fingerprint()

    def best(
        self,
        memory_limit: int | float | str | None = None,
        latency_limit: float | str | None = None,
    ) -> FrontierPoint:
        """The fastest plan within a memory limit, or the smallest within a latency limit.

        Limits are those of `magis.optimize`; shares refer to the frontier's baseline, the captured
        graph in program order. With neither: the smallest plan that takes no more time than that.

        Raises LimitError if the limit is not understood or lies below the certified lower bound,
        and LimitNotMetError, naming the nearest plan, if no plan of the frontier keeps it.
        """
        limit = parse_limit(memory_limit, latency_limit)
        position, met = choose(self.figures, limit)
        if not met:
            raise LimitNotMetError(nearest_text(self.figures, limit))
        return self.points[position]

    def nearest(
        self,
        most_bytes: int | None,
        most_seconds: float | None,
        *,
        most_on_host: int,
        alter: bool = True,
    ) -> FrontierPoint | None:
        """The best plan within a limit, in bytes or in seconds, or the one that comes nearest, with
        whether it keeps it. None if no plan has so little on the host, or, without `alter`, is
        for the graph as it was captured.
        """
        allowed = [
            point
            for point in self.points
            if point.host_bytes <= most_on_host and (alter or not point.plan.graph.altered)
        ]
        if not allowed:
            return None
        figures = replace(self.figures, plans=[point.figures for point in allowed])
        if most_bytes is not None:
            point = allowed[figures.within_memory(most_bytes)]
            return replace(point, met=point.peak_bytes <= most_bytes)
        assert most_seconds is not None
        point = allowed[figures.within_time(most_seconds)]
        return replace(point, met=point.seconds <= most_seconds)

    def holds(self, graph: _core.Graph) -> bool:
        """Whether the plans are for this graph; how it was captured and where its lines stand does
        not count.
        """
        return graph.fingerprint() == self._fingerprint

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes a folder with an index, the graph, and a plan file for each point; all of it, or
        nothing. A frontier that stands there already is replaced. Raises PlanError if the folder
        cannot be written or holds something else.
        """
        from magis.runtime.frontier_folder import write_frontier

        write_frontier(folder, self)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Frontier:
        """What `save` or `magis optimize --frontier -o` wrote. Raises PlanError naming what is
        missing, damaged or foreign.
        """
        from magis.runtime.frontier_folder import read_frontier

        return read_frontier(folder)

    def __len__(self) -> int:
        return len(self.points)

    def __str__(self) -> str:
        return str(self.figures)

    def __rich__(self) -> RenderableType:
        return self.figures.__rich__()

    def __repr__(self) -> str:
        fast, small = self.points[0], self.points[-1]
        return (
            f"<magis.Frontier of {len(self)} plans: {bytes_text(fast.peak_bytes)} in "
            f"{seconds_text(fast.seconds)} to {bytes_text(small.peak_bytes)} in "
            f"{seconds_text(small.seconds)}>"
        )


def choose(figures: FrontierFigures, limit: Limit) -> tuple[int, bool]:
    """Position of the plan for `limit`, and whether it keeps it: if none does, it is the nearest.

    Raises LimitError if no plan at all can keep it.
    """
    if isinstance(limit, MemoryLimit):
        if limit.auto and limit.bytes is None:
            raise LimitError(
                'a frontier does not say where its plan will run, so that "auto" has no meaning: '
                "name the bytes, as 8GiB"
            )
        most = limit.resolve(figures.baseline_peak_bytes)
        if most < figures.lower_bound_bytes:
            raise LimitError(_below_bound_text(figures, limit, most))
        position = figures.within_memory(most)
        return position, figures.plans[position].peak_bytes <= most
    longest = limit.resolve(figures.baseline_seconds)
    position = figures.within_time(longest)
    return position, figures.plans[position].seconds <= longest


def nearest_text(figures: FrontierFigures, limit: Limit) -> str:
    """That no plan of the frontier keeps `limit`, and which comes nearest."""
    if isinstance(limit, MemoryLimit):
        wanted = bytes_text(limit.resolve(figures.baseline_peak_bytes))
        nearest = _smallest_text(figures)
    else:
        wanted = seconds_text(limit.resolve(figures.baseline_seconds))
        nearest = f"the fastest takes {seconds_text(figures.plans[0].seconds)}"
    return (
        f"no plan of the frontier keeps the limit ({limit}, {wanted}): {nearest}, the certified "
        f"lower bound is {bytes_text(figures.lower_bound_bytes)}. A search for this limit alone, "
        "or a longer one for the frontier, may find a better plan"
    )


def _below_bound_text(figures: FrontierFigures, limit: MemoryLimit, most: int) -> str:
    bound = figures.lower_bound_bytes
    return (
        f"{limit} ({bytes_text(most)}) lies below the certified lower bound of {bound:,} bytes "
        f"({bytes_text(bound)}): no plan of this graph stays under it. Of the frontier, "
        f"{_smallest_text(figures)}. Give a higher limit, or a smaller batch"
    )


def _smallest_text(figures: FrontierFigures) -> str:
    peak = figures.plans[-1].peak_bytes
    share = percent_text(peak, figures.baseline_peak_bytes)
    return f"the smallest takes {bytes_text(peak)} ({share} of before)"
