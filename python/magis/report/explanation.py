"""A plan in words and figures: what each thing that it does saved, and what that cost.

Every figure is counted by running programs on paper, none is estimated. What is *saved* is the
difference between the peaks of two programs:

- **Steps** lead from the baseline to the plan, each program with one kind of decision more: the
  graph in program order; rewritten and with its regions in parts, in program order; in the plan's
  order, nothing recomputed or kept on the host; with what the plan recomputes; the plan. What the
  steps save adds up to what the plan saves. Order, recomputation and swapping are undone on the
  plan's own graph.
- **Groups** are operators of one kind at one place in however many layers that are recomputed, or
  tensors that leave for the host. A group saves what the peak would be more if this group alone
  were undone: its first results kept, its tensors left on the device, everything else as it is,
  lifetimes ending anew. It costs what the step would be faster. Groups do not add up: where two
  keep the peak down at different moments, each of them saves all of it.
- **A loop** took from the old peak what was live there and made inside: in the plan's program those
  tensors are as large as a part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from magis.report.groups import Group, GroupFinder, summed_up
from magis.report.loops import read_loops
from magis.report.memory import alike, live_at_peak, peak_result, persistent_shares
from magis.report.split_axes import SplitAxes

if TYPE_CHECKING:
    from magis import _core
    from magis.report.report import Report

Item = dict[str, Any]
Footprint = tuple[int, float, float]  # peak bytes, seconds, seconds exposed

_MOST_TENSORS = 12


def explain(plan: _core.Plan, device: _core.Device, report: Report | None = None) -> list[Item]:
    """What `plan` does and why, under the profile `device`; plain dictionaries by `kind`:

    - `start`: `peak_bytes`, `seconds`, and in `source` of which program.
    - `step`, up to four: `by` ("capture", "rewrite", "split", "rewrite_and_split",
      "reorder", "recompute", "swap") leads to
      `peak_bytes` and `seconds`; that saved `saved_bytes` and cost `cost_seconds`, either of which
      may be negative. Steps that change neither are left out.
    - `rewrite`, one per rule: `rule`, its `description`, and how many `times` it was applied.
    - `split`, one per loop, outer before inner: the report's edit of that name (see `find_edits`;
      without a report not what stood at the old peak), its `axis` (see `SplitAxes.of`), `inside`
      (the loop around it), `first` and `last` of its body (`{"operator", "module", "source",
      "backward"}`), and of its results `concatenated_bytes` and `combined_bytes`.
    - `recompute` and `swap`, one per group, those that save most first: `operator`, `module` (* for
      a layer's number), `tensors` and `bytes` in all, in how many `parts` (then `bytes` are those
      of one; 0: in several numbers), `times` in a step, `between` which uses the memory is
      free (`BETWEEN_PASSES`, ...; "" if several), `peak_without_bytes`, `saved_bytes`,
      `cost_seconds`; for a swap `copy_seconds`, of which `hidden_seconds` are not waited for. The
      smallest beyond 40 are one group, `operator` "others".
    - `peak`: `bytes`, `persistent_bytes`, `persistent` (`{"name", "bytes", "tensors"}` by kind),
      `workspace_bytes`, the `operator`, `module`, `source`, `loop` that reach it, and `tensors`
      live there, the largest groups first, `{"bytes", "tensors", "name", "type", "kind",
      "operator", "module", "source"}`; `other_bytes` of more.
    - `limit`: in words, `limit`, and whether it is `met`. With a report.
    - `bound`: no plan has a peak below `bytes`, `reason`; `above_bytes` of the plan. With a report.
    """
    return _Explainer(plan, device, report).items()


class _Explainer:
    def __init__(self, plan: _core.Plan, device: _core.Device, report: Report | None) -> None:
        self._plan = plan
        self._device = device
        self._report = report
        self._graph = plan.graph
        self._after = plan.simulate(device)
        self._loops = read_loops(self._graph.text())
        self._tensors = {tensor.name: tensor for tensor in self._graph.tensors}

    def items(self) -> list[Item]:
        find = GroupFinder(self._plan, self._after, self._loops)
        recomputed = find.recomputed()
        swapped = find.swapped()
        return [
            *self._steps(recomputed, swapped),
            *self._rewrites(),
            *self._splits(),
            *self._groups("recompute", recomputed),
            *self._groups("swap", swapped),
            self._peak(),
            *self._limits(),
        ]

    # ---- steps

    def _steps(self, recomputed: list[Group], swapped: list[Group]) -> list[Item]:
        from magis import _core

        runs = [name for group in recomputed for name in group.names]
        swaps = [name for group in swapped for name in group.names]
        in_program_order = _core.Plan.program_order(self._graph)
        (as_made,) = in_program_order.footprints_without([([], [])], device=self._device)
        without = self._plan.footprints_without([(runs, swaps), ([], swaps)], device=self._device)
        this: Footprint = (self._after.peak_bytes, self._after.seconds, 0.0)
        ends = [("reorder", without[0]), ("recompute", without[1]), ("swap", this)]
        split = bool(self._loops.loops)
        if self._report is None:
            source = "the split graph in program order" if split else "the graph in program order"
            ends = [(source, as_made), *ends]
        else:
            made = [("split", as_made)] if split else []
            if self._graph.rewrites:
                made = [("rewrite_and_split" if split else "rewrite", as_made)]
            ends = [*self._before(self._report), *made, *ends]
        source, start = ends[0]
        return [
            {"kind": "start", "source": source, "peak_bytes": start[0], "seconds": start[1]},
            *_changes(ends),
        ]

    def _before(self, report: Report) -> list[tuple[str, Footprint]]:
        captured = (report.captured_peak_bytes, report.captured_seconds, 0.0)
        if report.baseline_peak_bytes == report.captured_peak_bytes:
            return [(report.baseline_source, captured)]
        measured = (report.baseline_peak_bytes, report.baseline_seconds, 0.0)
        return [(report.baseline_source, measured), ("capture", captured)]

    def _rewrites(self) -> list[Item]:
        from magis import _core

        words = {rule: description for rule, description, _, _ in _core.rewrite_rules()}
        return [
            {"kind": "rewrite", "rule": rule, "description": words.get(rule, ""), "times": times}
            for rule, times in self._graph.rewrites
        ]

    # ---- loops

    def _splits(self) -> list[Item]:
        axes = SplitAxes(self._graph, self._loops)
        edits = self._report.edits if self._report is not None else []
        told = {edit["loop"]: edit for edit in edits if edit["kind"] == "split"}
        bodies = self._bodies()
        items = []
        for loop in self._loops.loops.values():
            body = bodies[loop.name]
            item: Item = {
                "kind": "split",
                "loop": loop.name,
                "part": loop.part,
                "length": loop.length,
                "parts": loop.part_count,
                "operators": len(body),
                **told.get(loop.name, {}),
                "inside": self._around(loop.name),
                "axis": axes.of(loop.name),
                "first": self._place(body[0]) if body else None,
                "last": self._place(body[-1]) if body else None,
            }
            items.append(item | self._results_of(loop.name))
        return items

    def _bodies(self) -> defaultdict[str, list[str]]:
        """The operators of each loop, in the plan's order, by their first results."""
        bodies: defaultdict[str, list[str]] = defaultdict(list)
        for point in self._after.timeline:
            if "." in point.result or point.operator.startswith("magis."):
                continue
            for loop in self._loops.around.get(point.result, []):
                bodies[loop.name].append(point.result)
        return bodies

    def _around(self, loop: str) -> str:
        """The loop that a loop stands in, "" if none."""
        for loops in self._loops.around.values():
            names = [around.name for around in loops]
            if loop in names[1:]:
                return names[names.index(loop) - 1]
        return ""

    def _place(self, name: str) -> Item:
        tensor = self._tensors.get(name)
        if tensor is None:  # an operator without a tensor of its own
            return {"operator": name, "module": "", "source": "", "backward": False}
        return {
            "operator": tensor.operator,
            "module": tensor.module,
            "source": tensor.source,
            "backward": tensor.backward,
        }

    def _results_of(self, loop: str) -> Item:
        sizes = {True: 0, False: 0}
        for name, result in self._loops.results.items():
            if result.loop == loop and name in self._tensors:
                sizes[result.concatenated] += self._tensors[name].bytes
        return {"concatenated_bytes": sizes[True], "combined_bytes": sizes[False]}

    # ---- groups

    def _groups(self, kind: str, groups: list[Group]) -> list[Item]:
        groups = summed_up(groups)
        names: list[tuple[list[str], list[str]]] = [
            (list(g.names), []) if kind == "recompute" else ([], list(g.names)) for g in groups
        ]
        without = self._plan.footprints_without(names, device=self._device)
        items = [
            self._group_item(kind, group, footprint)
            for group, footprint in zip(groups, without, strict=True)
        ]
        return sorted(items, key=lambda item: (-item["saved_bytes"], -item["bytes"]))

    def _group_item(self, kind: str, group: Group, without: Footprint) -> Item:
        cost = _difference(self._after.seconds, without[1])
        item: Item = {
            "kind": kind,
            "operator": group.operator,
            "module": group.module,
            "tensors": len(group.names),
            "times": group.times,
            "bytes": group.bytes,
            "parts": max(group.parts, default=1) if len(group.parts) < 2 else 0,
            "between": next(iter(group.between)) if len(group.between) == 1 else "",
            "peak_without_bytes": without[0],
            "saved_bytes": without[0] - self._after.peak_bytes,
            "cost_seconds": cost,
        }
        if kind == "swap":
            item["copy_seconds"] = group.copy_seconds
            item["hidden_seconds"] = min(group.copy_seconds, max(0.0, group.copy_seconds - cost))
        return item

    # ---- where the plan ends up

    def _peak(self) -> Item:
        live = live_at_peak(self._plan, self._after, self._loops)
        rows = sorted(alike(live), key=lambda rows: -rows.bytes * len(rows.names))
        workspace = self._after.transient_peak_bytes - sum(tensor.bytes for tensor in live)
        persistent = persistent_shares(self._graph, self._after.persistent_bytes)
        return {
            "kind": "peak",
            "bytes": self._after.peak_bytes,
            "persistent_bytes": self._after.persistent_bytes,
            "persistent": [
                {"name": share.name, "bytes": share.bytes, "tensors": share.tensors}
                for share in persistent
            ],
            "operator": self._after.peak_operator,
            "module": self._after.peak_module,
            "source": self._after.peak_source,
            "loop": self._loops.place(peak_result(self._after)),
            "workspace_bytes": workspace,
            "tensors": [
                {
                    "bytes": row.bytes * len(row.names),
                    "tensors": len(row.names),
                    "name": row.names[0],
                    "type": row.type,
                    "kind": row.kind,
                    "operator": row.operator,
                    "module": row.module,
                    "source": row.source,
                }
                for row in rows[:_MOST_TENSORS]
            ],
            "other_bytes": sum(row.bytes * len(row.names) for row in rows[_MOST_TENSORS:]),
        }

    def _limits(self) -> Iterable[Item]:
        if self._report is None:
            return
        yield {"kind": "limit", "limit": self._report.limit, "met": self._report.met}
        bound = self._report.lower_bound_bytes
        yield {
            "kind": "bound",
            "bytes": bound,
            "reason": self._report.lower_bound_reason,
            "above_bytes": self._after.peak_bytes - bound,
        }
        if self._report.time_bound is not None:
            yield {"kind": "time bound", "words": self._report.time_bound.rows()}


def _difference(seconds: float, before: float) -> float:
    """0 where two sums of the same times differ by their rounding."""
    difference = seconds - before
    return difference if abs(difference) > 1e-9 * max(seconds, before) else 0.0


def _changes(ends: list[tuple[str, Footprint]]) -> Iterable[Item]:
    for (_, before), (by, after) in pairwise(ends):
        cost = _difference(after[1], before[1])
        if before[0] == after[0] and cost == 0:
            continue
        yield {
            "kind": "step",
            "by": by,
            "peak_bytes": after[0],
            "seconds": after[1],
            "saved_bytes": before[0] - after[0],
            "cost_seconds": cost,
        }
