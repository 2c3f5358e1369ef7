"""Capturing leaves the model and the process exactly as they were, also when it fails."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn
from torch.nn.modules import module as module_internals
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from magis.capture import capture
from magis.errors import CaptureError


class Messy(nn.Module):
    """Changes everything about itself that a forward pass can change."""

    def __init__(self, draws: bool = False) -> None:
        super().__init__()
        self.draws = draws
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(4))
        self.register_buffer("replaced", torch.zeros(4))
        self.kept: list[Any] = []
        self.cache: dict[str, Any] = {}
        self.last: Any = None

    def forward(self, x: torch.Tensor, fail: bool = False) -> torch.Tensor:
        y = F.dropout(self.norm(self.linear(x)))
        if self.draws:
            random.random()
            np.random.rand()
        self.last = y
        self.kept.append(y)
        self.cache["y"] = y
        self.fresh = y
        self.register_buffer("late", y.detach())
        self.linear.register_forward_hook(lambda *_: None)
        self.seen.add_(1)
        self.replaced = self.replaced + 1
        if fail:
            raise ValueError("on purpose")
        return y


def snapshot(model: nn.Module) -> dict[str, Any]:
    """All that could be touched, tensors by identity, version and value."""

    def tensors(named: Any) -> dict[str, Any]:
        return {n: (id(t), t._version, t.detach().clone(), t.grad is None) for n, t in named}

    return {
        "attributes": [
            {
                k: (id(v), copy.copy(v) if isinstance(v, (list, dict)) else None)
                for k, v in d.items()
            }
            for d in (m.__dict__ for m in model.modules())
        ],
        "parameters": tensors(model.named_parameters()),
        "buffers": tensors(model.named_buffers()),
        "generator": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),
        "compiling": torch.compiler.is_compiling(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "multithreading": torch.autograd.is_multithreading_enabled(),
        "modes": _get_current_dispatch_mode_stack(),
        "hooks": [
            len(module_internals._global_forward_hooks),
            len(module_internals._global_forward_pre_hooks),
        ],
        "checkpoint": torch.utils.checkpoint.CheckpointFunction,
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
    }


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def assert_untouched(model: nn.Module, action: Callable[[], object]) -> None:
    before = snapshot(model)
    action()
    after = snapshot(model)
    changed = [key for key in before if not same(before[key], after[key])]
    assert changed == []


X = torch.randn(3, 4)


def test_after_a_capture() -> None:
    model = Messy()
    assert_untouched(model, lambda: capture(model, lambda m, x: m(x).sum(), X))


@pytest.mark.parametrize(
    "loss_fn",
    [
        lambda m, x: m(x, fail=True).sum(),
        lambda m, x: m(x).sum().item(),
        lambda m, x: m(x),
        lambda m, x: m(x).sum() * torch.zeros(1).add_(m(x)[m(x) > 0].sum()),
    ],
)
def test_after_an_error(loss_fn: Callable[..., Any]) -> None:
    model = Messy()

    def fail() -> None:
        with pytest.raises(CaptureError):
            capture(model, loss_fn, X)

    assert_untouched(model, fail)


def test_after_draws_from_other_generators() -> None:
    """What they draw would be frozen; they are put back all the same."""
    model = Messy(draws=True)

    def refused() -> None:
        with pytest.raises(CaptureError, match=r"the model: .* Python's random module"):
            capture(model, lambda m, x: m(x).sum(), X)

    assert_untouched(model, refused)


def test_under_autocast() -> None:
    model = Messy()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_untouched(model, lambda: capture(model, lambda m, x: m(x).sum(), X))
        assert type(model(X)) is torch.Tensor  # no cast of a fake weight is left in the cache


def test_ctrl_c() -> None:
    model = Messy()

    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        m(x)
        raise KeyboardInterrupt

    def interrupt() -> None:
        with pytest.raises(KeyboardInterrupt):
            capture(model, loss, X)

    assert_untouched(model, interrupt)


def test_gradients_and_hooks_stay() -> None:
    model, fired = nn.Linear(4, 4), []
    model(X).sum().backward()
    model.weight.register_hook(fired.append)
    model.weight.register_post_accumulate_grad_hook(fired.append)
    gradient = model.weight.grad
    expected = gradient.clone()
    capture(model, lambda m, x: m(x).sum(), X)
    assert model.weight.grad is gradient
    assert torch.equal(gradient, expected)
    assert fired == []


def test_batch_stays() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    capture(nn.Linear(4, 4), lambda m, x: m(x).sum(), x)
    assert x.grad is None
    assert x.requires_grad
    assert x._version == 0


def test_model_trains_as_before() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout())
    watched = copy.deepcopy(plain)
    capture(watched, lambda m, x: m(x).square().sum(), X)
    for model in (plain, watched):
        torch.manual_seed(1)
        model(X).square().sum().backward()
    for a, b in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)
    assert torch.equal(plain[1].running_mean, watched[1].running_mean)


def test_no_real_memory_is_taken() -> None:
    """A hundred gigabytes of weights, a terabyte of activations."""
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(1 << 16, 1 << 16) for _ in range(6)))
        batch = torch.empty(1 << 20, 1 << 16)
    text = capture(model, lambda m, x: m(x).square().mean(), batch).text
    assert "f32[1048576,65536]" in text


class Frozen(dict[str, int]):
    """As libraries keep their configurations."""

    def _refuse(self, *_: Any, **__: Any) -> None:
        raise TypeError("frozen")

    update = clear = pop = __setitem__ = _refuse


def test_attributes_that_refuse_to_be_written_to() -> None:
    model = nn.Linear(4, 4)
    model.settings = Frozen(width=4)
    capture(model, lambda m, x: m(x).sum(), X)
    assert model.settings == {"width": 4}
