"""What a plan recomputes or swaps, the same operator in all layers as one group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magis.report.lifetimes import last_readers
from magis.report.loops import GraphLoops
from magis.report.memory import LiveAtPeak, named_as_result
from magis.report.modules import without_layer_number

if TYPE_CHECKING:
    from magis import _core

# Groups that are told apart; the smallest are summed up.
_MOST_GROUPS = 40

# Between which uses of a tensor its memory is free.
BETWEEN_PASSES = "forward and backward"
IN_FORWARD = "uses in the forward pass"
IN_BACKWARD = "uses in the backward pass"


@dataclass
class Group:
    """Operators that run again, or tensors that leave for the host."""

    operator: str
    module: str  # with * for a layer's number if there are several
    names: dict[str, None] = field(default_factory=dict)  # distinct, in the plan's order
    bytes: int = 0  # of these tensors, in a loop of one part of each
    times: int = 0  # in a step, that one of them runs again, or comes back
    parts: set[int] = field(default_factory=set)  # in how many each is; 1: whole
    copy_seconds: float = 0.0  # in a whole step, one copy after another
    between: set[str] = field(default_factory=set)

    def add(self, name: str, size: int) -> None:
        if name not in self.names:
            self.names[name] = None
            self.bytes += size


class GroupFinder:
    """The groups of a plan whose simulation is `after`."""

    def __init__(self, plan: _core.Plan, after: _core.Simulation, loops: GraphLoops) -> None:
        self._plan = plan
        self._after = after
        self._loops = loops
        self._tensors = {tensor.name: tensor for tensor in plan.graph.tensors}
        self._backward = {name for name, t in self._tensors.items() if t.backward}
        self._backward |= loops.backward

    def recomputed(self) -> list[Group]:
        """By the operators' first results; bytes are those of the first tensor of each."""
        groups: dict[tuple[str, str], Group] = {}
        # Both list the extra runs in program order, one entry each.
        extra_runs = [point for point in self._after.timeline if "." in point.result]
        consumers = self._consumers()
        for tensor, point in zip(self._plan.recomputed(), extra_runs, strict=True):
            group = self._group(groups, tensor)
            group.add(point.result.partition(".")[0], tensor.bytes)
            group.between.add(self._between(tensor, consumers[point.result]))
            parts = self._loops.parts(point.result.partition(".")[0])
            group.parts.add(parts)
            group.times += parts
        return list(groups.values())

    def swapped(self) -> list[Group]:
        """By tensors."""
        groups: dict[tuple[str, str], Group] = {}
        readers = last_readers(self._plan) if self._after.copies else {}
        for point in self._after.copies:
            name = point.tensor.partition(".")[0]
            tensor = self._tensors[name]
            group = self._group(groups, tensor)
            group.add(name, tensor.bytes)
            parts = self._loops.parts(name)
            group.parts.add(parts)
            if point.kind == "load":
                group.between.add(self._between(tensor, readers.get(point.tensor, "")))
                group.times += parts
            group.copy_seconds += parts * (point.end - point.start)  # of one the simulator tells
        return list(groups.values())

    def _consumers(self) -> dict[str, str]:
        """Extra run -> the operator for whose sake it is made, by their results."""
        consumers: dict[str, str] = {}
        waiting: list[str] = []
        for point in self._after.timeline:
            if "." in point.result:
                waiting.append(point.result)
                continue
            consumers.update(dict.fromkeys(waiting, point.result))
            waiting.clear()
        return consumers | dict.fromkeys(waiting, "")

    def _between(self, tensor: _core.TensorInfo, consumer: str) -> str:
        if tensor.backward:
            return IN_BACKWARD
        return BETWEEN_PASSES if consumer in self._backward else IN_FORWARD

    def _group(self, groups: dict[tuple[str, str], Group], tensor: _core.TensorInfo) -> Group:
        live = LiveAtPeak(
            name=tensor.name,
            bytes=tensor.bytes,
            type=tensor.type,
            kind="",
            operator=tensor.operator,
            module=tensor.module,
            source=tensor.source,
        )
        named = named_as_result(live, self._loops)
        module = without_layer_number(named.module)
        group = groups.setdefault((named.operator, module), Group(named.operator, named.module))
        if group.names and tensor.name not in group.names:
            group.module = module
        return group


def summed_up(groups: list[Group]) -> list[Group]:
    """At most _MOST_GROUPS: the smallest are one, operator "others"."""
    if len(groups) <= _MOST_GROUPS:
        return groups
    groups = sorted(groups, key=lambda group: -group.bytes)
    kept, rest = groups[: _MOST_GROUPS - 1], groups[_MOST_GROUPS - 1 :]
    others = Group("others", "")
    for group in rest:
        others.names |= group.names
        others.bytes += group.bytes
        others.times += group.times
        others.copy_seconds += group.copy_seconds
        others.between |= group.between
        others.parts |= group.parts
    return [*kept, others]
