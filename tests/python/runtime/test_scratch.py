"""Scratch of kernels is measured once and makes the promise exact."""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from hooked import under_hook
from runtime_support import Line, plan, squares
from torch import nn
from torch.nn import functional as F

from magis import _core
from magis import _torch_internals as internals
from magis.runtime import scratch
from magis.runtime.scratch import with_measured_scratch
from magis.verify.text import parse

HEADER = "magis 1\ndevice cpu\n"


@pytest.fixture(autouse=True)
def _nothing_measured_yet(monkeypatch):
    monkeypatch.setattr(scratch, "_measured", {})


def scratch_of(text):
    return {name: op.scratch for name, op in parse(text).operators.items()}


_FLASH = "aten._scaled_dot_product_flash_attention_for_cpu"
_FLASH_TYPES = "f32[2,4,64,32], f32[2,4,64]{256,1,4}"
ATTENTION = (
    HEADER
    + f"""site @1 "m" "f.py:1"
param %q "q" : f32[2,4,64,32]
%a, %l = {_FLASH}(%q, %q, %q) : {_FLASH_TYPES} @1 backward
%b, %m = {_FLASH}(%q, %q, %q) : {_FLASH_TYPES}
%v = aten.view(%q, [64,256]) : f32[64,256]
%p = aten.permute(%v, [1,0]) : f32[256,64]{{1,256}}
%s = aten.mm(%v, %p) : f32[64,64]
output loss "" %a
"""
)


def allocations_of(function):
    with internals.AllocationRecorder() as recorder:
        result = function()
        del result
    return list(recorder.changes())


def test_inner_buffers_are_what_the_allocator_hands_out_beyond_the_results():
    measured = scratch_of(with_measured_scratch(ATTENTION))
    q = torch.zeros(2, 4, 64, 32)
    held = most = 0
    changes = allocations_of(
        lambda: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)
    )
    for change in changes:
        held += change
        most = max(most, held)
    results = q.numel() * 4 + 2 * 4 * 64 * 4
    assert measured["a"] == most - results > 0
    assert measured["b"] == measured["a"]
    assert measured["s"] == 0


def test_the_rest_of_the_text_stays_as_it_was():
    after = with_measured_scratch(ATTENTION)
    assert [line.split(" scratch ")[0] for line in after.splitlines()] == ATTENTION.splitlines()
    assert "@1 backward scratch " in after


def test_scratch_depends_on_the_number_of_threads():
    one = scratch_of(with_measured_scratch(ATTENTION))["a"]
    torch.set_num_threads(2)
    assert scratch_of(with_measured_scratch(ATTENTION))["a"] > one


def test_a_call_is_measured_once(monkeypatch):
    calls = []
    named = scratch.operator_named
    monkeypatch.setattr(scratch, "operator_named", lambda name: calls.append(name) or named(name))
    with_measured_scratch(ATTENTION)
    assert sorted(calls) == ["aten._scaled_dot_product_flash_attention_for_cpu", "aten.mm"]
    with_measured_scratch(ATTENTION)
    assert len(calls) == 2


def test_what_takes_too_much_memory_is_not_run(monkeypatch):
    monkeypatch.setattr(scratch, "free_bytes", lambda device: 1000)
    assert with_measured_scratch(ATTENTION) == ATTENTION


def test_what_fails_on_zeros_is_left_out_and_what_follows_is_not():
    text = (
        HEADER
        + """param %x "x" : f32[4,4]
%c = aten.linalg_cholesky(%x) : f32[4,4]{1,4}
%m = aten.mul.Scalar(%x, 2.0) : f32[4,4]
output loss "" %c
"""
    )
    measured = scratch_of(with_measured_scratch(text))
    assert measured["c"] == 0
    assert measured["m"] > 0  # the scalar as a tensor


def test_the_generator_is_not_moved():
    text = (
        HEADER
        + """param %x "x" : f32[4,4]
%r = aten.bernoulli.p(%x, 0.5) : f32[4,4]
output loss "" %r
"""
    )
    before = torch.get_rng_state()
    with_measured_scratch(text)
    assert torch.equal(torch.get_rng_state(), before)


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.project(self.norm(x)).view(batch, length, 3, self.heads, -1).unbind(2)
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        )
        return x + out.transpose(1, 2).reshape(batch, length, width)


@pytest.mark.parametrize("accumulate", [False, True])
def test_the_promise_is_what_the_allocator_hands_out(accumulate):
    model = nn.Sequential(Attention(), Attention(), nn.Linear(32, 32))
    x = torch.randn(4, 48, 32)
    step = plan(model, lambda m, x: F.gelu(m(x)).square().mean(), (x,), memory_limit=0.9)
    step(x)
    if not accumulate:
        model.zero_grad()
    else:
        step(x)  # plans the step that adds
    with internals.AllocationRecorder() as recorder:
        loss = step(x)
    held = most = 0
    for change in recorder.changes():
        held += change
        most = max(most, held)
    assert most == step.report.transient_peak_bytes
    present = sum(p.grad.numel() * 4 for p in model.parameters())
    assert held == loss.numel() * 4 + (0 if accumulate else present)


def test_small_steps_are_exact_too():
    model, x = Line(), torch.ones(2)
    step = plan(model, squares, (x,))
    with internals.AllocationRecorder() as recorder:
        step(x)
    held = most = 0
    for change in recorder.changes():
        held += change
        most = max(most, held)
    assert most == step.report.transient_peak_bytes


@pytest.mark.parametrize("convolution", [nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d])
def test_a_gradient_that_a_kernel_makes_unasked_is_in_the_promise(convolution):
    model = convolution(32, 32, 3, padding=1)
    model.weight.requires_grad_(False)  # larger than what it is applied to
    x = torch.randn(2, 32, *[4] * (model.weight.dim() - 2))
    step = plan(model, lambda m, x: m(x).square().mean(), (x,))
    step(x)
    model.zero_grad()
    with internals.AllocationRecorder() as recorder:
        step(x)
    assert max(accumulate(recorder.changes())) == step.report.transient_peak_bytes


def test_a_kernel_whose_memory_grows_with_its_operands_values_is_measured_at_its_most():
    measured = scratch_of(
        with_measured_scratch(
            HEADER
            + 'param %m "m" : f32[8,8]\n%e = aten.linalg_matrix_exp(%m) : f32[8,8]\n'
            + 'output loss "" %e\n'
        )
    )["e"]
    for scale in (0.0, 1e-5, 1e-2, 0.1, 1.0, 100.0):
        matrix = torch.full((8, 8), 3.0 * scale)
        changes = allocations_of(lambda matrix=matrix: torch.linalg.matrix_exp(matrix))
        taken = max(accumulate(changes)) - matrix.nbytes  # the result is as large as the operand
        assert taken <= measured
    assert taken == measured


@pytest.mark.parametrize(
    "loss",
    ["mse_loss", "smooth_l1_loss", "soft_margin_loss", "binary_cross_entropy", "huber_loss"],
)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_loss_that_is_reduced_within_its_elements_storage_measures_its_promise(loss, reduction):
    differences = under_hook(
        f"""
        import magis
        functional = torch.nn.functional
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 8)
        batch = (torch.rand(16, 8), torch.rand(16, 8))
        def loss(m, x, y):
            found = functional.{loss}(torch.sigmoid(m(x)), y, reduction="{reduction}")
            return found.sum() if "{reduction}" == "none" else found
        step = magis.optimize(model, loss, batch, time_budget=0.05, progress=lambda p: True)
        for _ in range(2):
            peak = measure.measure_peak(lambda: step(*batch))
            print(peak.peak_bytes - step.report.transient_peak_bytes)
        """
    )
    assert differences.split() == ["0", "0"]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("double", [False, True])
def test_an_embedding_bag_measures_its_promise_on_bags_that_hold_something(mode, double):
    differences = under_hook(
        f"""
        import magis
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float64 if {double} else torch.float32)
        model = torch.nn.EmbeddingBag(20, 8, mode="{mode}")
        batch = (torch.randint(0, 20, (4, 3)),)
        step = magis.optimize(
            model, lambda m, x: m(x).pow(2).mean(), batch, time_budget=0.05, progress=lambda p: True
        )
        peak = measure.measure_peak(lambda: step(*batch)).peak_bytes
        print(peak - step.report.transient_peak_bytes)
        """
    )
    assert differences == "0"


@pytest.mark.parametrize("operator", ["aten.linalg_matrix_exp"])
def test_no_bound_counts_scratch_that_only_some_values_take(operator):
    text = with_measured_scratch(
        HEADER
        + f'param %m "m" : f32[8,8]\n%n = aten.mul.Tensor(%m, %m) : f32[8,8]\n%e = {operator}(%n)'
        + ' : f32[8,8]\noutput loss "" %e\n'
    )
    assert scratch_of(text)["e"] > 0
    bound = _core.lower_bound(_core.Graph.parse(text, "test"), device="cpu", fission=False)
    assert bound.bytes == bound.persistent_bytes + 2 * 8 * 8 * 4
