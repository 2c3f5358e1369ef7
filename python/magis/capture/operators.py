"""Operators that ATen lacks, as `torch.ops.magis.*`. Importing this module registers them.

magis::bernoulli(size, stride, p, *, dtype, device=None)
    A dense tensor of zeros and ones laid out by `stride`, drawn from the default generator in
    memory order: what `torch.empty_like(x).bernoulli_(p)` does in eager mode. ATen's functional
    `bernoulli` draws in another order when x is not contiguous, hence other bits.
"""

from __future__ import annotations

import torch

from magis._torch_internals import OpOverload

_library = torch.library.Library("magis", "FRAGMENT")
_library.define(
    "bernoulli(int[] size, int[] stride, float p, *, ScalarType dtype, Device? device=None)"
    " -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)


def _bernoulli(
    size: list[int],
    stride: list[int],
    p: float,
    *,
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device=device).bernoulli_(p)


def _bernoulli_fake(
    size: list[int],
    stride: list[int],
    p: float,
    *,
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


_library.impl("bernoulli", _bernoulli, "CompositeExplicitAutograd")
torch.library.register_fake("magis::bernoulli", _bernoulli_fake, lib=_library)

bernoulli: OpOverload = torch.ops.magis.bernoulli.default
