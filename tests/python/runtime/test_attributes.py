"""Attributes of modules that the step reads in Python are compared at every call."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import magis
from magis.errors import GuardError

X = torch.randn(16, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Model(nn.Module):
    shift = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.25)
        self.scale = 1.0
        self.deep = True
        self.powers = [1, 2]
        self.gate = F.relu
        self.unread = 0
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        h = self.norm(self.first(x)) * self.scale + self.shift
        if self.deep:
            h = h + sum(h**power for power in self.powers)
        return self.drop(self.gate(h))


def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()


def made() -> Model:
    torch.manual_seed(0)
    return Model().double()


def plan(model: nn.Module, loss: Callable[..., Any] = loss_of, **options: Any) -> magis.Step:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing was gained
        return magis.optimize(model, loss, (X,), time_budget=0.0, **options)


def assert_as_eager(step: magis.Step, model: Model) -> None:
    twin = copy.deepcopy(model)
    torch.manual_seed(1)
    expected = loss_of(twin, X)
    expected.backward()
    torch.manual_seed(1)
    assert torch.equal(step(X), expected.detach())
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)
        ours.grad = None
    for ours, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        assert torch.equal(ours, theirs)


CHANGES: dict[str, Callable[[Any], None]] = {
    "a dropout probability": lambda model: setattr(model.drop, "p", 0.5),
    "a momentum": lambda model: setattr(model.norm, "momentum", 0.5),
    "a number": lambda model: setattr(model, "scale", 3.0),
    "a number of the class's": lambda model: setattr(model, "shift", 0.5),
    "a flag": lambda model: setattr(model, "deep", False),
    "an item of a list": lambda model: model.powers.append(3),
    "a function": lambda model: setattr(model, "gate", F.silu),
    "another module of that class": lambda model: setattr(model, "drop", nn.Dropout(0.5)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_attribute_is_planned_anew(change: Callable[[Any], None]) -> None:
    model = made()
    step = plan(model)
    assert_as_eager(step, model)
    change(model)
    assert_as_eager(step, model)
    assert "2 of 8" in repr(step)
    assert_as_eager(step, model)
    assert "2 of 8" in repr(step)


def test_the_attribute_is_named() -> None:
    model = made()
    step = plan(model, on_new_shape="error")
    model.drop.p = 0.5
    with pytest.raises(
        GuardError, match=r"attribute p of drop \(Dropout\): 0.25 planned, 0.5 given"
    ):
        step(X)
    model.drop.p = 0.25
    del model.scale
    with pytest.raises(
        GuardError, match=r"attribute scale of the model \(Model\): 1.0 planned, nothing given"
    ):
        step(X)


def test_what_the_step_does_not_read_or_writes_itself_may_change() -> None:
    model = made()
    step = plan(model, on_new_shape="error")
    model.unread, model.calls = 5, 7
    assert_as_eager(step, model)


def test_a_loss_that_is_a_module_of_its_own() -> None:
    model, criterion = made(), nn.HuberLoss(delta=0.25)

    def loss(model: nn.Module, x: torch.Tensor) -> Any:
        return criterion(model(x), x)

    step = plan(model, loss, on_new_shape="error")
    step(X)
    criterion.delta = 1.0
    with pytest.raises(GuardError, match=r"attribute delta of HuberLoss: 0.25 planned, 1.0 given"):
        step(X)


def test_a_number_that_changes_at_every_call_runs_eagerly_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("magis.runtime.step.MOST_VARIANTS", 3)
    model = made()
    step = plan(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in range(5):
            model.scale = 2.0 + call
            assert_as_eager(step, model)
    words = [str(w.message) for w in caught if "differ in values" in str(w.message)]
    assert len(words) == 1
    assert "attribute scale of the model" in words[0]
    assert "in the batch, as a float" in words[0]
    assert step.eager_calls == 3


def test_modules_are_as_before() -> None:
    plan(made())
    assert "__getattribute__" not in vars(nn.Module)
