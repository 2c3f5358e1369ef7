"""Compiled models beside the same ones in eager mode."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import magis
from magis.report import Report

FAST = {"memory_limit": "100%", "time_budget": 0.05, "reuse_plans": False}


def compiled(function: Any, reports: list[Report] | None = None, **options: Any) -> Any:
    """`function` under the backend, with a short search; reports go to the list."""
    torch._dynamo.reset()
    given = {**FAST, **options}
    if reports is not None:
        given["on_plan"] = reports.append
    return torch.compile(function, backend=magis.backend, options=given)


def step(function: Callable[..., Any], model: nn.Module, *batch: Any) -> torch.Tensor:
    """Loss and backward, from one seed."""
    torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="magis gained nothing")
        loss: torch.Tensor = function(model, *batch)
        loss.backward()
    return loss.detach()


def left_by(model: nn.Module) -> dict[str, torch.Tensor | None]:
    """Gradients, buffers, and where the generator stands."""
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    found |= {f"{name} (buffer)": buffer.clone() for name, buffer in model.named_buffers()}
    return {**found, "generator": torch.get_rng_state()}


def assert_as_eager(
    function: Any, model: nn.Module, *batches: Any, tolerance: float = 0.0, **options: Any
) -> None:
    """Compiled steps, one after another, leave what eager ones leave."""
    theirs = copy.deepcopy(model)
    ours = compiled(function, **options)
    for batch in batches:
        for one in (model, theirs):
            one.zero_grad()
        loss = step(ours, model, *batch)
        found = left_by(model)
        expected_loss = step(function, theirs, *batch)
        expected = left_by(theirs)
        torch.testing.assert_close(loss, expected_loss, rtol=tolerance, atol=tolerance)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            other = found[name]
            if value is None or other is None:
                assert value is other, name
                continue
            assert value.stride() == other.stride(), name
            torch.testing.assert_close(other, value, rtol=tolerance, atol=tolerance, msg=name)
