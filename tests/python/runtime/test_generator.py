"""Saving the random generators' state: it comes back whole, and costs a step no memory."""

from __future__ import annotations

import pytest
import torch
from hooked import under_hook

from magis.runtime.generator import GeneratorState


def test_a_restored_state_draws_the_same_numbers():
    torch.randn(3)  # leaves half of a pair of normal numbers behind, which is part of the state
    saved = GeneratorState([])
    uniform, normal = torch.rand(5), torch.randn(5)
    assert GeneratorState([]) != saved
    saved.restore()
    assert GeneratorState([]) == saved
    assert torch.equal(torch.rand(5), uniform)
    assert torch.equal(torch.randn(5), normal)
    saved.restore()
    assert torch.equal(torch.rand(5), uniform)


@pytest.mark.parametrize("module", ["torch.nn.Dropout(0.3)", "torch.nn.RReLU()"])
def test_a_tiny_step_that_draws_random_numbers_measures_its_promise(module: str):
    differences = under_hook(
        f"""
        import magis
        nn = torch.nn
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), {module}, nn.Linear(8, 2))
        batch = (torch.randn(4, 8),)
        step = magis.optimize(
            model, lambda m, x: m(x).pow(2).mean(), batch, time_budget=0.1, progress=lambda p: True
        )
        for _ in range(3):
            peak = measure.measure_peak(lambda: step(*batch)).peak_bytes
            print(peak - step.report.transient_peak_bytes)
        """
    )
    assert differences.split() == ["0", "0", "0"]
