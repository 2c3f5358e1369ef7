"""The kernels that generated code runs for each operator, as plain functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from magis import _core
from magis import _torch_internals as internals
from magis.verify.kernels import find_operator


def kernel_named(name: str) -> Callable[..., Any]:
    """What generated code runs for the text language's operator `name`; of what writes parts of a
    loop's results, what it runs in iterations after the first.
    """
    return _OWN.get(name) or find_operator(name)


def in_place_kernel(
    name: str, over: int, args: list[Any], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    """What generated code runs where the operator overwrites argument `over`. Puts the arguments in
    the order that this takes.
    """
    spelling, out = _in_place_forms()[name]
    if out:
        kwargs[out] = args[over]
    else:
        args[0], args[over] = args[over], args[0]
    return find_operator(spelling)


@cache
def _in_place_forms() -> dict[str, tuple[str, str]]:
    """By operator: its spelling in place, and the keyword that takes the operand, if any."""
    return {name: (spelling, out) for name, spelling, out, _ in _core.in_place_forms()}


def _write_part(result: Tensor, dim: int, length: int, part: Tensor) -> None:
    result.narrow(dim, 0, length).copy_(part)


def _add_mm_part(result: Tensor, left: Tensor, right: Tensor) -> None:
    result.addmm_(left, right, beta=1)


def _add_bmm_part(result: Tensor, left: Tensor, right: Tensor) -> None:
    result.baddbmm_(left, right, beta=1)


def _max_part(result: Tensor, part: Tensor) -> None:
    torch.maximum(result, part, out=result)


def _min_part(result: Tensor, part: Tensor) -> None:
    torch.minimum(result, part, out=result)


# Masks as bits: the same steps as in generated code, as the reference evaluator takes others.
def _pack_bits(mask: Tensor) -> Tensor:
    words = mask.view(torch.int64) * -0x7FBFDFEFF7FBFDFF
    words >>= 56
    return words.to(torch.uint8)


def _unpack_bits(bits: Tensor, dtype: torch.dtype) -> Tensor:
    words = bits.to(torch.int64, memory_format=torch.contiguous_format)
    words *= -0x7FBFDFEFF7FBFDFF
    words >>= 7
    words &= 0x0101010101010101
    return words.view(torch.bool).to(dtype)


_OWN: dict[str, Callable[..., Any]] = {
    "magis.write_part": _write_part,
    "magis.add_part": lambda result, part: result.add_(part),
    "magis.mul_part": lambda result, part: result.mul_(part),
    "magis.any_part": lambda result, part: result.logical_or_(part),
    "magis.all_part": lambda result, part: result.logical_and_(part),
    "magis.max_part": _max_part,
    "magis.min_part": _min_part,
    # In the first iteration alone; the others do nothing.
    "magis.keep_part": lambda result, part: result,
    "magis.add_parts": internals.foreach_add,
    "magis.add_mm_part": _add_mm_part,
    "magis.add_bmm_part": _add_bmm_part,
    "magis.pack_bits": _pack_bits,
    "magis.unpack_bits": _unpack_bits,
}
