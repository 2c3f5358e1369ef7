"""Operators that ATen lacks, as `torch.ops.magis.*`. Importing this module registers them.

magis::bernoulli(size, stride, p, *, dtype, device=None)
    A dense tensor of zeros and ones laid out by `stride`, drawn from the default generator in
    memory order: what `torch.empty_like(x).bernoulli_(p)` does in eager mode. ATen's functional
    `bernoulli` draws in another order when x is not contiguous, hence other bits.
"""

from __future__ import annotations

from typing import Any

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

_rnn = torch.library.Library("magis_rnn", "FRAGMENT")
_rnn.define(
    str(torch.ops.aten.mkldnn_rnn_layer.default._schema)
    .removeprefix("aten::")
    .replace("mkldnn_rnn_layer", "layer", 1)
)


def _rnn_layer(*args: Any) -> Any:
    with torch.enable_grad():
        results = torch.ops.aten.mkldnn_rnn_layer(*args)
    return tuple(None if result is None else result.detach() for result in results)


_rnn.impl("layer", _rnn_layer, "CompositeExplicitAutograd")

rnn_layer: OpOverload = torch.ops.magis_rnn.layer.default
bernoulli: OpOverload = torch.ops.magis.bernoulli.default
