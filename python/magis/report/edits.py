"""What a plan does differently from its graph in program order, one plain dictionary per edit."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any

from magis.report.loops import GraphLoops, SplitLoop, read_loops
from magis.report.modules import without_layer_number

if TYPE_CHECKING:
    from magis import _core

Edit = dict[str, Any]

_MOST_HELD = 5


def find_edits(plan: _core.Plan, before: _core.Simulation, after: _core.Simulation) -> list[Edit]:
    """The edits that lead from program order (`before`) to `plan` (`after`).

    - `{"kind": "reorder", "moved": 12, "operators": 700}`: so many operators stand elsewhere
      relative to the others
      (the fewest that explain the new order). Absent if none does.
    - `{"kind": "rewrite", "rule", "times"}`: a rewrite rule that was applied so often.
    - `{"kind": "recompute", "operator", "tensor", "module", "source", "times", "bytes",
      "parts", "seconds"}`: an operator that runs `times` times more than once in a step, in loops
      of `parts` parts in all (1: in none). `bytes` is the size of its first result, in a loop that
      of one part; `seconds` what its extra runs take in a step. Longest first.
    - `{"kind": "split", "loop", "part", "length", "parts", "operators", "whole_bytes",
      "part_bytes", "held"}`: so many operators run in `parts` parts of an axis, `part` of its
      `length` units at a time. Outer loops before inner.
      `whole_bytes`: of the tensors that are live at the peak of program order and have become
      part-sized, that is, are made in the loop and are none of its results; `part_bytes`: what
      the plan's program makes of these. `held` says whose they are, the largest first:
      `{"operator", "module", "tensors", "whole_bytes", "part_bytes"}` per operator and place.
    - `{"kind": "swap", "operator", "tensor", "module", "source", "times", "bytes", "parts",
      "seconds"}`: a tensor of `bytes` bytes (of one part, in a loop) that leaves for the host and
      is loaded back `times` times in a step; `seconds` is what its copies take in a step. Longest
      first.
    """
    names_before = [point.result for point in before.timeline]
    # A begin has the name of the operator whose parts it puts together, and stands elsewhere.
    names_after = [p.result for p in after.timeline if p.operator != "magis.begin"]
    edits: list[Edit] = [
        {"kind": "rewrite", "rule": rule, "times": times} for rule, times in plan.graph.rewrites
    ]
    if moved := _moved(names_before, names_after):
        edits.append({"kind": "reorder", "moved": moved, "operators": len(names_before)})
    loops = read_loops(plan.graph.text())
    edits.extend(_recomputations(plan, after, loops))
    edits.extend(_splits(plan, before, after, loops))
    edits.extend(_swaps(plan, after, loops))
    return edits


def parts_of(edits: Iterable[Edit]) -> int:
    """In how many parts the tensors of all these edits are; 0: not all in so many."""
    parts = {edit.get("parts", 1) for edit in edits}  # older files do not say
    return parts.pop() if len(parts) == 1 else 0


def _splits(
    plan: _core.Plan, before: _core.Simulation, after: _core.Simulation, found: GraphLoops
) -> list[Edit]:
    inside: Counter[str] = Counter()
    for point in after.timeline:
        if "." not in point.result and not point.operator.startswith("magis."):
            inside.update(loop.name for loop in found.around.get(point.result, []))
    return [
        {
            "kind": "split",
            "loop": loop.name,
            "part": loop.part,
            "length": loop.length,
            "parts": loop.part_count,
            "operators": inside[loop.name],
            **_became_parts(plan, before, loop, found),
        }
        for loop in found.loops.values()
    ]


def _became_parts(
    plan: _core.Plan, before: _core.Simulation, loop: SplitLoop, found: GraphLoops
) -> Edit:
    """`whole_bytes`, `part_bytes` and `held` of a loop."""
    now = {tensor.name: tensor.bytes for tensor in plan.graph.tensors}
    groups: dict[tuple[str, str], Edit] = {}
    for hotspot in before.hotspots:
        tensor = hotspot.tensor
        inside = loop in found.around.get(tensor.name, []) and tensor.name in now
        if not inside or tensor.name in found.results:
            continue
        module = without_layer_number(tensor.module)
        group = groups.setdefault(
            (tensor.operator, module),
            {
                "operator": tensor.operator,
                "module": module,
                "tensors": 0,
                "whole_bytes": 0,
                "part_bytes": 0,
            },
        )
        group["tensors"] += 1
        group["whole_bytes"] += tensor.bytes
        group["part_bytes"] += now[tensor.name]
    held = sorted(groups.values(), key=lambda group: -group["whole_bytes"])
    return {
        "whole_bytes": sum(group["whole_bytes"] for group in held),
        "part_bytes": sum(group["part_bytes"] for group in held),
        "held": held[:_MOST_HELD],
    }


def _recomputations(plan: _core.Plan, after: _core.Simulation, loops: GraphLoops) -> list[Edit]:
    # Of a loop that copies the simulator tells the first part, of others all parts together.
    copying = {
        loop.name
        for copy in after.copies
        for loop in loops.around.get(copy.tensor.partition(".")[0], [])
    }
    # Both list the extra runs in program order, one entry each.
    extra_runs = [point for point in after.timeline if "." in point.result]
    found: dict[str, Edit] = {}
    for tensor, point in zip(plan.recomputed(), extra_runs, strict=True):
        name = point.result.partition(".")[0]
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
                "parts": loops.parts(name),
                "seconds": 0.0,
            },
        )
        edit["times"] += edit["parts"]
        around = loops.around.get(name, [])
        untold = prod(loop.part_count for loop in around if loop.name in copying)
        edit["seconds"] += untold * (point.end - point.start)
    return _longest_first(found.values())


def _swaps(plan: _core.Plan, after: _core.Simulation, loops: GraphLoops) -> list[Edit]:
    tensors = {tensor.name: tensor for tensor in plan.graph.tensors} if after.copies else {}
    found: dict[str, Edit] = {}
    for point in after.copies:
        tensor = tensors[point.tensor.partition(".")[0]]
        edit = found.setdefault(
            tensor.name,
            {
                "kind": "swap",
                "operator": tensor.operator,
                "tensor": tensor.name,
                "module": tensor.module,
                "source": tensor.source,
                "times": 0,
                "bytes": tensor.bytes,
                "parts": loops.parts(tensor.name),
                "seconds": 0.0,
            },
        )
        edit["times"] += edit["parts"] * (point.kind == "load")
        edit["seconds"] += edit["parts"] * (point.end - point.start)
    return _longest_first(found.values())


def _longest_first(edits: Iterable[Edit]) -> list[Edit]:
    return sorted(edits, key=lambda edit: (-edit["seconds"], -edit["bytes"], edit["tensor"]))


def _moved(before: list[str], after: list[str]) -> int:
    """Operators outside the longest common subsequence of the two orders. Copies do not count, nor
    does what is in one of them only: the parts of a loop's result, and what puts them together."""
    common = set(before) & set(after)
    position = {name: index for index, name in enumerate(before) if name in common}
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
