"""A caller's inference mode reaches neither the planning nor what a step leaves behind."""

from __future__ import annotations

import pytest
import torch
from runtime_support import assert_same, eager, plan, state_of, twin
from torch import nn


def model_and_twin():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    return model, twin(model)


def loss(model, x):
    return model(x).pow(2).sum()


@pytest.mark.parametrize("on_new_shape", ["replan", "eager"])
def test_a_new_shape_under_inference_mode(on_new_shape):
    model, other = model_and_twin()
    step = plan(model, loss, (torch.randn(4, 8),), on_new_shape=on_new_shape)
    for length in (4, 3, 3):
        with torch.inference_mode():
            batch = torch.randn(length, 8)
            found = step(batch)
        assert torch.equal(found, eager(other, loss, batch.clone()))
        assert_same(state_of(model), state_of(other))
    assert not model[0].weight.grad.is_inference()


def test_a_step_planned_on_a_batch_made_under_inference_mode():
    model, other = model_and_twin()
    with torch.inference_mode():
        batch = torch.randn(4, 8)
        step = plan(model, loss, (batch,), verify_every=1)
    assert torch.equal(step(batch), eager(other, loss, batch.clone()))
    assert_same(state_of(model), state_of(other))


def test_what_a_hook_puts_in_a_gradients_place_is_an_ordinary_tensor():
    model, other = model_and_twin()
    for each in (model, other):
        each[0].weight.register_hook(lambda gradient: gradient * 2)
    batch = torch.randn(4, 8)
    step = plan(model, loss, (batch,))
    with torch.inference_mode():
        step(batch)
    eager(other, loss, batch)
    assert not model[0].weight.grad.is_inference()
    assert_same(state_of(model), state_of(other))
