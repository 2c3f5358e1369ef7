"""Small models and the comparison of two trainings, bit by bit."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import magis


class Network(nn.Module):
    """Every kind of state: batch norm, dropout, tied weights, a frozen and an unused parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.norm = nn.BatchNorm1d(8)
        self.hidden = nn.Linear(8, 8)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight
        self.frozen = nn.Linear(8, 8)
        self.frozen.requires_grad_(False)
        self.unused = nn.Linear(3, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.embed(tokens).mean(1))
        hidden = self.dropout(torch.tanh(self.hidden(hidden)))
        return self.head(hidden + self.frozen(hidden))


def cross_entropy(model: nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens), labels)


def token_batch(size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 11, (size, 5)), torch.randint(0, 11, (size,))


class Line(nn.Module):
    """y = w x + b, small enough to know every gradient by heart."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([2.0, 3.0]))
        self.b = nn.Parameter(torch.tensor([1.0, 1.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w * x + self.b


def squares(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Gradients for x = (1, 1): dw = db = 2 (w + b) = (6, 8)."""
    return (model(x) ** 2).sum()


def plan(model: nn.Module, loss_fn: Any, batch: Any, **options: Any) -> magis.Step:
    """`magis.optimize` with a short search; small graphs rarely leave anything to gain."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="magis gained nothing")
        return magis.optimize(model, loss_fn, batch, **{"time_budget": 0.05, **options})


def eager(model: nn.Module, loss_fn: Any, *args: Any, **kwargs: Any) -> Any:
    """What the step stands for: the result detached, gradients added."""
    result = loss_fn(model, *args, **kwargs)
    loss = result[0] if isinstance(result, tuple) else result
    loss.backward()
    if isinstance(result, tuple):
        return tuple(r.detach() if isinstance(r, torch.Tensor) else r for r in result)
    return result.detach()


def twin(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model)


def state_of(model: nn.Module) -> dict[str, torch.Tensor | None]:
    """Parameters, gradients, buffers and the generator, cloned."""
    state: dict[str, torch.Tensor | None] = {"generator": torch.get_rng_state()}
    for name, parameter in model.named_parameters():
        state[name] = parameter.detach().clone()
        state[f"{name}.grad"] = None if parameter.grad is None else parameter.grad.clone()
    for name, buffer in model.named_buffers():
        state[f"{name} (buffer)"] = buffer.clone()
    return state


def assert_same(
    left: dict[str, torch.Tensor | None], right: dict[str, torch.Tensor | None]
) -> None:
    """Bit by bit, layouts included."""
    assert left.keys() == right.keys()
    for name, value in left.items():
        other = right[name]
        if value is None or other is None:
            assert value is other, name
            continue
        assert value.dtype == other.dtype, name
        assert value.stride() == other.stride(), name
        assert torch.equal(value, other), name
