"""Loss scaling: gradients, skipped updates and the scale are those of GradScaler with eager."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from runtime_support import plan, squares
from torch import nn
from torch.nn import functional as F

import magis
from magis.errors import GuardError, MagisError


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4))


def loss_fn(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    with torch.autocast("cpu", torch.float16):
        logits = model(x)
        return F.cross_entropy(logits.float(), y), logits


@pytest.mark.parametrize("by_keywords", [False, True])
def test_training_in_fp16(by_keywords: bool) -> None:
    def batch(scale: float) -> dict[str, torch.Tensor]:
        return {"x": scale * torch.randn(16, 8), "y": torch.randint(0, 4, (16,))}

    def call(function: Any, data: dict[str, torch.Tensor], **more: Any) -> Any:
        return function(**data, **more) if by_keywords else function(*data.values(), **more)

    ours = network()
    theirs = copy.deepcopy(ours)
    example = batch(1.0)
    step = plan(ours, loss_fn, example if by_keywords else tuple(example.values()), grad_scale=True)
    scalers = [torch.amp.GradScaler("cpu", init_scale=2.0**16) for _ in range(2)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (ours, theirs)]
    for size in (1.0, 1e4, 1.0, 1.0):  # the second overflows: its update is skipped
        data = batch(size)
        known = scalers[0].get_scale() if size > 1 else scalers[0]
        loss, logits = call(step, data, grad_scale=known)
        expected, expected_logits = call(lambda *a, **k: loss_fn(theirs, *a, **k), data)
        scalers[1].scale(expected).backward()
        assert torch.equal(loss, expected)
        assert torch.equal(logits, expected_logits)
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert a.grad is not None
            assert b.grad is not None
            assert torch.equal(a.grad.nan_to_num(), b.grad.nan_to_num())
        for scaler, optimizer in zip(scalers, optimizers, strict=True):
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        assert scalers[0].get_scale() == scalers[1].get_scale()
        assert all(map(torch.equal, ours.parameters(), theirs.parameters()))
    assert scalers[0].get_scale() < 2.0**16


def test_the_scale_has_to_be_given() -> None:
    step = plan(network(), squares, (torch.randn(4, 8),), grad_scale=True)
    with pytest.raises(GuardError, match="give it grad_scale=scaler"):
        step(torch.randn(4, 8))
    plain = plan(network(), squares, (torch.randn(4, 8),))
    with pytest.raises(GuardError, match=r"takes no grad_scale: plan it .* grad_scale=True"):
        plain(torch.randn(4, 8), grad_scale=2.0)


def test_arguments_that_make_no_sense() -> None:
    model, batch = network(), (torch.randn(4, 8),)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(MagisError, match=r"a GradScaler may skip an update"):
        magis.optimize(model, squares, batch, optimizer=optimizer, grad_scale=True)
    with pytest.raises(MagisError, match=r"needs loss_fn"):
        magis.optimize(model, None, batch, grad_scale=True)
    with pytest.raises(MagisError, match=r"a \"grad_scale\" of its own"):
        magis.optimize(model, squares, {"grad_scale": 1.0}, grad_scale=True)
