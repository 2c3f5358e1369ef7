"""What a plan does differently from its graph in program order, one plain dictionary per edit."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magis import _core

Edit = dict[str, Any]


def find_edits(plan: _core.Plan, before: _core.Simulation, after: _core.Simulation) -> list[Edit]:
    """The edits that lead from program order (`before`) to `plan` (`after`).

    - `{"kind": "fission", "loop": "r1", "inside": "", "operators": 260, "length": 8, "part": 3,
      "parts": 3}`: so many operators run in parts of an axis, the last part perhaps shorter.
    - `{"kind": "reorder", "moved": 12, "operators": 700}`: so many operators stand elsewhere
      relative to the others
      (the fewest that explain the new order). Absent if none does.
    - `{"kind": "recompute", "operator", "tensor", "module", "source", "times", "bytes",
      "seconds"}`: an operator that runs
      `times` times more than once. `bytes` is the size of its first result, `seconds` what its
      extra runs take together. Longest first.
    """
    edits: list[Edit] = [
        {
            "kind": "fission",
            "loop": loop.name,
            "inside": loop.parent,
            "operators": loop.operators,
            "length": loop.length,
            "part": loop.part,
            "parts": loop.parts,
        }
        for loop in plan.graph.loops
    ]
    moved = _moved(
        [point.result for point in before.timeline], [point.result for point in after.timeline]
    )
    if moved:
        edits.append({"kind": "reorder", "moved": moved, "operators": plan.graph.operator_count})
    edits.extend(_recomputations(plan, after))
    return edits


def _recomputations(plan: _core.Plan, after: _core.Simulation) -> list[Edit]:
    # Both list the extra runs in program order, one entry each.
    extra_runs = [point for point in after.timeline if "." in point.result]
    found: dict[str, Edit] = {}
    for tensor, point in zip(plan.recomputed(), extra_runs, strict=True):
        edit = found.setdefault(
            tensor.name,
            {
                "kind": "recompute",
                "operator": tensor.operator,
                "tensor": tensor.name,
                "module": tensor.module,
                "source": tensor.source,
                "times": 0,
                "bytes": tensor.bytes,
                "seconds": 0.0,
            },
        )
        edit["times"] += 1
        edit["seconds"] += point.end - point.start
    return sorted(
        found.values(), key=lambda edit: (-edit["seconds"], -edit["bytes"], edit["tensor"])
    )


def _moved(before: list[str], after: list[str]) -> int:
    """Operators outside the longest common subsequence of the two orders; copies do not count."""
    position = {name: index for index, name in enumerate(before)}
    # Both are orders of the same names, so the longest increasing run of positions is that
    # subsequence.
    tails: list[int] = []
    for name in after:
        if name not in position:
            continue
        index = position[name]
        where = bisect_left(tails, index)
        tails[where : where + 1] = [index]
    return len(position) - len(tails)
