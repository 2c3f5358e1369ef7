"""Layouts of what in-place operators have written to.

Eager computes in place on the strides that a tensor has, as a GRU's cells do on the pieces of one
product. Functionalised, the result is a new tensor, laid out densely, and a kernel that is not
exact rounds otherwise there: its vectors end elsewhere. What such a kernel reads is laid out again
as eager has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch

from magis import _torch_internals as internals
from magis._torch_internals import OpOverload
from magis.capture.builder import inverse, memory_order

_aten = torch.ops.aten

# Each element comes out the same wherever it lies: moved, compared, or rounded once by IEEE's
# rules for each operation.
_EXACT = frozenset(
    {
        *("add", "sub", "rsub", "mul", "div", "neg", "abs", "sqrt", "clone", "copy", "_to_copy"),
        *("relu", "threshold_backward", "sigmoid_backward", "tanh_backward", "where", "clamp"),
        *("maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "cat", "stack"),
        *("slice_scatter", "select_scatter", "masked_fill", "fill", "zero", "bernoulli"),
    }
)


def lay_out_written(func: OpOverload, operands: Iterable[torch.Tensor]) -> None:
    """Gives those `operands` of `func` that were written to the strides that they have in eager."""
    name = func._schema.name.partition("::")[2]
    if func.is_view or name.removesuffix("_") in _EXACT:
        return
    for tensor in operands:
        if internals.is_written_base(tensor):
            current = internals.unwrap_functional(tensor)
            if _significant(current) != _significant(tensor):
                laid_out = _laid_out(tensor, tensor.stride())
                if laid_out is not None:
                    internals.replace_functional(tensor, laid_out)


def _significant(tensor: torch.Tensor) -> list[int]:
    """Strides of the dimensions longer than 1: no kernel goes by the others."""
    return [s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]


def _laid_out(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor | None:
    """A copy in these strides; None if they are not those of a slice of a dense tensor."""
    like = torch.empty_strided(tensor.shape, tuple(strides), device="meta")
    order = memory_order(like)
    room = _room(like, order)
    if room is None:
        return None
    copy = _aten.permute.default(tensor, order)
    lengths = [int(n) for n in copy.shape]
    if room == lengths:
        copy = _aten.clone.default(copy, memory_format=torch.contiguous_format)
    else:
        pads = [p for n, r in zip(lengths[::-1], room[::-1], strict=True) for p in (0, r - n)]
        copy = _aten.constant_pad_nd.default(copy, pads)
        for dim, (length, whole) in enumerate(zip(lengths, room, strict=True)):
            if length != whole:
                copy = _aten.slice.Tensor(copy, dim, 0, length)
    result: torch.Tensor = _aten.permute.default(copy, inverse(order))
    return result


def _room(like: torch.Tensor, order: Sequence[int]) -> list[int] | None:
    """Lengths, in memory order, of the dense tensor of which `like` is a slice from its start."""
    room = [int(like.shape[d]) for d in order]
    long = [position for position, n in enumerate(room) if n > 1]
    strides = [int(like.stride(order[position])) for position in long]
    if not strides or strides[-1] != 1:
        return None
    for position, (outer, inner) in zip(long[1:], pairwise(strides), strict=True):
        if outer % inner or outer // inner < room[position]:
            return None
        room[position] = outer // inner
    return room
