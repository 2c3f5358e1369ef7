"""Reads of data that is the same at every run, because it was made from shapes and literals alone.

Hugging Face models look at positions that they have just counted out themselves, for instance, and
then need no mask. Such a read is answered while tracing, and leaves nothing in the graph.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from magis import _torch_internals as internals
from magis._torch_internals import OpOverload

# Enough for indices and masks of long sequences; what is larger is computed at every run.
_MOST_NODES = 500
_MOST_ELEMENTS = 1 << 22


def known_value(tensor: torch.Tensor) -> torch.Tensor | None:
    """The data of a traced tensor, on the CPU; None if it depends on an input or on chance."""
    node = internals.traced_node(tensor)
    if node is None:
        return None
    needed = _ancestors(node)
    if needed is None:
        return None
    values: dict[torch.fx.Node, Any] = {
        n: internals.traced_constant(n) for n in needed if n.op == "get_attr"
    }
    with internals.without_modes(), torch.no_grad():
        for ancestor in needed:
            if ancestor.op == "get_attr":
                values[ancestor] = values[ancestor].cpu()
            else:
                values[ancestor] = _compute(ancestor, values)
    result: torch.Tensor = values[node]
    return result


def _ancestors(node: torch.fx.Node) -> list[torch.fx.Node] | None:
    """`node` and all that it is made from, in program order; None if that cannot be known."""
    found: set[torch.fx.Node] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        if not _computable(current) or len(found) == _MOST_NODES:
            return None
        found.add(current)
        waiting += current.all_input_nodes
    return [n for n in node.graph.nodes if n in found]


def _computable(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.numel() > _MOST_ELEMENTS:
        return False
    if node.op == "get_attr" or node.target is operator.getitem:
        return True
    return (
        node.op == "call_function"
        and isinstance(node.target, OpOverload)
        and node.target.namespace == "aten"
        and not node.target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in node.target.tags
        and "empty" not in str(node.target)
    )


def _compute(node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> Any:
    def real(arg: Any) -> Any:
        if isinstance(arg, torch.fx.Node):
            return values[arg]
        if isinstance(arg, torch.device):
            return torch.device("cpu")
        return [real(item) for item in arg] if isinstance(arg, (list, tuple)) else arg

    function: Any = node.target
    return function(*map(real, node.args), **{k: real(v) for k, v in node.kwargs.items()})
