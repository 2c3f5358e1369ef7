"""Operators that users and libraries register, transforms, and what modules do to their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from capture_support import check_step
from torch import nn
from torch.nn.utils import parametrizations


@torch.library.custom_op("magis_tests::scaled_sine", mutates_args=())
def scaled_sine(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.sin(x) * scale


@scaled_sine.register_fake
def _(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: tuple[torch.Tensor, float], output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


def _differentiate(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
    return grad * torch.cos(ctx.saved_tensors[0]) * ctx.scale, None


scaled_sine.register_autograd(_differentiate, setup_context=_keep)

EDGES = torch.tensor([[0, 1, 1, 3], [1, 2, 0, 0]])


def gathered(h: torch.Tensor) -> torch.Tensor:
    messages = h[EDGES[0]].relu()
    return torch.zeros_like(h).scatter_add(0, EDGES[1][:, None].expand_as(messages), messages)


@pytest.mark.parametrize(
    "function",
    [
        lambda h: torch.ops.magis_tests.scaled_sine(h, 2.0),
        lambda h: torch.vmap(lambda row: row.outer(row).sum(0))(h),
        lambda h: torch.view_as_complex(h.view(4, 4, 2)).abs(),
        lambda h: torch.stft(h, 4, 2, window=torch.hann_window(4), return_complex=True).abs(),
        lambda h: F.grid_sample(h.view(1, 2, 4, 4), h.view(1, 4, 4, 2).tanh(), align_corners=False),
        lambda h: torch.linalg.solve(h @ h.T + torch.eye(4), h),
        gathered,
    ],
)
def test_operators(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return function(m(x)).square().mean()

    check_step(nn.Linear(8, 8), loss, torch.randn(4, 8))


def test_a_users_operator_keeps_its_namespace() -> None:
    step = check_step(nn.Linear(8, 8), lambda m, x: scaled_sine(m(x), 2.0).sum(), torch.randn(4, 8))
    assert "= magis_tests.scaled_sine(%" in step.text


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.utils.spectral_norm(nn.Linear(8, 8)),
        lambda: parametrizations.orthogonal(nn.Linear(8, 8)),
        lambda: nn.EmbeddingBag(20, 8),
    ],
)
def test_modules(make: Callable[[], nn.Module]) -> None:
    model = make()
    bags = (torch.randint(0, 20, (7,)), torch.tensor([0, 3, 5]))
    batch = bags if isinstance(model, nn.EmbeddingBag) else (torch.randn(4, 8),)
    check_step(model, lambda m, *b: m(*b).square().mean(), batch)


def test_a_gradient_penalty() -> None:
    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        slope = torch.autograd.grad(m(x).sum(), x, create_graph=True)[0]
        return (slope.norm(2, dim=1) - 1).square().mean()

    check_step(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)), loss, torch.randn(4, 8))
