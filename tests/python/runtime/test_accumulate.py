"""Calls whose gradients add up: what a loop over parts of a batch leaves, planned ahead."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from runtime_support import plan, squares
from torch import nn
from torch.nn import functional as F

import magis
from magis.errors import MagisError

PARTS = 3


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.5), nn.Linear(32, 4))


def loss_fn(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    logits = model(x)
    return F.cross_entropy(logits, y), logits


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(16, 8), torch.randint(0, 4, (16,))) for _ in range(count)]


@pytest.mark.parametrize("scale", [None, 512.0])
def test_gradients_are_those_of_the_mean_loss(scale: float | None) -> None:
    ours = network()
    theirs = copy.deepcopy(ours)
    more: dict[str, Any] = {} if scale is None else {"grad_scale": scale}
    step = plan(ours, loss_fn, batches(1)[0], accumulate=PARTS, grad_scale=scale is not None)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (ours, theirs)]
    for _ in range(2):
        for data in batches(PARTS):
            torch.manual_seed(7)
            loss, logits = step(*data, **more)
            torch.manual_seed(7)
            expected, expected_logits = loss_fn(theirs, *data)
            (expected / PARTS * (scale or 1)).backward()
            assert torch.equal(loss, expected)
            assert torch.equal(logits, expected_logits)
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert a.grad is not None
            assert b.grad is not None
            assert torch.equal(a.grad, b.grad)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        assert all(map(torch.equal, ours.parameters(), theirs.parameters()))
    assert step.eager_calls == 0


def test_both_plans_are_made_at_once_and_keep_the_limit() -> None:
    searched: list[float] = []

    def count(progress: Any) -> bool:
        searched.append(progress.elapsed)
        return True

    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(6)))
    data = [(torch.randn(256, 64),) for _ in range(2)]
    step = magis.optimize(
        *(model, squares, data[0]),
        memory_limit="60%",
        accumulate=2,
        progress=count,
        reuse_plans=False,
    )
    most = step.report.promised_peak_bytes
    peaks = []
    before = len(searched)
    for batch in data:
        step(*batch)
        assert step.report.met
        peaks.append(step.report.promised_peak_bytes)
    assert len(searched) == before
    assert max(peaks) == most
    assert step.plan.graph.text().count("\ngrad %") == 12  # the second call adds


def test_a_share_refers_to_the_calls_that_take_most() -> None:
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(*(nn.Linear(64, 64) for _ in range(6)))
    x = torch.randn(256, 64)

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(model(x), x)

    step = magis.optimize(model, loss, (x,), memory_limit="70%", accumulate=2, time_budget=0.5)
    adding = step.report
    step(x)
    first = step.report
    assert first.limit_bytes == adding.limit_bytes
    assert first.limit_bytes > 0.7 * first.baseline_peak_bytes
    assert adding.limit_bytes == int(0.7 * adding.baseline_peak_bytes)


def test_arguments_that_make_no_sense() -> None:
    model, batch = network(), (torch.randn(4, 8),)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(MagisError, match=r"uses gradients up in each call"):
        magis.optimize(model, squares, batch, optimizer=optimizer, accumulate=2)
    for wrong in (0, -1, 2.0, True):
        with pytest.raises(MagisError, match=r"whole number of calls"):
            magis.optimize(model, squares, batch, accumulate=wrong)  # type: ignore[arg-type]
    with pytest.raises(MagisError, match=r"leave accumulate= out"):
        magis.optimize(model, None, batch, accumulate=2)


def test_gradients_that_no_plan_adds_to_are_named() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
    model[0].weight.register_hook(lambda gradient: None)
    with pytest.warns(UserWarning, match=r"gradients of 512 B are added after the plan has run"):
        plan(model, squares, (torch.randn(4, 8),), accumulate=2)


def test_what_is_no_loss_is_named() -> None:
    with pytest.raises(MagisError, match=r"first item is one, not list"):
        plan(network(), lambda model, x: [model(x)], (torch.randn(4, 8),), accumulate=2)
