"""The callables behind the operators that the text language names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from magis.errors import PlanError
from magis.functional_forms import find_functional_form


def find_operator(name: str) -> Callable[..., Any]:
    """The callable that the text language's `<namespace>.<operator>[.<overload>]` means."""
    if name in _OWN_OPERATORS:
        return _OWN_OPERATORS[name]
    namespace, operator, *rest = name.split(".")
    overload = rest[0] if rest else "default"
    found: Callable[..., Any] | None
    try:
        found = getattr(getattr(getattr(torch.ops, namespace), operator), overload)
    except AttributeError:
        found = find_functional_form(namespace, operator, overload)
    if found is None:
        raise PlanError(f"there is no operator {name} in this PyTorch")
    return found


def _bernoulli(
    shape: list[int],
    strides: list[int],
    p: float,
    *,
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device=device).bernoulli_(p)


def _pack_bits(mask: Tensor) -> Tensor:
    groups = mask.unflatten(-1, (-1, 8)).to(torch.int32)
    places = torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.int32, device=mask.device)
    return (groups * places).sum(-1).to(torch.uint8)


def _unpack_bits(bits: Tensor, dtype: torch.dtype) -> Tensor:
    places = torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.uint8, device=bits.device)
    return (bits.unsqueeze(-1).bitwise_and(places) != 0).flatten(-2).to(dtype)


_OWN_OPERATORS: dict[str, Callable[..., Any]] = {
    "magis.bernoulli": _bernoulli,
    "magis.pack_bits": _pack_bits,
    "magis.unpack_bits": _unpack_bits,
    # Averages over several processes, here over one.
    "magis.begin_average": lambda gradient: gradient.clone(),
    "magis.begin_average_": lambda gradient: gradient,
    "magis.end_average": lambda begun, later: begun.clone(),
    "magis.end_average_": lambda begun, later: begun,
}
