"""A step that fails half-way: what must be as before, and what TornStep says about the rest."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import traceback
import weakref

import pytest
import torch
from runtime_support import (
    Line,
    Network,
    assert_same,
    cross_entropy,
    plan,
    squares,
    state_of,
    token_batch,
)

from magis.errors import MagisError, TornStep
from magis.runtime.interrupts import DeferredInterrupt


def operators(step):
    """The operators of the plan that ran last, by the names that its source uses."""
    return step._current.step.last.step.__globals__


def failing_after(operator, calls, error):
    """`operator`, but after `calls` successful calls it raises `error`."""
    left = [calls]

    def run(*args, **kwargs):
        if left[0] == 0:
            raise error
        left[0] -= 1
        return operator(*args, **kwargs)

    return run


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()])
def test_nothing_has_changed_after_a_failure(monkeypatch, error):
    model, batch = Network(), token_batch()
    step = plan(model, cross_entropy, batch)
    before = state_of(model)
    names = [name for name in operators(step) if name.startswith("aten_embedding_dense_backward")]
    monkeypatch.setitem(operators(step), names[0], failing_after(None, 0, error))
    with pytest.raises(type(error)):
        step(*batch)
    assert_same(state_of(model), before)
    assert all(p.grad is None for p in model.parameters())
    monkeypatch.undo()
    step(*batch)
    assert model.hidden.weight.grad is not None


def test_the_generator_is_where_it_was_so_that_the_call_can_be_repeated(monkeypatch):
    model, batch = Network(), token_batch()
    step = plan(model, cross_entropy, batch)
    start = torch.get_rng_state()
    expected = step(*batch)
    model.zero_grad()
    torch.set_rng_state(start)
    monkeypatch.setitem(
        operators(step), "aten_nll_loss_backward", failing_after(None, 0, ValueError("here"))
    )
    with pytest.raises(ValueError, match="here"):
        step(*batch)
    assert torch.equal(torch.get_rng_state(), start)
    model.norm.reset_running_stats()
    monkeypatch.undo()
    assert torch.equal(step(*batch), expected)


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()])
def test_a_torn_step_names_the_gradients_it_has_touched(monkeypatch, error):
    model = Line()
    step = plan(model, squares, (torch.ones(2),))
    step(torch.ones(2))
    step(torch.ones(2))  # plans the step that adds
    add = operators(step)["aten_add__Tensor"]
    before = {name: p.grad.clone() for name, p in model.named_parameters()}
    adding = [
        line for line in step.source.splitlines() if "_grad, " in line and "aten_add__" in line
    ]
    first = "w" if "w" in adding[0].split("(")[1].split(",")[0] else "b"
    other = "b" if first == "w" else "w"
    calls = sum(
        "aten_add__Tensor(" in line for line in step.source.split(adding[0])[0].splitlines()
    )
    monkeypatch.setitem(operators(step), "aten_add__Tensor", failing_after(add, calls + 1, error))
    with pytest.raises(
        TornStep, match=rf"gradients of {first} \(1 of 2\); zero the gradients"
    ) as torn:
        step(torch.ones(2))
    assert torn.value.touched == [first]
    assert torn.value.__cause__ is error
    assert not torch.equal(model.get_parameter(first).grad, before[first])
    assert torch.equal(model.get_parameter(other).grad, before[other])


def test_a_failure_before_the_first_addition_is_not_torn(monkeypatch):
    model = Line()
    step = plan(model, squares, (torch.ones(2),))
    step(torch.ones(2))
    step(torch.ones(2))
    before = state_of(model)
    first = next(
        name for name in operators(step) if name.startswith("aten_") and "_add_" not in name
    )
    monkeypatch.setitem(operators(step), first, failing_after(None, 0, RuntimeError("early")))
    with pytest.raises(RuntimeError, match="early"):
        step(torch.ones(2))
    assert_same(state_of(model), before)


def test_a_traceback_shows_the_plans_lines(monkeypatch):
    model = Line()
    step = plan(model, squares, (torch.ones(2),))
    monkeypatch.setitem(
        operators(step), "aten_sum", failing_after(None, 0, RuntimeError("deep inside"))
    )
    with pytest.raises(RuntimeError, match="deep inside") as caught:
        step(torch.ones(2))
    shown = "".join(traceback.format_exception(caught.value))
    assert 'File "<magis plan' in shown
    assert " = aten_sum(" in shown


def test_the_traceback_of_a_failure_does_not_keep_the_activations_alive(monkeypatch):
    model = Line()
    step = plan(model, squares, (torch.ones(2),))
    seen = []

    def fail(tensor, *args):
        seen.append(weakref.ref(tensor))
        raise RuntimeError("kept")

    monkeypatch.setitem(operators(step), "aten_sum", fail)
    with pytest.raises(RuntimeError, match="kept") as caught:
        step(torch.ones(2))
    frames = [
        frame
        for frame, _ in traceback.walk_tb(caught.value.__traceback__)
        if frame.f_code.co_filename.startswith("<magis plan")
    ]
    assert len(frames) == 1
    assert frames[0].f_locals == {}
    assert len(seen) == 1


def test_ctrl_c_during_the_commit_waits_until_everything_is_in_place(monkeypatch):
    model, batch = Network(), token_batch()
    step = plan(model, cross_entropy, batch)
    expected = Network()
    expected.load_state_dict(model.state_dict())
    torch.manual_seed(1)
    cross_entropy(expected, *batch).backward()

    from magis.runtime import call

    deposit = call.deposit
    deposits = []

    def interrupted(target, gradient):
        if not deposits:
            os.kill(os.getpid(), signal.SIGINT)
        deposits.append(target)
        deposit(target, gradient)

    monkeypatch.setattr(call, "deposit", interrupted)
    torch.manual_seed(1)
    with pytest.raises(KeyboardInterrupt):
        step(*batch)
    assert len(deposits) == sum(p.grad is not None for p in expected.parameters())
    assert_same(state_of(model), state_of(expected))


def test_an_interrupt_is_deferred_to_the_end_of_the_block():
    reached = []

    def block():
        with DeferredInterrupt():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert reached == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_step_is_not_copied_and_says_what_to_copy(copy_of):
    step = plan(Line(), squares, (torch.ones(2),))
    with pytest.raises(MagisError, match=r"a step cannot be copied or pickled.*magis\.optimize"):
        copy_of(step)
    step(torch.ones(2))  # still works
