"""Which axis a loop walks, named after a tensor that it takes its parts of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magis.report.lifetimes import storage_of
from magis.report.loops import GraphLoops

if TYPE_CHECKING:
    from magis import _core

SplitAxis = dict[str, Any]


class SplitAxes:
    """The axes of a graph's loops.

    A loop takes parts of many tensors. The one that says most to a user names the axis: an input
    of the batch, along its first dimension if there is one; else the largest tensor that is sliced
    itself; else the largest of which a view is sliced.
    """

    def __init__(self, graph: _core.Graph, loops: GraphLoops) -> None:
        self._loops = loops
        self._storage = storage_of(graph)
        self._inputs = {entry.name: entry for entry in graph.inputs}
        self._tensors = {tensor.name: tensor for tensor in graph.tensors}

    def of(self, loop: str) -> SplitAxis:
        """`{"tensor", "dimension", "is_view", "kind", "path", "module", "type", "others"}`.

        `kind` and `path` are those of an input ("batch", "['input_ids']"), "" for what an operator
        makes in `module`. `is_view`: the dimension is that of a view of the tensor. `others`: so
        many more values are sliced. `tensor` is "" for a loop that slices nothing.
        """
        slices = list(dict.fromkeys(self._loops.slices[loop]))
        found = [
            self._described(cut.value, cut.dimension, len(slices) - 1)
            for cut in slices
            if self._storage(cut.value) in self._inputs.keys() | self._tensors.keys()
        ]
        if not found:
            return _axis("", 0)
        return min(found, key=self._rank)

    def _rank(self, axis: SplitAxis) -> tuple[bool, bool, bool, int]:
        of_batch = axis["kind"] == "batch" and not axis["is_view"]
        return not of_batch, axis["dimension"] != 0, axis["is_view"], -self._bytes(axis["tensor"])

    def _bytes(self, name: str) -> int:
        owner = self._inputs.get(name) or self._tensors[name]
        return owner.bytes

    def _described(self, value: str, dimension: int, others: int) -> SplitAxis:
        name = self._storage(value)
        is_view = name != value
        if (entry := self._inputs.get(name)) is not None:
            kind, path = entry.kind, entry.path if entry.kind != "const" else ""
            shape = f"{entry.dtype}[{','.join(map(str, entry.shape))}]"
            return _axis(name, dimension, is_view, kind, path, "", shape, others)
        tensor = self._tensors[name]
        return _axis(name, dimension, is_view, "", "", tensor.module, tensor.type, others)


def _axis(
    tensor: str,
    dimension: int,
    is_view: bool = False,
    kind: str = "",
    path: str = "",
    module: str = "",
    shape: str = "",
    others: int = 0,
) -> SplitAxis:
    return {
        "tensor": tensor,
        "dimension": dimension,
        "is_view": is_view,
        "kind": kind,
        "path": path,
        "module": module,
        "type": shape,
        "others": others,
    }
