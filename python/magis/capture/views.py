"""Canonical spellings of views: every view has one result, and there is one spelling for each way
to read a tensor.

Dimensions and indices come out nonnegative, sizes and bounds explicit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch

from magis._torch_internals import OpOverload
from magis.capture.builder import Builder
from magis.capture.ir import Value
from magis.capture.rules import Rule

_aten = torch.ops.aten


def _fake(value: Value) -> torch.Tensor:
    assert value.fake is not None
    return value.fake


def _dim(value: Value, dim: int) -> int:
    return dim % max(int(_fake(value).dim()), 1)


def _argument(
    args: Sequence[Any], kwargs: dict[str, Any], position: int, name: str, default: Any
) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def slice_view(b: Builder, x: Value, dim: int, start: int, end: int, step: int = 1) -> Value:
    args = [dim, start, end] + ([step] if step != 1 else [])
    return b.view(_aten.slice.Tensor, x, *args)


def _swap(b: Builder, node: torch.fx.Node, x: Value, first: int, second: int) -> Value:
    order = list(range(_fake(x).dim()))
    if order:
        first, second = _dim(x, first), _dim(x, second)
        order[first], order[second] = second, first
    return b.permute(x, order, node.meta["val"])


def _transpose_last(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    x: Value = args[0]
    return _swap(b, node, x, -2, -1) if _fake(x).dim() >= 2 else x


def _transpose(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    return _swap(b, node, args[0], args[1], args[2])


def _reverse_dims(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    return b.permute(args[0], range(_fake(args[0]).dim())[::-1], node.meta["val"])


def _permute(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    return b.permute(args[0], [_dim(args[0], d) for d in args[1]], node.meta["val"])


def _view(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    made = node.meta["val"]
    return b.view(_aten.view.default, args[0], [int(n) for n in made.shape], result=made)


def _expand(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    made = node.meta["val"]
    return b.view(_aten.expand.default, args[0], [int(n) for n in made.shape], result=made)


def _slice(b: Builder, node: torch.fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    x: Value = args[0]
    dim = _dim(x, _argument(args, kwargs, 1, "dim", 0))
    start = _argument(args, kwargs, 2, "start", None)
    end = _argument(args, kwargs, 3, "end", None)
    step = _argument(args, kwargs, 4, "step", 1)
    start, end, step = slice(start, end, step).indices(int(_fake(x).shape[dim]))
    return slice_view(b, x, dim, start, max(start, end), step)


def _narrow(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    x, dim, start, length = args
    dim = _dim(x, dim)
    start %= max(int(_fake(x).shape[dim]), 1)
    return slice_view(b, x, dim, start, start + length)


def _select(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    x, dim, index = args
    dim = _dim(x, dim)
    index %= int(_fake(x).shape[dim])
    return b.view(_aten.select.int, x, dim, index, result=node.meta["val"])


def _unsqueeze(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    x, dim = args
    dim %= _fake(x).dim() + 1
    return b.view(_aten.unsqueeze.default, x, dim, result=node.meta["val"])


def _squeeze_all(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    x: Value = args[0]
    ones = [d for d, n in enumerate(_fake(x).shape) if n == 1]
    return b.view(_aten.squeeze.dims, x, ones) if ones else x


def _squeeze_dim(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    return b.view(_aten.squeeze.dim, args[0], _dim(args[0], args[1]))


def _squeeze_dims(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    return b.view(_aten.squeeze.dims, args[0], [_dim(args[0], d) for d in args[1]])


def _as_strided(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    return strided_view(b, args[0], node.meta["val"])


def strided_view(b: Builder, x: Value, like: torch.Tensor) -> Value:
    """The storage of `x` read as `like` says."""
    shape, strides = [int(n) for n in like.shape], [int(s) for s in like.stride()]
    return b.view(_aten.as_strided.default, x, shape, strides, int(like.storage_offset()))


def _diagonal(b: Builder, node: torch.fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Value:
    x: Value = args[0]
    offset = _argument(args, kwargs, 1, "offset", 0)
    first = _dim(x, _argument(args, kwargs, 2, "dim1", 0))
    second = _dim(x, _argument(args, kwargs, 3, "dim2", 1))
    return b.view(_aten.diagonal.default, x, offset, first, second)


def _unfold(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    x, dim, size, step = args
    return b.view(_aten.unfold.default, x, _dim(x, dim), size, step)


def _one_to_one(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    return b.view(node.target, *args, result=node.meta["val"])


def _pieces(
    b: Builder, node: torch.fx.Node, args: list[Any], kwargs: dict[str, Any]
) -> list[Value]:
    """split, chunk, tensor_split: consecutive pieces whose lengths are those of the results."""
    x: Value = args[0]
    dim = _dim(x, _argument(args, kwargs, 2, "dim", 0))
    lengths = [int(piece.shape[dim]) for piece in node.meta["val"]]
    ends = list(accumulate(lengths))
    return [slice_view(b, x, dim, end - n, end) for end, n in zip(ends, lengths, strict=True)]


def _unbind(
    b: Builder, node: torch.fx.Node, args: list[Any], kwargs: dict[str, Any]
) -> list[Value]:
    x: Value = args[0]
    dim = _dim(x, _argument(args, kwargs, 1, "dim", 0))
    return [b.view(_aten.select.int, x, dim, i) for i in range(int(_fake(x).shape[dim]))]


def _same(_b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    value: Value = args[0]
    return value


def _lift_copy(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    """A fresh copy of a literal; nothing in a functional graph writes to it, so the literal itself
    will do.
    """
    x: Value = args[0]
    if x.root.input is not None and x.root.input.kind == "const":
        return x
    return b.run_one(_aten.clone.default, (x,))


def _conjugate(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    """Lazy conjugation is a flag on a view; the graph has none, so it is done."""
    return b.run_one(_aten.conj_physical.default, (args[0],))


def _negate(b: Builder, node: torch.fx.Node, args: list[Any], _k: dict[str, Any]) -> Value:
    return b.run_one(_aten.neg.default, (args[0],))


VIEW_RULES: dict[OpOverload, Rule] = {
    _aten.t.default: _transpose_last,
    _aten.mT.default: _transpose_last,
    _aten.transpose.int: _transpose,
    _aten.numpy_T.default: _reverse_dims,
    _aten.permute.default: _permute,
    _aten.view.default: _view,
    _aten._unsafe_view.default: _view,
    _aten._reshape_alias.default: _view,
    _aten.expand.default: _expand,
    _aten.slice.Tensor: _slice,
    _aten.narrow.default: _narrow,
    _aten.select.int: _select,
    _aten.unsqueeze.default: _unsqueeze,
    _aten.squeeze.default: _squeeze_all,
    _aten.squeeze.dim: _squeeze_dim,
    _aten.squeeze.dims: _squeeze_dims,
    _aten.as_strided.default: _as_strided,
    _aten.diagonal.default: _diagonal,
    _aten.unfold.default: _unfold,
    _aten.view.dtype: _one_to_one,
    _aten.view_as_real.default: _one_to_one,
    _aten.view_as_complex.default: _one_to_one,
    _aten.split.Tensor: _pieces,
    _aten.split_with_sizes.default: _pieces,
    _aten.unsafe_split.Tensor: _pieces,
    _aten.unsafe_split_with_sizes.default: _pieces,
    _aten.chunk.default: _pieces,
    _aten.unsafe_chunk.default: _pieces,
    _aten.tensor_split.sections: _pieces,
    _aten.tensor_split.indices: _pieces,
    _aten.unbind.int: _unbind,
    _aten.detach.default: _same,
    _aten.alias.default: _same,
    _aten.lift.default: _same,
    _aten.lift_fresh.default: _same,
    _aten.resolve_conj.default: _same,
    _aten.resolve_neg.default: _same,
    _aten.lift_fresh_copy.default: _lift_copy,
    _aten._conj.default: _conjugate,
    _aten._neg_view.default: _negate,
}
