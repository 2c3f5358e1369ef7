"""Readable names for the values of a captured graph."""

from __future__ import annotations

import keyword
import re

from magis._torch_internals import OpOverload
from magis.capture.ir import Graph

# Words that generated code uses itself.
_RESERVED = {"torch", "aten", "inputs", "device", "step", "none", "true", "false", "inf", "nan"}

# What an operator's results beyond the first are called.
_RESULT_NAMES: dict[str, tuple[str, ...]] = {
    "aten::native_layer_norm": ("", "mean", "rstd"),
    "aten::native_group_norm": ("", "mean", "rstd"),
    "aten::native_layer_norm_backward": ("", "weight", "bias"),
    "aten::native_group_norm_backward": ("", "weight", "bias"),
    "aten::native_batch_norm_backward": ("", "weight", "bias"),
    "aten::convolution_backward": ("", "weight", "bias"),
    "aten::native_batch_norm": ("", "mean", "rstd"),
    "aten::_native_batch_norm_legit": ("", "mean", "rstd"),
    "aten::_native_batch_norm_legit_functional": (
        *("", "mean", "rstd"),
        *("running_mean", "running_var"),
    ),
    "aten::max_pool2d_with_indices": ("", "indices"),
    "aten::native_dropout": ("", "mask"),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": ("", "key", "value"),
}


class Names:
    """Distinct identifiers: mm, mm_1, mm_2, ..."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, wish: str) -> str:
        stem = re.sub(r"[^A-Za-z0-9_]+", "_", wish).strip("_") or "value"
        if stem[0].isdigit():
            stem = f"_{stem}"
        if keyword.iskeyword(stem) or stem in _RESERVED:
            stem += "_"
        name, number = stem, self._next.get(stem, 0)
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._next[stem] = number
        self._taken.add(name)
        return name


def assign_names(graph: Graph) -> None:
    """Turns wishes into names: of inputs by path, of results by operator, counted in program order.

    An operator's further results are named after the first.
    """
    names = Names()
    for item in graph.inputs:
        item.value.name = names.fresh(item.value.name)
    for statement in graph.statements:
        first, *others = statement.results
        first.name = names.fresh(first.name)
        for value in others:
            value.name = names.fresh(first.name + value.name)


def wished_name(operator: OpOverload, index: int) -> str:
    """The first result is named after the operator; others by the table above, the schema, or their
    position.
    """
    if index == 0:
        return str(operator).split(".")[1].strip("_")
    schema = operator._schema
    names = _RESULT_NAMES.get(schema.name, ())
    if index < len(names):
        return f"_{names[index]}"
    name = schema.returns[index].name if index < len(schema.returns) else ""
    return f"_{name}" if name else f"_r{index}"
