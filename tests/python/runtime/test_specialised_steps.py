"""Steps that were specialised on values read from the batch, or speculate on conditions: other
values lead to a correct step all the same.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import magis

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


class After(nn.Module):
    """A layer, dropout, and a function after them."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.function = function

    def forward(self, x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        return self.function(F.dropout(self.linear(x), 0.2), *rest)


def loss_of(model: nn.Module, *batch: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = model(*batch)
    return out.square().mean()


def plan(model: nn.Module, *batch: torch.Tensor, **options: Any) -> magis.Step:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing was gained
        return magis.optimize(model, loss_of, batch, time_budget=0.0, **options)


def assert_as_eager(step: magis.Step, model: nn.Module, *batch: torch.Tensor, seed: int) -> None:
    """Result, gradients (added to those there) and generator."""
    twin = copy.deepcopy(model)
    for parameter, other in zip(model.parameters(), twin.parameters(), strict=True):
        other.grad = None if parameter.grad is None else parameter.grad.clone()
    torch.manual_seed(seed)
    expected = loss_of(twin, *batch)
    expected.backward()
    generator = torch.get_rng_state()
    torch.manual_seed(seed)
    assert torch.equal(step(*batch), expected.detach())
    assert torch.equal(torch.get_rng_state(), generator)
    for parameter, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(parameter.grad, other.grad)


def first_rows(h: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return h[: n.item()]


def test_other_values_are_planned_anew_once() -> None:
    model = After(first_rows)
    step = plan(model, X, torch.tensor(3))
    for seed, rows in enumerate((3, 2, 3, 2, 4)):
        assert_as_eager(step, model, X, torch.tensor(rows), seed=seed)
    assert repr(step).endswith("3 of 8 plans kept>")
    assert step.eager_calls == 0


def test_a_mask_with_another_number_of_elements() -> None:
    model = After(lambda h, mask: h[mask])
    step = plan(model, X, torch.tensor([True, True, False, False]))
    assert_as_eager(step, model, X, torch.tensor([False, True, False, True]), seed=1)
    assert "1 of 8" in repr(step)
    assert_as_eager(step, model, X, torch.tensor([False, True, True, True]), seed=2)
    assert "2 of 8" in repr(step)


def test_the_number_of_plans_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magis.runtime.step.MOST_VARIANTS", 4)
    model = After(lambda h, n: h * n.item())
    step = plan(model, X, torch.tensor(0.5), plan_cache=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in range(6):
            assert_as_eager(step, model, X, torch.tensor(1.5 + call), seed=call)
    words = [str(w.message) for w in caught if "differ in values" in str(w.message)]
    assert len(words) == 1
    assert "batch[1]" in words[0]
    assert "test_specialised_steps.py" in words[0]
    assert step.eager_calls == 3
    assert "2 of 2" in repr(step)


@pytest.mark.parametrize("choice", ["eager", "error"])
def test_on_new_shape_decides(choice: Any) -> None:
    model = After(first_rows)
    step = plan(model, X, torch.tensor(3), on_new_shape=choice)
    if choice == "eager":
        assert_as_eager(step, model, X, torch.tensor(2), seed=1)
        assert step.eager_calls == 1
        return
    with pytest.raises(magis.errors.GuardError, match=r"read from batch\[1\].*3 planned, 2 given"):
        step(X, torch.tensor(2))


def clamped(h: torch.Tensor) -> torch.Tensor:
    return h if (h.abs() < 10).all() else h.clamp(-10, 10)


def test_a_condition_that_fails_runs_eagerly(caplog: pytest.LogCaptureFixture) -> None:
    model = After(clamped)
    step = plan(model, X)
    assert_as_eager(step, model, X, seed=1)
    with (
        caplog.at_level(logging.INFO, logger="magis"),
        pytest.warns(UserWarning, match="condition on data is False, the plan is for True"),
    ):
        assert_as_eager(step, model, X * 1000, seed=2)  # adds to the gradients of the first
    assert "abandoning the step" in caplog.text
    assert (step.eager_calls, step.abandoned_calls) == (1, 1)
    assert_as_eager(step, model, X, seed=3)
    assert step.abandoned_calls == 1


def test_buffers_stay_when_a_condition_fails() -> None:
    class Counting(After):
        def __init__(self) -> None:
            super().__init__(clamped)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return super().forward(x)

    model = Counting()
    step = plan(model, X)
    with pytest.warns(UserWarning, match="the step was abandoned"):
        step(X * 1000)
    assert model.calls == 1


def test_a_condition_that_fails_at_every_call_is_not_tried_for_ever() -> None:
    model = After(clamped)
    step = plan(model, X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for seed in range(12):
            assert_as_eager(step, model, X * 1000, seed=seed)
    assert step.eager_calls == 12
    assert step.abandoned_calls == 8
    assert any("in 8 of 8 calls" in str(w.message) for w in caught)


def test_random_choices_have_a_plan_each() -> None:
    def sometimes(h: torch.Tensor) -> torch.Tensor:
        for factor in (2, 3):
            if torch.rand([]) < 0.5:
                h = F.dropout(h, 0.1) * factor
        return h

    model = After(sometimes)
    step = plan(model, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(12):
            assert_as_eager(step, model, X, seed=seed)
    assert step.eager_calls == 0
    assert "4 of 8" in repr(step)
    before = step.abandoned_calls
    assert_as_eager(step, model, X, seed=11)
    assert step.abandoned_calls == before  # the plan that ran last is tried first


@dataclasses.dataclass
class Answer:
    hidden: torch.Tensor
    extra: dict[str, Any]


def test_dataclasses_come_back() -> None:
    model = nn.Linear(6, 6)

    def loss(m: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, Answer]:
        h = m(x)
        return h.square().mean(), Answer(h, {"norms": [h.norm()], "inner": Answer(h[0], {})})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = magis.optimize(model, loss, (X,), time_budget=0.0)  # compared with eager
    found, expected = step(X)[1], loss(model, X)[1]
    assert isinstance(found, Answer)
    assert not found.hidden.requires_grad
    assert torch.equal(found.hidden, expected.hidden)
    assert torch.equal(found.extra["norms"][0], expected.extra["norms"][0])
    assert torch.equal(found.extra["inner"].hidden, expected.hidden[0])
