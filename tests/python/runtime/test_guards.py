"""What a plan takes for granted is checked on every call, and a difference is named in words."""

from __future__ import annotations

import logging
import threading
import warnings

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

from magis.errors import CaptureError, GuardError, MagisError


def loss(model, x, mode="sum", weight=1.0):
    return getattr(model(x), mode)() * weight


def guarded(batch, model=None):
    return plan(model or Line(), loss, batch, on_new_shape="error")


def refused(step, *args, **kwargs):
    with pytest.raises(GuardError) as caught:
        step(*args, **kwargs)
    return str(caught.value).split(". on_new_shape=")[0]


def test_differences_in_the_batch_are_named():
    step = guarded({"x": torch.ones(8, 2), "mode": "sum"})
    assert refused(step, x=torch.ones(5, 2), mode="sum") == "x: shape [8, 2] planned, [5, 2] given"
    assert (
        refused(step, x=torch.ones(8, 2, dtype=torch.float64), mode="sum")
        == "x: dtype torch.float32 planned, torch.float64 given"
    )
    assert (
        refused(step, x=torch.ones(2, 8).t(), mode="sum")
        == "x: strides [2, 1] planned, [1, 8] given"
    )
    assert (
        refused(step, x=torch.ones(8, 2, requires_grad=True), mode="sum")
        == "x: requires_grad False planned, True given"
    )
    assert refused(step, x=torch.ones(8, 2), mode="mean") == "mode: 'sum' planned, 'mean' given"
    assert refused(step, x=0.5, mode="sum") == "x: a tensor of shape [8, 2] planned, a float given"
    assert "the batch's structure" in refused(step, x=torch.ones(8, 2))


def test_positions_are_named_where_there_are_no_names():
    step = guarded((torch.ones(8, 2), "sum", 0.5))
    assert refused(step, torch.ones(8, 2), "mean", 0.5) == "batch[1]: 'sum' planned, 'mean' given"
    assert refused(step, torch.ones(8, 2), "sum", 1) == "batch[2]: a float planned, 1 given"


def test_an_integer_and_the_float_or_bool_that_equals_it_are_not_the_same():
    def scaled(model, x, n):
        return (model(x) * n).sum()

    step = plan(Line(), scaled, (torch.ones(2), 1), on_new_shape="error")
    step(torch.ones(2), 1)
    assert refused(step, torch.ones(2), True) == "batch[1]: 1 planned, True given"
    assert refused(step, torch.ones(2), 2) == "batch[1]: 1 planned, 2 given"


def test_the_form_of_the_call_must_be_that_of_the_example():
    with pytest.raises(
        GuardError, match=r"takes 1 positional argument.* the keyword 'x' was given"
    ):
        guarded((torch.ones(2),))(x=torch.ones(2))
    with pytest.raises(GuardError, match=r"takes keyword arguments \(x\)"):
        guarded({"x": torch.ones(2)})(torch.ones(2))


def test_differences_in_the_model_are_named():
    def linear(model, x):
        return model(x).sum()

    model, x = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), torch.randn(4, 2)
    step = plan(model, linear, (x,), on_new_shape="error")
    step(x)
    model.eval()
    assert refused(step, x) == "the model: train mode planned, eval mode given"
    model.train()
    model[1].eval()
    assert refused(step, x) == "module 1: train mode planned, eval mode given"
    model.train()
    model[0].bias.requires_grad_(False)
    assert refused(step, x) == "parameter 0.bias: requires_grad True planned, False given"
    model[0].bias.requires_grad_(True)
    model[0].register_parameter("extra", nn.Parameter(torch.ones(1)))
    assert refused(step, x) == "parameter 0.extra is new"
    del model[0].extra
    model[1].running_mean = None
    assert refused(step, x) == "buffer 1.running_mean is gone"
    model[1].running_mean = torch.zeros(2)
    step(x)
    model.double()
    assert "torch.float32 planned, torch.float64 given" in refused(step, x.double())


def test_tied_weights_that_come_apart_are_noticed():
    model, batch = Network(), token_batch()
    step = plan(model, cross_entropy, batch, on_new_shape="error")
    model.head.weight = nn.Parameter(model.embed.weight.detach().clone())
    assert refused(step, *batch) == "parameter head.weight is new"


def test_a_parameter_replaced_by_one_like_it_is_picked_up():
    model, x = Line(), torch.ones(2)
    step = plan(model, squares, (x,), on_new_shape="error")
    old = model.w
    model.w = nn.Parameter(torch.tensor([5.0, 7.0]))
    other = twin(model)
    step(x)
    eager(other, squares, x)
    assert old.grad is None
    assert_same(state_of(model), state_of(other))


def test_a_module_replaced_by_one_like_it_is_picked_up():
    model, x = nn.Sequential(nn.Linear(2, 2)), torch.ones(1, 2)
    step = plan(model, squares, (x,), on_new_shape="error")
    model[0] = nn.Linear(2, 2)
    other = twin(model)
    step(x)
    eager(other, squares, x)
    assert_same(state_of(model), state_of(other))


def test_differences_in_global_state_are_named():
    x = torch.ones(2)
    step = guarded((x,))
    torch.set_num_threads(2)
    assert refused(step, x) == "number of threads: 1 planned, 2 given"
    torch.set_num_threads(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert refused(step, x).startswith("autocast: ")
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert refused(step, x) == f"float32 matmul precision: {precision} planned, medium given"
    finally:
        torch.set_float32_matmul_precision(precision)
    torch.use_deterministic_algorithms(True)
    try:
        assert refused(step, x).startswith("deterministic algorithms (on, warn only): ")
    finally:
        torch.use_deterministic_algorithms(False)
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        assert refused(step, x).startswith("attention kernels")
    step(x)


def test_eager_mode_runs_what_was_not_planned_without_a_plan(caplog):
    model = Network()
    other = twin(model)
    batches = [token_batch(6), token_batch(3), token_batch(6)]
    step = plan(model, cross_entropy, batches[0], on_new_shape="eager")
    losses = []
    with caplog.at_level(logging.INFO, "magis"):
        for run in (step, lambda *b: eager(other, cross_entropy, *b)):
            torch.manual_seed(2)
            losses.append([run(*batch) for batch in batches])
    assert all(torch.equal(a, b) and not a.requires_grad for a, b in zip(*losses, strict=True))
    assert_same(state_of(model), state_of(other))
    assert [r.message for r in caplog.records if "running eagerly" in r.message] == [
        "running eagerly: batch[0]: shape [6, 5] planned, [3, 5] given"
    ]
    assert "1 of 8 plans" in repr(step)


def test_new_shapes_are_planned_once_and_logged(caplog):
    model = Line()
    step = plan(model, squares, (torch.ones(4, 2),))
    with caplog.at_level(logging.INFO, "magis"):
        for size in (3, 4, 3):
            model.zero_grad()
            step(torch.ones(size, 2))
    assert [r.message for r in caplog.records if "planning anew" in r.message] == [
        "planning anew: batch[0]: shape [4, 2] planned, [3, 2] given"
    ]


def test_the_plan_used_longest_ago_is_dropped(caplog):
    model = Line()
    step = plan(model, squares, (torch.ones(1, 2),), plan_cache=2)

    def planned(size):
        caplog.clear()
        model.zero_grad()
        with caplog.at_level(logging.INFO, "magis"):
            step(torch.ones(size, 2))
        return any("planning anew" in r.message for r in caplog.records)

    assert [planned(size) for size in (1, 2, 1, 3)] == [False, True, False, True]
    assert "2 of 2 plans" in repr(step)
    assert [planned(size) for size in (1, 2)] == [False, True]


def test_a_batch_that_cannot_be_guarded_is_refused():
    with pytest.raises(MagisError, match=r"batch\[1\] is a object"):
        plan(Line(), lambda m, x, o: m(x).sum(), (torch.ones(2), object()))


def test_one_call_runs_at_a_time():
    model, calls = Line(), 20
    step = plan(model, squares, (torch.ones(2),))
    threads = [
        threading.Thread(target=lambda: [step(torch.ones(2)) for _ in range(calls)])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.w.grad.tolist() == [6.0 * 3 * calls, 8.0 * 3 * calls]


def test_many_new_plans_are_warned_about_once_where_the_step_is_called():
    def repeated(model, x, times):
        return sum(model(x).sum() for _ in range(times))

    step = plan(Line(), repeated, (torch.ones(2), 1), verify="off")
    for times in range(2, 9):
        step(torch.ones(2), times)
    with pytest.warns(
        UserWarning, match=r"8 plans were made.*batch\[1\]: 1 planned, 9 given"
    ) as seen:
        step(torch.ones(2), 9)
    assert [w.filename for w in seen if "plans were made" in str(w.message)] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(torch.ones(2), 10)


def test_a_numpy_float_is_a_float():
    model = Line()
    step = plan(model, lambda m, x, w: (m(x) * w).sum(), (torch.ones(2), 1.0), on_new_shape="error")
    assert step(torch.ones(2), np.float64(3.0)).item() == 21.0


def test_a_model_that_has_moved_to_another_device_needs_a_new_step():
    model = Line()
    step = plan(model, squares, (torch.ones(2),))
    model.to("meta")
    with pytest.raises(GuardError, match="was on cpu and is now on meta"):
        step(torch.ones(2))


def test_a_tensor_that_requires_a_gradient_is_refused_where_it_is_given_twice():
    model = nn.Linear(3, 3)

    def product(m, a, b):
        return (m(a) * m(b).sin()).sum()

    x, y = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
    with pytest.raises(CaptureError, match=r"batch\[0\] and batch\[1\] are the same tensor"):
        plan(model, product, (x, x))
    step = plan(model, product, (x, y))
    step(x, y)
    with pytest.raises(GuardError, match=r"batch\[0\] and batch\[1\] are the same tensor"):
        step(x, x)
    with pytest.raises(GuardError, match=r"batch\[1\] is the model's parameter weight"):
        step(x, model.weight)
    running_eagerly = plan(model, product, (x, y), on_new_shape="eager")
    model.zero_grad()
    x.grad = None
    running_eagerly(x, x)
    found = x.grad
    x.grad = None
    product(model, x, x).backward()
    assert torch.equal(found, x.grad)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.__setitem__(1, nn.Tanh()),
        lambda model: model[1].register_forward_hook(lambda module, given, result: 3 * result),
        lambda model: model[1].register_forward_pre_hook(lambda module, given: (2 * given[0],)),
        lambda model: setattr(model[1], "forward", torch.sin),
    ],
    ids=["another module", "a hook", "a hook before", "another forward"],
)
def test_a_module_without_tensors_that_computes_otherwise_is_planned_anew(change) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    x = torch.randn(3, 4)
    step = plan(model, squares, (x,))
    step(x)
    change(model)
    model.zero_grad()
    assert torch.equal(step(x), squares(model, x))
    strict = plan(model, squares, (x,), on_new_shape="error")
    model[1] = nn.Sigmoid()
    with pytest.raises(GuardError, match="1: another module, other hooks or another forward"):
        strict(x)
