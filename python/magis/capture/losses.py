"""Losses that reduce inside the storage of their elements: the scalar that comes out keeps all of
it alive.

PyTorch writes the loss of each element first, then the reduction to the same tensor, shrunk to one
element. Tracing sees the shape only.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from magis.capture.builder import Builder
from magis.capture.ir import Value
from magis.capture.rules import Rule

_aten = torch.ops.aten
_NO_REDUCTION = 0


def _reduced_in_place(position: int) -> Rule:
    """The rule for a loss whose argument at `position` says how to reduce."""

    def rule(b: Builder, node: torch.fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        reduction = args[position] if len(args) > position else kwargs.get("reduction", 1)
        if reduction == _NO_REDUCTION:
            return None
        made: torch.Tensor = node.meta["val"]
        fakes = [arg.fake for arg in args[:2] if isinstance(arg, Value) and arg.fake is not None]
        elements = math.prod(torch.broadcast_shapes(*(fake.shape for fake in fakes)))
        with b.fake_mode:
            whole = torch.empty(max(elements, 1), dtype=made.dtype, device=made.device)
            scalar = whole.as_strided((), ())
        return b.run_one(node.target, args, kwargs, scalar)

    return rule


LOSS_RULES = {
    _aten.mse_loss.default: _reduced_in_place(2),
    _aten.smooth_l1_loss.default: _reduced_in_place(2),
    _aten.soft_margin_loss.default: _reduced_in_place(2),
    _aten.binary_cross_entropy.default: _reduced_in_place(3),
}
