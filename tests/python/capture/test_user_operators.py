"""Operators that users and libraries register, transforms, and what modules do to their weights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from capture_support import check_step
from torch import nn
from torch.nn.utils import parametrizations

from magis.capture import capture
from magis.errors import CaptureError


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


@torch.library.custom_op("magis_tests::scale_into", mutates_args=("out", "calls"))
def scale_into(x: torch.Tensor, out: torch.Tensor, calls: torch.Tensor, by: float) -> torch.Tensor:
    out.copy_(x * by)
    calls.add_(1)
    return x.sum()


@scale_into.register_fake
def _(x: torch.Tensor, out: torch.Tensor, calls: torch.Tensor, by: float) -> torch.Tensor:
    return x.new_empty(())


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, calls: torch.Tensor) -> torch.Tensor:
        out = torch.ones(2, *x.shape)
        total = scale_into(x, out[1], calls, 3.0)
        return out.sum(0) + total

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * 3 + grad.sum(), None


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        return _Scaled.apply(h.t(), self.calls) * _Scaled.apply(h.t(), self.calls)  # type: ignore[no-any-return]


def test_an_operator_that_writes_to_its_operands() -> None:
    step = check_step(Counting(), lambda m, x: m(x).square().mean(), torch.randn(4, 8))
    assert "= magis_tests.scale_into_functional(%" in step.text
    assert 'output buffer "calls"' in step.text


def test_a_plan_with_an_operator_that_writes_runs_where_nothing_was_captured() -> None:
    """The operator that a plan has in its place is defined when the plan is loaded."""
    code = """
import torch
library = torch.library.Library("magis_fresh", "DEF")
library.define("fill_(Tensor(a!) x, float y) -> Tensor(a!)")
library.impl("fill_", lambda x, y: x.fill_(y), "CompositeExplicitAutograd")
from magis.runtime.compiled import operator_named
from magis.verify.kernels import find_operator
x = torch.zeros(2)
print(operator_named("magis_fresh.fill__functional")(x, 2.0).tolist(), x.tolist())
assert find_operator("magis_fresh.fill__functional")(x, 2.0).tolist() == [2.0, 2.0]
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[2.0, 2.0] [0.0, 0.0]"


@torch.library.custom_op("magis_tests::double_all", mutates_args=("xs",))
def double_all(xs: list[torch.Tensor]) -> None:
    for x in xs:
        x.mul_(2)


def test_an_operator_that_writes_to_a_list_is_refused_by_name() -> None:
    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        double_all([torch.ones(2), torch.ones(3)])
        return m(x).sum()  # type: ignore[no-any-return]

    with pytest.raises(CaptureError, match=r"test_user_operators.py:\d+\).*magis_tests.double_all"):
        capture(nn.Linear(8, 8), loss, torch.randn(4, 8))


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
