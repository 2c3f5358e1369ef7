"""A capture that does not reproduce eager is refused; the comparison leaves no trace."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from runtime_support import (
    Line,
    Network,
    assert_same,
    cross_entropy,
    eager,
    plan,
    squares,
    state_of,
    token_batch,
    twin,
)
from torch import nn

from magis.errors import MagisError, ReplayError
from magis.runtime import replay_check
from magis.runtime.batch import Arguments
from magis.runtime.comparison import compare
from magis.runtime.generator import GeneratorState
from magis.runtime.model_view import ModelView
from magis.runtime.replay import Trace
from magis.runtime.replay_check import cut_batch


class Drifting(nn.Module):
    """Behaves otherwise each time it runs: what no capture can see."""

    def __init__(self, drift: float, calls: list[int] | None = None) -> None:
        super().__init__()
        self.inner = Line()
        self.drift = drift
        self.hidden = lambda: calls  # no attribute of the module that capture could put back
        calls = [0]

    def forward(self, x):
        self.hidden()[0] += 1
        return self.inner(x) * (1 + self.drift * self.hidden()[0])


def test_python_state_that_changes_the_result_is_found():
    with pytest.raises(
        ReplayError, match=r"does not reproduce eager PyTorch bit for bit: the loss"
    ):
        plan(Drifting(0.5), squares, (torch.ones(2),))


def test_a_difference_within_the_tolerance_is_allowed():
    with pytest.raises(ReplayError, match="within a tolerance of 1e-06"):
        plan(Drifting(1e-4), squares, (torch.ones(2),), tolerance=1e-6)
    plan(Drifting(1e-4), squares, (torch.ones(2),), tolerance=1e-2)


def test_without_verification_nothing_is_run_and_the_report_says_so():
    model = Drifting(0.5)
    step = plan(model, squares, (torch.ones(2),), verify="off")
    assert model.hidden() == [1]  # the capture
    assert step.report.replayed == 'not replayed: verify="off"'


def test_planning_leaves_no_trace():
    model, batch = Network(), token_batch()
    model.hidden.weight.grad = torch.ones(8, 8)
    grad = model.hidden.weight.grad
    buffers = dict(model.named_buffers())
    before = state_of(model)
    python, numpy = random.getstate(), np.random.get_state()[1].tolist()
    step = plan(model, cross_entropy, batch, verify_every=1, rewrite=False)
    assert step.report.replayed == "on the batch: bitwise equal to eager"
    assert_same(state_of(model), before)
    assert model.hidden.weight.grad is grad
    assert all(buffer is buffers[name] for name, buffer in model.named_buffers())
    assert random.getstate() == python
    assert np.random.get_state()[1].tolist() == numpy


def test_the_comparison_on_every_kth_call_does_not_disturb_training(monkeypatch):
    compared = []
    compare_with_eager = replay_check.ReplayCheck.compare_with_eager

    def counted(self, *args):
        compared.append(None)
        compare_with_eager(self, *args)

    monkeypatch.setattr(replay_check.ReplayCheck, "compare_with_eager", counted)
    model = Network()
    other = twin(model)
    batches = [token_batch() for _ in range(5)]
    step = plan(model, cross_entropy, batches[0], verify_every=2)
    for run in (step, lambda *b: eager(other, cross_entropy, *b)):
        torch.manual_seed(4)
        for batch in batches:
            run(*batch)
    assert len(compared) == 2
    assert_same(state_of(model), state_of(other))


def test_the_comparison_on_every_kth_call_finds_what_has_changed_since():
    model = Line()
    scale = [1.0]
    step = plan(model, lambda m, x: (m(x) * scale[0]).sum(), (torch.ones(2),), verify_every=2)
    scale[0] = 3.0
    step(torch.ones(2))
    before = state_of(model)
    with pytest.raises(ReplayError, match="the loss differs by up to 14"):
        step(torch.ones(2))
    assert_same(state_of(model), before)


def trace(view, **changes):
    facts = {
        "results": [("[0]", torch.tensor(1.0)), ("[1]", torch.tensor([0.0, 1.0]))],
        "gradients": {"w": torch.ones(2, 3), "b": None},
        "state": {"mean": torch.zeros(2)},
        "generators": GeneratorState([]),
    }
    return Trace(**{**facts, **changes})


def updated_line(w, **state):
    """Of a line whose parameters were (2, 3) and (1, 1), and whose b became (1, 0)."""
    return {
        "state": {"w": torch.tensor(w), "b": torch.tensor([1.0, 0.0])},
        "updated": ["w", "b"],
        "optimizer": {f"w.{name}": torch.tensor(value) for name, value in state.items()},
        "gradients": {},
    }


@pytest.mark.parametrize(
    ("theirs", "ours", "message"),
    [
        # 3.5e-4 (the root of float32's precision) of the change, 0.1, is allowed.
        (updated_line([1.9, 3.0]), updated_line([1.90002, 3.0]), None),
        (updated_line([1.9, 3.0]), updated_line([1.9005, 3.0]), "parameter w"),
        # Nothing was changed in eager: a thousandth of what changed in b.
        (updated_line([2.0, 3.0]), updated_line([2.0000002, 3.0]), None),
        (updated_line([2.0, 3.0]), updated_line([2.0001, 3.0]), "parameter w"),
        # Adam takes noise for a gradient.
        (
            updated_line([1.9, 3.0], exp_avg_sq=[1e-20, 0.0]),
            updated_line([2.1, 3.0], exp_avg_sq=[1e-20, 0.0]),
            None,
        ),
        (
            updated_line([1.9, 3.0], exp_avg_sq=[1e-20, 0.0]),
            updated_line([2.2, 3.0], exp_avg_sq=[1e-20, 0.0]),
            "parameter w",
        ),
        (
            updated_line([1.9, 3.0], exp_avg_sq=[1.0, 0.0]),
            updated_line([1.9, 3.0], exp_avg_sq=[1.01, 0.0]),
            "the optimizer's exp_avg_sq of w differs by up to 0.01",
        ),
    ],
)
def test_updates_may_be_rounded_otherwise(theirs, ours, message):
    view = ModelView(Line())

    def check():
        compare(
            trace(view, **theirs),
            trace(view, **ours),
            view,
            None,
            as_if_compiled=False,
            epsilon=torch.finfo(torch.float32).eps,
        )

    if message is None:
        check()
        return
    with pytest.raises(ReplayError, match=message):
        check()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"results": [("[0]", torch.tensor(1.5)), ("[1]", torch.tensor([0.0, 1.0]))]},
            "the loss differs by up to 0.5",
        ),
        (
            {"results": [("[0]", torch.tensor(1.0)), ("[1]", torch.tensor([-0.0, 1.0]))]},
            r"result\[1\] differs by up to 0",
        ),
        (
            {"gradients": {"w": torch.ones(2, 3) * 2, "b": None}},
            r"the gradient of w in the model \(Module\) differs by up to 1",
        ),
        (
            {"gradients": {"w": torch.ones(3, 2).t(), "b": None}},
            r"has strides \(1, 2\), eager's has \(3, 1\)",
        ),
        (
            {"gradients": {"w": torch.ones(2, 3), "b": torch.ones(1)}},
            "is a tensor, eager's is None",
        ),
        ({"gradients": {"w": None, "b": None}}, "is None, eager's is a tensor"),
        ({"gradients": {"w": torch.ones(2, 3).double(), "b": None}}, r"is torch.float64 \[2, 3\]"),
        (
            {"state": {"mean": torch.tensor([0.0, float("nan")])}},
            "buffer mean of the model .* differs by up to inf",
        ),
    ],
)
def test_each_kind_of_difference_is_named(changes, message):
    model = nn.Module()
    model.w, model.b = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(1))
    view = ModelView(model)
    eager_trace = trace(view)
    with pytest.raises(ReplayError, match=message):
        compare(
            eager_trace,
            trace(view, generators=eager_trace.generators, **changes),
            view,
            None,
            as_if_compiled=False,
        )
    compare(
        eager_trace,
        trace(view, generators=eager_trace.generators),
        view,
        None,
        as_if_compiled=False,
    )


def test_another_state_of_the_generator_is_a_difference_even_with_a_tolerance():
    view = ModelView(nn.Module())
    one = trace(view, gradients={})
    torch.rand(1)
    with pytest.raises(ReplayError, match="the state of the random generator"):
        compare(one, trace(view, gradients={}), view, 1.0, as_if_compiled=False)


def test_where_eager_does_not_fit_a_smaller_batch_is_replayed(monkeypatch):
    model, batch = Network(), token_batch(2048)
    sizes = []
    run_eager = replay_check.replay.run_eager

    def recorded(model, loss_fn, arguments, optimizer=None):
        sizes.append(arguments.leaves[0].shape[0])
        return run_eager(model, loss_fn, arguments, optimizer)

    monkeypatch.setattr(replay_check.replay, "run_eager", recorded)
    free = plan(model, cross_entropy, batch).report.transient_peak_bytes // 2
    sizes.clear()
    monkeypatch.setattr(replay_check, "free_bytes", lambda device: free)
    step = plan(model, cross_entropy, batch)
    assert step.report.replayed.startswith("on the batch cut to 2, as eager does not fit: bitwise")
    assert step.report.baseline_source == "captured graph in program order"
    assert sizes == [2]
    monkeypatch.setattr(replay_check, "free_bytes", lambda device: 0)
    step = plan(model, cross_entropy, batch)
    assert step.report.replayed.startswith("not replayed: eager does not fit")
    assert sizes == [2]


def test_the_smaller_replay_runs_the_very_program_and_finds_faults(monkeypatch):
    monkeypatch.setattr(replay_check, "free_bytes", lambda device: 4000)
    with pytest.raises(ReplayError, match="the loss"):
        plan(Drifting(0.5), squares, (torch.ones(500, 2),))


def test_what_shares_the_leading_dimension_is_cut():
    batch = (torch.ones(8, 2), torch.ones(8), torch.ones(3), torch.tensor(1.0), 0.5, "x")
    cut = cut_batch(Arguments(batch), 2)
    shapes = [list(leaf.shape) for leaf in cut.leaves if isinstance(leaf, torch.Tensor)]
    assert shapes == [[2, 2], [2], [3], []]
    assert cut.leaves[4:] == [0.5, "x"]
    assert cut_batch(Arguments((torch.ones(2, 2),)), 2) is None
    assert cut_batch(Arguments((0.5,)), 2) is None


def test_weights_on_the_meta_device_can_be_planned_not_run(tmp_path):
    with torch.device("meta"):
        model = nn.Linear(8, 8)
    x = torch.ones(4, 8, device="meta")
    step = plan(model, lambda m, x: m(x).square().sum(), (x,))
    assert step.report.replayed == "not replayed: weights on the meta device have no values"
    assert "aten_addmm" in step.source
    step.save(tmp_path / "plan.json")
    with pytest.raises(MagisError, match="meta device, which holds no values"):
        step(x)
