"""Parameter hooks see the final gradient, may replace it, and run where backward would run them."""

from __future__ import annotations

import pytest
import torch
from runtime_support import Line, assert_same, eager, plan, squares, state_of


def both():
    """A planned and an eager twin, each as (model, call)."""
    model, other = Line(), Line()
    step = plan(model, squares, (torch.ones(2),))
    return (model, step), (other, lambda x: eager(other, squares, x))


def test_a_hook_sees_the_gradient_and_may_replace_it():
    seen = []
    (model, step), (other, run) = both()
    for net in (model, other):
        net.w.register_hook(lambda grad: seen.append(grad.clone()) or grad * 10)
    step(torch.ones(2))
    run(torch.ones(2))
    assert torch.equal(seen[0], seen[1])
    assert model.w.grad.tolist() == [60.0, 80.0]
    assert_same(state_of(model), state_of(other))


def test_hooks_run_in_order_and_see_this_calls_gradient_when_one_is_there_already():
    (model, step), (other, run) = both()
    for net in (model, other):
        net.w.register_hook(lambda grad: grad + 1)
        net.w.register_hook(lambda grad: grad * 2)
    for _ in range(2):
        step(torch.ones(2))
        run(torch.ones(2))
    assert model.w.grad.tolist() == [2 * 14.0, 2 * 18.0]
    assert_same(state_of(model), state_of(other))


def test_post_accumulate_hooks_run_on_the_sum():
    (model, step), (other, run) = both()
    sums = {"step": [], "eager": []}
    for name, net in (("step", model), ("eager", other)):
        net.w.register_post_accumulate_grad_hook(
            lambda p, seen=sums[name]: seen.append(p.grad.tolist())
        )
    for _ in range(2):
        step(torch.ones(2))
        run(torch.ones(2))
    assert sums["step"] == sums["eager"] == [[6.0, 8.0], [12.0, 16.0]]


def test_an_optimizer_inside_a_post_accumulate_hook():
    (model, step), (other, run) = both()
    for net in (model, other):
        for parameter in net.parameters():
            optimizer = torch.optim.SGD([parameter], lr=0.1)

            def update(p, optimizer=optimizer):
                optimizer.step()
                optimizer.zero_grad()

            parameter.register_post_accumulate_grad_hook(update)
    for _ in range(3):
        step(torch.ones(2))
        run(torch.ones(2))
    assert model.w.grad is None
    assert_same(state_of(model), state_of(other))


def test_a_removed_hook_is_gone():
    (model, step), _ = both()
    model.w.register_hook(lambda grad: grad * 0).remove()
    step(torch.ones(2))
    assert model.w.grad.tolist() == [6.0, 8.0]


def test_hooks_do_not_run_while_the_capture_is_compared_with_eager():
    model, calls = Line(), []
    model.w.register_hook(lambda grad: calls.append("hook"))
    model.b.register_post_accumulate_grad_hook(lambda p: calls.append("post"))
    step = plan(model, squares, (torch.ones(2),), verify_every=1)
    assert calls == []
    step(torch.ones(2))
    assert sorted(calls) == ["hook", "post"]


def test_a_hook_that_fails_leaves_the_model_as_it_was():
    (model, step), _ = both()

    def fail(grad):
        raise RuntimeError("no thanks")

    model.b.register_hook(fail)
    before = state_of(model)
    with pytest.raises(RuntimeError, match="no thanks"):
        step(torch.ones(2))
    assert_same(state_of(model), before)


def test_a_hook_that_returns_another_shape_is_refused():
    (model, step), _ = both()
    model.b.register_hook(lambda grad: grad.sum())
    with pytest.raises(RuntimeError, match=r"hook returned \[\] where a tensor of shape \[2\]"):
        step(torch.ones(2))
    assert model.w.grad is None


def test_what_a_hook_returns_stays_the_hooks_own():
    (model, step), (other, run) = both()
    replacement = torch.tensor([1.0, 2.0])
    for net in (model, other):
        net.w.register_hook(lambda grad: replacement)
    for _ in range(2):
        step(torch.ones(2))
        run(torch.ones(2))
    assert replacement.tolist() == [1.0, 2.0]
    assert_same(state_of(model), state_of(other))


def test_a_failing_post_accumulate_hook_finds_the_step_done():
    (model, step), _ = both()

    def fail(parameter):
        raise RuntimeError("afterwards")

    model.w.register_post_accumulate_grad_hook(fail)
    with pytest.raises(RuntimeError, match="afterwards"):
        step(torch.ones(2))
    assert model.w.grad.tolist() == [6.0, 8.0]
    assert model.b.grad.tolist() == [6.0, 8.0]
