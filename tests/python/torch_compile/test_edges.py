"""Graphs at the edges of what torch.compile hands over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from compile_support import compiled
from torch import nn
from torch.nn import functional as F


def views_alone(x: torch.Tensor) -> Any:
    return x.view(-1), x.t()


def input_among_the_outputs(x: torch.Tensor) -> Any:
    return x, x * 2, None


def one_twice(x: torch.Tensor) -> Any:
    y = x.sin()
    return y, y, y.view(-1), y.detach(), (y > 0)


def written_input(x: torch.Tensor) -> Any:
    y = x.clone()
    y.mul_(3)
    return y.sum(0), y


def numbers_and_dicts(x: torch.Tensor) -> Any:
    return {"a": x.exp(), "n": x.shape[0], "b": [x.sum(), 2.5]}


def without_gradient(x: torch.Tensor) -> Any:
    with torch.no_grad():
        scale = x.abs().mean()
    return x * scale, scale


def expanded(x: torch.Tensor) -> Any:
    return x[:1].expand(4, -1), x.sum().expand(3)


def constants(x: torch.Tensor) -> Any:
    return x * torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.arange(4) + torch.ones(4)


def checkpointed(x: torch.Tensor) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda t: t.sin().exp().cos(), x, use_reentrant=False)


def empty(x: torch.Tensor) -> Any:
    return x[:0].sin(), x.sum()


EDGES = [
    *(views_alone, input_among_the_outputs, one_twice, written_input, numbers_and_dicts),
    *(without_gradient, expanded, constants, checkpointed, empty),
]


def tensors_in(result: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("function", EDGES, ids=lambda function: function.__name__)
def test_results_and_gradients_are_those_of_eager(
    function: Callable[..., Any], trained: bool
) -> None:
    torch.manual_seed(0)
    leaf = torch.randn(4, 4)
    outcomes = []
    for run in (compiled(function), function):
        x = leaf.clone().requires_grad_(trained)
        with torch.set_grad_enabled(trained):
            result = run(x * 1 if trained else x)
        tensors = tensors_in(result)
        if trained:
            differentiable = [t.float().square().sum() for t in tensors if t.requires_grad]
            torch.stack(differentiable).sum().backward()
        outcomes.append((result, tensors, x.grad))
    (ours, found, gradient), (theirs, expected, expected_gradient) = outcomes
    assert str(type(ours)) == str(type(theirs))
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()
        assert a.requires_grad == b.requires_grad
    if expected_gradient is not None:
        assert gradient is not None
        assert torch.equal(gradient, expected_gradient)


def test_an_input_that_the_code_writes_to() -> None:
    def function(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        old = state.sum()
        state.add_(1)
        return (x * state + old).sum()

    states = []
    for run in (compiled(function), function):
        x, state = torch.ones(4, requires_grad=True), torch.arange(4.0)
        run(x, state).backward()
        states.append((state, x.grad))
    assert torch.equal(states[0][0], states[1][0])
    assert torch.equal(states[0][1], states[1][1])


def test_only_one_of_the_outputs_is_differentiated() -> None:
    def function(x: torch.Tensor) -> Any:
        return x.sin(), x.exp()

    x = torch.ones(4, requires_grad=True)
    compiled(function)(x)[0].sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(4).cos())


def test_a_second_derivative_is_refused() -> None:
    x = torch.ones(4, requires_grad=True)
    y = compiled(lambda x: (x**3).sum())(x)
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()


def test_what_cannot_be_planned_is_said() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.randn(1, 1, 128, 16)
    with pytest.raises(Exception, match=r"flex_attention, which is not an operator with a schema"):
        compiled(lambda q: flex_attention(q, q, q).sum())(q)


def test_a_compiled_module_in_distributed_data_parallel(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), torch.randn(3, 4)
    model(x).square().sum().backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(compiled(model))
        wrapped(x).square().sum().backward()
    finally:
        dist.destroy_process_group()
    for found, gradient in zip([p.grad for p in model.parameters()], expected, strict=True):
        torch.testing.assert_close(found, gradient)


def test_recurrent_layers_and_convolutions() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(4, 8, 3, padding=1)
            self.gru = nn.GRU(8, 8, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden, _ = self.gru(F.relu(self.conv(x)).transpose(1, 2))
            return hidden.square().mean()

    torch.manual_seed(0)
    model, x = Mixed(), torch.randn(2, 4, 16)
    compiled(model)(x).backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    model(x).backward()
    for a, b in zip(found, [p.grad for p in model.parameters()], strict=True):
        torch.testing.assert_close(a, b)
