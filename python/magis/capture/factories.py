"""Canonical spellings of tensors made from nothing, and of copies.

`zeros_like(x)` reads only the layout of x, yet would keep x alive: factories come out as `full`
with an explicit shape.
"""

from __future__ import annotations

from typing import Any

import torch

from magis._torch_internals import OpOverload
from magis.capture.builder import Builder, is_dense
from magis.capture.ir import Value
from magis.capture.rules import Rule

_aten = torch.ops.aten


def _filled(fill: Any) -> Rule:
    """The rule for an operator whose result holds `fill` everywhere."""

    def rule(b: Builder, node: torch.fx.Node, _args: list[Any], _k: dict[str, Any]) -> Any:
        made = node.meta["val"]
        if not is_dense(made):
            return None
        return b.full(made, fill)

    return rule


def _filled_by_argument(position: int) -> Rule:
    def rule(b: Builder, node: torch.fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        made = node.meta["val"]
        fill = args[position] if len(args) > position else kwargs["fill_value"]
        return b.full(made, fill) if is_dense(made) else None

    return rule


def _empty(b: Builder, node: torch.fx.Node, _args: list[Any], _k: dict[str, Any]) -> Any:
    made = node.meta["val"]
    shape, strides = [int(n) for n in made.shape], [int(s) for s in made.stride()]
    kwargs = {"dtype": made.dtype, "device": made.device}
    if made.is_contiguous():
        return b.run_one(_aten.empty.memory_format, (shape,), kwargs, made)
    return b.run_one(_aten.empty_strided.default, (shape, strides), kwargs, made)


def _copy(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Any:
    """copy(x, y): y in the dtype and layout of x. What x held is not read."""
    target, source = node.meta["val"], args[1]
    if source.fake is None or not is_dense(target) or source.fake.device != target.device:
        return None
    if source.fake.shape != target.shape:
        source = b.view(_aten.expand.default, source, [int(n) for n in target.shape])
    if source.fake.dtype != target.dtype:
        source = b.run_one(_aten._to_copy.default, (source,), {"dtype": target.dtype})
    if source.fake.stride() != target.stride() or not is_dense(source.fake):
        return b.copy_dense(source, target.stride())
    if source.root.input is not None:  # a tensor of the caller's must not stand for a copy of it
        return b.run_one(_aten.clone.default, (source,))
    return source


def _clone(b: Builder, node: torch.fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs.get("memory_format") is torch.preserve_format:
        kwargs = {}
    return b.run_one(_aten.clone.default, args[:1], kwargs, node.meta["val"])


def _to_copy(b: Builder, node: torch.fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Drops keywords that say nothing; moving a constant to the step's device makes it a constant
    there.
    """
    x: Value = args[0]
    made = node.meta["val"]
    assert x.fake is not None
    kept: dict[str, Any] = {}
    if made.dtype != x.fake.dtype:
        kept["dtype"] = made.dtype
    if made.device != x.fake.device:
        constant = x.input
        if constant is not None and constant.kind == "const" and made.device == b.device:
            assert constant.data is not None
            x = b.input("const", "", "lit", made, constant.data.to(made.dtype))
            return x
        kept["device"] = made.device
    if kwargs.get("memory_format") not in (None, torch.preserve_format):
        kept["memory_format"] = kwargs["memory_format"]
    if not {"dtype", "device"} & kept.keys():
        return b.run_one(_aten.clone.default, (x,), kept, made)
    return b.run_one(_aten._to_copy.default, (x,), kept, made)


FACTORY_RULES: dict[OpOverload, Rule] = {
    _aten.zeros.default: _filled(0),
    _aten.zeros_like.default: _filled(0),
    _aten.new_zeros.default: _filled(0),
    _aten.zero.default: _filled(0),
    _aten.ones.default: _filled(1),
    _aten.ones_like.default: _filled(1),
    _aten.new_ones.default: _filled(1),
    _aten.full.default: _filled_by_argument(1),
    _aten.full_like.default: _filled_by_argument(1),
    _aten.new_full.default: _filled_by_argument(2),
    _aten.fill.Scalar: _filled_by_argument(1),
    _aten.empty.memory_format: _empty,
    _aten.empty_like.default: _empty,
    _aten.empty_strided.default: _empty,
    _aten.new_empty.default: _empty,
    _aten.new_empty_strided.default: _empty,
    _aten.copy.default: _copy,
    _aten.clone.default: _clone,
    _aten._to_copy.default: _to_copy,
}
