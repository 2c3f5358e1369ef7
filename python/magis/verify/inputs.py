"""Finds a text's inputs in the model and the batch that it was captured from."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from magis.errors import PlanError
from magis.verify.evaluator import Value
from magis.verify.text import parse


def inputs_from(
    text: str, model: nn.Module, batch: Any, *, state: Mapping[str, Tensor] | None = None
) -> dict[str, Value]:
    """The inputs that `text` names, from the model that it was captured from and a batch of the
    same structure.

    Parameters, buffers and gradients are found by module path, the batch's tensors and scalars by
    their place in `batch` ("[0]", "['input_ids']"), optimizer state in `state` by path. Values by
    name, as `evaluate` takes them.
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
