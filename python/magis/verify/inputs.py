"""Inputs for a text: those of the model and the batch that it was captured from, or random ones."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from magis.errors import PlanError
from magis.verify.document import Document, Input, Operation, Ref, Type
from magis.verify.evaluator import Value
from magis.verify.tensors import DTYPES
from magis.verify.text import parse

# For operators that read integers as indices: the position of the indices, that of the tensor that
# they index, and the dimension (None: the argument after the tensor).
_INDEXING: dict[str, tuple[int, int, int | None]] = {
    "aten.embedding": (1, 0, 0),
    "aten.gather": (2, 0, None),
    "aten.index_select": (2, 0, None),
    "aten.nll_loss_forward": (1, 0, -1),
    "aten.nll_loss2d_forward": (1, 0, 1),
}


def inputs_from(
    text: str,
    model: nn.Module,
    batch: Any,
    *,
    state: Mapping[str, Tensor] | None = None,
    scalars: Mapping[str, float] | None = None,
) -> dict[str, Value]:
    """The inputs that `text` names, from the model that it was captured from and a batch of the
    same structure.

    Parameters, buffers and gradients are found by module path, the batch's tensors and scalars by
    their place in `batch` ("[0]", "['input_ids']"), optimizer state in `state` by path, scalars
    that are not in the batch in `scalars` by their expression. Values by name, as `evaluate` takes
    them.
    """
    found: dict[str, Value] = {}
    for declared in parse(text).inputs:
        where = f"line {declared.line}: {declared.kind} %{declared.name}"
        try:
            if declared.kind == "param":
                found[declared.name] = model.get_parameter(declared.path)
            elif declared.kind == "buffer":
                found[declared.name] = model.get_buffer(declared.path)
            elif declared.kind == "grad":
                found[declared.name] = model.get_parameter(declared.path).grad
            elif declared.kind == "state":
                found[declared.name] = (state or {})[declared.path]
            elif declared.kind == "scalar" and declared.path in (scalars or {}):
                found[declared.name] = (scalars or {})[declared.path]
            elif declared.kind in ("batch", "scalar"):
                found[declared.name] = _in_batch(batch, declared.path)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise PlanError(f"{where} is not found at {declared.path!r}: {error}") from None
    return found


def _in_batch(batch: Any, path: str) -> Any:
    """What stands in a pytree at a path such as "['inputs'][0].mask"; "" is the whole."""

    def follow(node: ast.expr) -> Any:
        if isinstance(node, ast.Subscript):
            return follow(node.value)[ast.literal_eval(node.slice)]
        if isinstance(node, ast.Attribute):
            return getattr(follow(node.value), node.attr)
        if isinstance(node, ast.Name):
            return batch
        raise KeyError(path)

    return follow(ast.parse(f"batch{path}", mode="eval").body)


def random_inputs(text: str, *, seed: int = 0) -> dict[str, Value]:
    """Inputs of the recorded types, by name: normal floats (positive ones for buffers and optimizer
    state, which hold variances and counts), integers that may serve as indices, even booleans.
    """
    document = parse(text)
    generator = torch.Generator().manual_seed(seed)
    return {
        declared.name: _random(declared, document, generator)
        for declared in document.inputs
        if declared.kind != "const"
    }


def _random(declared: Input, document: Document, generator: torch.Generator) -> Value:
    recorded = declared.type
    if recorded is None:
        return 0.5 + float(torch.rand((), generator=generator))
    dtype = DTYPES[recorded.dtype]
    elements = recorded.storage // dtype.itemsize
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        whole = torch.randn(elements, generator=generator, dtype=wide)
        if declared.kind in ("buffer", "state") and not dtype.is_complex:
            whole = whole.abs() + 0.5
    else:
        bound = 2 if dtype == torch.bool else _bound(declared.name, document)
        whole = torch.randint(bound, (elements,), generator=generator)
    return whole.to(dtype).as_strided(recorded.shape, recorded.strides, recorded.offset)


def _bound(name: str, document: Document) -> int:
    """What integers stay below so that whatever indexes with them, or with views and casts of them,
    finds something; 2 if nothing known does."""
    same, bounds = {name}, []
    for operation in document.operations:
        if not same.isdisjoint(operation.reads()):
            if operation.is_view or operation.operator in ("aten._to_copy", "aten.clone"):
                same.add(operation.results[0])
            else:
                bounds += _indexed_lengths(operation, same, document)
    return max(1, min(bounds, default=2))


def _indexed_lengths(operation: Operation, indices: set[str], document: Document) -> list[int]:
    def type_of(position: int) -> Type | None:
        argument = operation.args[position] if position < len(operation.args) else None
        return document.types[argument.name] if isinstance(argument, Ref) else None

    if operation.operator == "aten.index.Tensor":
        whole, listed = type_of(0), operation.args[1]
        assert isinstance(listed, list)
        pairs = zip(listed, whole.shape if whole else (), strict=False)
        return [n for ref, n in pairs if isinstance(ref, Ref) and ref.name in indices]
    if operation.operator not in _INDEXING:
        return []
    position, tensor, dimension = _INDEXING[operation.operator]
    index, whole = operation.args[position], type_of(tensor)
    if not isinstance(index, Ref) or index.name not in indices or whole is None:
        return []
    if dimension is None:
        dimension = int(str(operation.args[tensor + 1]))
    return [whole.shape[dimension]]
