"""After k calls of the step everything is, bit for bit, as after k eager backward passes."""

from __future__ import annotations

import gc
import weakref

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
from torch.nn import functional as F

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}


def train(run, model, batches, make_optimizer, accumulate):
    """Losses and states after each call; the optimizer steps after every `accumulate` calls."""
    torch.manual_seed(3)
    optimizer = make_optimizer([p for p in model.parameters() if p.requires_grad])
    losses, states = [], []
    for number, batch in enumerate(batches):
        losses.append(run(*batch))
        states.append(state_of(model))
        if number % accumulate == accumulate - 1:
            optimizer.step()
            optimizer.zero_grad()
    return losses, [*states, state_of(model)]


def assert_trains_alike(model, loss_fn, batches, make_optimizer=OPTIMIZERS["sgd"], accumulate=1):
    other = twin(model)
    step = plan(model, loss_fn, batches[0])
    losses, states = train(step, model, batches, make_optimizer, accumulate)
    expected = train(
        lambda *batch: eager(other, loss_fn, *batch), other, batches, make_optimizer, accumulate
    )
    for loss, expected_loss in zip(losses, expected[0], strict=True):
        assert torch.equal(loss, expected_loss)
        assert not loss.requires_grad
    for state, expected_state in zip(states, expected[1], strict=True):
        assert_same(state, expected_state)
    return step


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_with_an_optimizer_outside(optimizer):
    batches = [token_batch() for _ in range(4)]
    assert_trains_alike(Network(), cross_entropy, batches, OPTIMIZERS[optimizer])


@pytest.mark.parametrize("accumulate", [2, 3])
def test_gradients_add_up_over_several_calls(accumulate):
    batches = [token_batch() for _ in range(2 * accumulate)]
    assert_trains_alike(Network(), cross_entropy, batches, accumulate=accumulate)


def gradient_inputs(step):
    return [entry.path for entry in step.plan.graph.inputs if entry.kind == "grad"]


def test_gradients_are_added_inside_the_plan():
    model = Line()
    step = plan(model, squares, (torch.ones(2),))
    step(torch.ones(2))
    first = [p.grad for p in model.parameters()]
    assert gradient_inputs(step) == []
    step(torch.ones(2))
    assert gradient_inputs(step) == ["w", "b"]
    assert all(p.grad is g for p, g in zip(model.parameters(), first, strict=True))
    assert model.w.grad.tolist() == [12.0, 16.0]


def test_zeroed_gradients_that_are_kept_are_added_into():
    model, other = Line(), Line()
    step = plan(model, squares, (torch.ones(2),))
    for run, net in ((step, model), (lambda x: eager(other, squares, x), other)):
        for scale in (1.0, 2.0, 3.0):
            for p in net.parameters():
                if p.grad is not None:
                    p.grad.zero_()
            run(torch.full((2,), scale))
    assert_same(state_of(model), state_of(other))


def test_some_gradients_present_and_others_not():
    model, other = Line(), Line()
    step = plan(model, squares, (torch.ones(2),))
    for net in (model, other):
        net.b.grad = torch.tensor([10.0, 20.0])
    step(torch.ones(2))
    eager(other, squares, torch.ones(2))
    assert_same(state_of(model), state_of(other))
    assert model.b.grad.tolist() == [16.0, 28.0]


def test_a_gradient_of_another_layout_is_added_into_as_it_is():
    model, x = nn.Linear(3, 4), torch.randn(2, 3)
    other = twin(model)

    def loss(net, x):
        return net(x).square().sum()

    step = plan(model, loss, (x,))
    for net in (model, other):
        net.weight.grad = torch.ones(3, 4).t()
    grad = model.weight.grad
    step(x)
    eager(other, loss, x)
    assert model.weight.grad is grad
    assert_same(state_of(model), state_of(other))


def test_each_gradient_has_a_dense_storage_of_its_own():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.ones(4))
            self.b = nn.Parameter(torch.ones(4))
            self.c = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return (self.a + self.b) * x + self.c.sum()

    model, other, x = Shared(), Shared(), torch.arange(4.0)
    step = plan(model, lambda m, x: m(x).sum(), (x,))
    step(x)
    eager(other, lambda m, x: m(x).sum(), x)
    assert_same(state_of(model), state_of(other))
    storages = {p.grad.untyped_storage().data_ptr() for p in model.parameters()} | {
        x.untyped_storage().data_ptr()
    }
    assert len(storages) == 4
    assert all(p.grad.is_contiguous() for p in model.parameters())


def test_the_last_smaller_batch_just_works():
    batches = [token_batch(6), token_batch(6), token_batch(4)]
    step = assert_trains_alike(Network(), cross_entropy, batches)
    assert "2 of 8 plans" in repr(step)


def test_plans_are_made_under_a_profiler():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    model(torch.ones(1, 3, 8, 8))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step = plan(model, squares, (torch.randn(6, 3, 8, 8),))
        step(torch.randn(6, 3, 8, 8))
        step(torch.randn(4, 3, 8, 8))
    assert step.eager_calls == 0
    assert any("convolution_backward" in event.name for event in profile.events())


def test_switching_to_eval_and_back():
    model = Network()
    other = twin(model)
    batch = token_batch()
    step = plan(model, cross_entropy, batch)
    for train_mode in (True, False, True):
        results = []
        for net, run in ((model, step), (other, lambda *b: eager(other, cross_entropy, *b))):
            net.train(train_mode)
            torch.manual_seed(5)
            results.append((run(*batch), state_of(net)))
        assert torch.equal(results[0][0], results[1][0])
        assert_same(results[0][1], results[1][1])


def test_eager_training_and_state_dicts_in_between():
    model = Network()
    other = twin(model)
    step = plan(model, cross_entropy, token_batch())
    batches = [token_batch() for _ in range(4)]
    for net in (model, other):
        optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
        torch.manual_seed(7)
        for number, batch in enumerate(batches):
            if net is model and number % 2 == 0:
                step(*batch)
            else:
                eager(net, cross_entropy, *batch)
            optimizer.step()
            optimizer.zero_grad()
            net.load_state_dict({k: v.clone() for k, v in net.state_dict().items()})
            with torch.no_grad():
                net.eval()(batch[0])
            net.train()
    assert_same(state_of(model), state_of(other))


def test_everything_that_the_loss_function_returns_comes_back_detached():
    def loss(model, x):
        out = model(x)
        return out.sum(), {"logits": out, "label": "fine"}, [x, 3]

    model, x = Line(), torch.ones(2)
    step = plan(model, loss, (x,))
    value, named, rest = step(x)
    assert value.item() == 7.0
    assert named["logits"].tolist() == [3.0, 4.0]
    assert named["label"] == "fine"
    assert torch.equal(rest[0], x)
    assert rest[1] == 3
    assert not value.requires_grad
    assert not named["logits"].requires_grad


def test_a_dict_batch_becomes_keyword_arguments_in_any_order():
    def loss(model, x, scale):
        return (model(x) * scale).sum()

    model, other = Line(), Line()
    step = plan(model, loss, {"x": torch.ones(2), "scale": 0.5})
    assert step(scale=2.0, x=torch.ones(2)).item() == 14.0
    eager(other, loss, torch.ones(2), 2.0)
    assert_same(state_of(model), state_of(other))


def test_floats_are_runtime_scalars_and_do_not_make_new_plans():
    def loss(model, x, weight):
        return (model(x) * (1 - weight)).sum(), weight * 2

    model = Line()
    step = plan(model, loss, (torch.ones(2), 0.25))
    for weight in (0.0, 0.5, -3.0):
        other = Line()
        model.zero_grad()
        value, doubled = step(torch.ones(2), weight)
        expected = eager(other, loss, torch.ones(2), weight)
        assert torch.equal(value, expected[0])
        assert doubled == expected[1]
        assert_same(state_of(model), state_of(other))
    assert "1 of 8 plans" in repr(step)


def test_batch_tensors_that_require_grad_get_theirs():
    def loss(model, x, y):
        return (model(x) * y).sum()

    model = Line()
    step = plan(model, loss, (torch.ones(2, requires_grad=True), torch.ones(2)))
    x, y = torch.ones(2, requires_grad=True), torch.tensor([1.0, 2.0])
    step(x, y)
    assert x.grad.tolist() == [2.0, 6.0]
    step(x, y)
    assert x.grad.tolist() == [4.0, 12.0]
    assert y.grad is None


def test_a_batch_tensor_with_a_history_hands_its_gradient_on():
    model = Line()
    source = torch.ones(2, requires_grad=True)
    step = plan(model, squares, (source * 1,))
    step(source * 3)
    other, expected = Line(), torch.ones(2, requires_grad=True)
    eager(other, squares, expected * 3)
    assert torch.equal(source.grad, expected.grad)
    assert_same(state_of(model), state_of(other))


def test_without_a_loss_function_the_model_alone_runs():
    model = Network().eval()
    tokens, _ = token_batch()
    step = plan(model, None, (tokens,))
    before = state_of(model)
    with torch.inference_mode():
        result = step(tokens)
    assert torch.equal(result, model(tokens).detach())
    assert not result.requires_grad
    assert_same(state_of(model), before)


def test_calls_under_no_grad_and_inference_mode_leave_ordinary_gradients():
    model, other = Line(), Line()
    step = plan(model, squares, (torch.ones(2),))
    with torch.no_grad():
        step(torch.ones(2))
    model.zero_grad()
    with torch.inference_mode():
        step(torch.ones(2))
    assert not model.w.grad.is_inference()
    eager(other, squares, torch.ones(2))
    assert_same(state_of(model), state_of(other))


def test_autocast_around_the_call_is_captured_and_guarded():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x)

    def loss(model, x):
        return F.mse_loss(model(x).float(), x)

    model, x = Block(), torch.randn(4, 8)
    other = twin(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        step = plan(model, loss, (x,))
        value = step(x)
        result = loss(other, x)
    result.backward()
    assert torch.equal(value, result.detach())
    assert_same(state_of(model), state_of(other))
    model.zero_grad()
    other.zero_grad()
    step(x)  # without autocast: another plan
    eager(other, loss, x)
    assert_same(state_of(model), state_of(other))
    assert "2 of 8 plans" in repr(step)


def test_a_buffer_that_the_forward_pass_puts_in_place_anew():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(2))
            self.register_buffer("mean", torch.zeros(2))
            self.register_buffer("previous", torch.zeros(2))

        def forward(self, x):
            old = self.mean
            self.mean = 0.9 * old + 0.1 * x.mean(0)
            self.previous.copy_(old)
            return (self.w * (x - self.mean)).square().sum()

    model, other = Counting(), Counting()
    step = plan(model, lambda m, x: m(x), (torch.randn(3, 2),))
    for _ in range(3):
        x = torch.randn(3, 2)
        step(x)
        eager(other, lambda m, x: m(x), x)
    assert_same(state_of(model), state_of(other))


def test_the_step_does_not_keep_its_batches_alive():
    x = torch.ones(2)
    step = plan(Line(), squares, (x,))
    held = weakref.ref(x)
    del x
    gc.collect()
    assert held() is None
    y = torch.ones(2)
    step(y)
    held = weakref.ref(y)
    del y
    assert held() is None


def test_a_parameter_that_the_forward_pass_writes_to():
    class Averaged(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(2))
            self.average = nn.Parameter(torch.zeros(2), requires_grad=False)

        def forward(self, x):
            with torch.no_grad():
                self.average.mul_(0.9).add_(self.w, alpha=0.1)
            return ((self.w - self.average) * x).square().sum()

    model, other = Averaged(), Averaged()
    average = model.average
    step = plan(model, lambda m, x: m(x), (torch.ones(2),), verify_every=2)
    assert_same(state_of(model), state_of(other))
    for _ in range(3):
        step(torch.ones(2))
        eager(other, lambda m, x: m(x), torch.ones(2))
        assert_same(state_of(model), state_of(other))
    assert model.average is average
