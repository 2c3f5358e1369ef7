"""The callables behind the operators that the text language names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from magis.errors import PlanError


def find_operator(name: str) -> Callable[..., Any]:
    """The callable that the text language's `<namespace>.<operator>[.<overload>]` means."""
    if name in _OWN_OPERATORS:
        return _OWN_OPERATORS[name]
    namespace, operator, *overload = name.split(".")
    found: Callable[..., Any]
    try:
        packet = getattr(getattr(torch.ops, namespace), operator)
        found = getattr(packet, overload[0] if overload else "default")
    except AttributeError:
        raise PlanError(f"there is no operator {name} in this PyTorch") from None
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


_OWN_OPERATORS: dict[str, Callable[..., Any]] = {"magis.bernoulli": _bernoulli}
