"""A training loop written with Accelerate, with a planned step in place of loss and backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import nn
from torch.nn import functional as F

import magis


def loss_fn(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


@pytest.mark.filterwarnings("ignore:magis gained nothing")
@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
def test_training_is_the_same(precision: str, inside: bool) -> None:
    def trained(planned: bool) -> dict[str, Any]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 4))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        batches = [(torch.randn(32, 8), torch.randint(0, 4, (32,))) for _ in range(6)]
        AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = Accelerator(cpu=True, mixed_precision=precision)
        model = accelerator.prepare(model)
        options: dict[str, Any] = {"latency_limit": 1.2, "time_budget": 0.1, "exact": True}
        if inside:
            options["optimizer"] = optimizer
        step = magis.optimize(model, loss_fn, batches[0], **options) if planned else None
        torch.manual_seed(1)
        for x, y in batches:
            if step is not None:
                step(x, y)
            else:
                accelerator.backward(loss_fn(model, x, y))
            if step is None or not inside:
                optimizer.step()
                optimizer.zero_grad()
        return dict(accelerator.unwrap_model(model).state_dict())

    found, expected = trained(True), trained(False)
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
