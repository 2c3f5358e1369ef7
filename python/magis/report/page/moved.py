"""Every tensor that is computed again or leaves for the host, one row each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from magis.report.edits import Edit
from magis.report.timeline import Lifetime, Timeline

if TYPE_CHECKING:
    from magis import _core


def moved_rows(edits: list[Edit], plan: _core.Plan, device: _core.Device) -> list[dict[str, Any]]:
    """The edits that recompute or swap, with their `distance`: of the times between two lives of
    the tensor, or of another result that is computed again with it, the longest, in seconds, and in
    `operators` that run meanwhile.
    """
    wanted = [edit for edit in edits if edit["kind"] in ("recompute", "swap")]
    if not wanted:
        return []
    timeline = Timeline.of(plan, plan.simulate(device), device)
    lives: defaultdict[str, list[Lifetime]] = defaultdict(list)
    for lifetime in timeline.lifetimes:
        lives[lifetime.tensor.name].append(lifetime)
    results = {run.name: run.copies for run in plan.statements if run.operator}
    rows = []
    for edit in wanted:
        name = edit["tensor"]
        again = results.get(name, []) if edit["kind"] == "recompute" else []
        gaps = [gap for each in again or [name] for gap in _gaps(timeline, lives[each])]
        seconds, operators = max(gaps, default=(0.0, 0))
        rows.append({**edit, "distance": seconds, "operators": operators})
    return rows


def _gaps(timeline: Timeline, lives: list[Lifetime]) -> Iterator[tuple[float, int]]:
    moments = timeline.moments
    for before, after in pairwise(sorted(lives, key=lambda life: life.first)):
        if after.first > before.last:
            seconds = moments[after.first].start - moments[before.last].end
            yield max(0.0, seconds), after.first - before.last - 1
