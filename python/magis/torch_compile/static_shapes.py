"""Graphs whose shapes and numbers vary are compiled for those of the example alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch

from magis import _torch_internals as internals
from magis.errors import MagisError


def with_static_shapes(
    module: torch.fx.GraphModule, examples: Sequence[Any]
) -> tuple[torch.fx.GraphModule, list[Any], list[int]]:
    """The graph for the shapes and numbers of these examples, examples that say so, and which of
    the inputs it still takes.

    A plan is made for one shape. Asking a symbolic number for its value makes it one of
    torch.compile's guards: other values are compiled anew.
    """
    kept = [i for i, example in enumerate(examples) if isinstance(example, torch.Tensor)]
    if len(kept) == len(examples) and not any(map(_is_symbolic, examples)):
        return module, list(examples), kept
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for node, example in zip(placeholders, examples, strict=True):
        if isinstance(example, torch.Tensor):
            continue
        _put(node, _number(example))
        graph.erase_node(node)
    static = torch.fx.GraphModule(module, graph)
    static.meta.update(module.meta)
    return static, [_static(examples[i]) for i in kept], kept


def _is_symbolic(example: torch.Tensor) -> bool:
    lengths = [*example.shape, *example.stride(), example.storage_offset()]
    return any(isinstance(length, torch.SymInt) for length in lengths)


def _number(example: Any) -> Any:
    if isinstance(example, (torch.SymInt, int)) and not isinstance(example, bool):
        return int(example)
    if isinstance(example, (torch.SymFloat, float)):
        return float(example)
    if isinstance(example, (torch.SymBool, bool)):
        return bool(example)
    raise MagisError(
        f"the backend magis takes graphs of tensors and numbers; one of this graph's inputs is a "
        f"{type(example).__name__}"
    )


def _put(node: torch.fx.Node, number: Any) -> None:
    """`number` in the place of what `node` stands for."""

    def replaced(arg: torch.fx.Node) -> Any:
        return number if arg is node else arg

    for user in list(node.users):
        user.args = torch.fx.node.map_arg(user.args, replaced)
        user.kwargs = torch.fx.node.map_arg(user.kwargs, replaced)


def _static(example: torch.Tensor) -> torch.Tensor:
    """The example with plain numbers for its lengths. Symbolic ones are asked here."""
    if not _is_symbolic(example):
        return example
    shape, strides = [int(n) for n in example.shape], [int(n) for n in example.stride()]
    offset = int(example.storage_offset())
    mode = example.fake_mode if isinstance(example, internals.FakeTensor) else nullcontext()
    with mode, torch.enable_grad():
        made = torch.empty_strided(shape, strides, dtype=example.dtype, device=example.device)
        if offset:
            made = torch.empty(
                offset + made.untyped_storage().nbytes() // made.itemsize,
                dtype=example.dtype,
                device=example.device,
            ).as_strided(shape, strides, offset)
        made.requires_grad_(example.requires_grad)
        return made if example.is_leaf else made.view_as(made)
