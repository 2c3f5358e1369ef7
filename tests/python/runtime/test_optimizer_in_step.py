"""With the optimizer in the step: parameters, state and counts are after k calls, bit for bit, as
after k times backward(), step() and zero_grad()."""

from __future__ import annotations

import copy
import io
import os
import signal
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from runtime_support import Line, Network, cross_entropy, plan, squares, token_batch, twin
from torch import nn

import magis
from magis.errors import CaptureError, GuardError, MagisError, TornStep

Make = Callable[[Any], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.95)),
    "fused sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01, fused=True),
    "fused momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, fused=True),
    "fused adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1, fused=True),
    "fused adamw": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
}


class Pair:
    """A model trained by a step with its optimizer inside, and its twin trained by eager."""

    def __init__(
        self,
        make: Make = OPTIMIZERS["adamw"],
        model: nn.Module | None = None,
        loss_fn: Callable[..., Any] = cross_entropy,
        batch: Any = None,
        clip_grad_norm: float | None = None,
        **options: Any,
    ) -> None:
        self.model = Network() if model is None else model
        self.twin = twin(self.model)
        self.loss_fn = loss_fn
        self.clip_grad_norm = clip_grad_norm
        self.optimizer = make(self.model.parameters())
        self.eagers = make(self.twin.parameters())
        self.step = plan(
            self.model,
            loss_fn,
            token_batch() if batch is None else batch,
            optimizer=self.optimizer,
            clip_grad_norm=clip_grad_norm,
            **options,
        )

    def train(self, batch: Any) -> None:
        torch.manual_seed(5)
        found = self.step(*batch)
        after = torch.get_rng_state()
        torch.manual_seed(5)
        expected = self.train_twin(batch)
        assert torch.equal(found, expected)
        assert torch.equal(after, torch.get_rng_state())
        self.assert_same()

    def train_twin(self, batch: Any) -> torch.Tensor:
        loss = self.loss_fn(self.twin, *batch)
        loss.backward()
        if self.clip_grad_norm is not None:
            nn.utils.clip_grad_norm_(self.twin.parameters(), self.clip_grad_norm)
        self.eagers.step()
        self.eagers.zero_grad()
        return loss.detach()

    def assert_same(self) -> None:
        pairs = zip(self.model.named_parameters(), self.twin.parameters(), strict=True)
        for (name, ours), theirs in pairs:
            assert torch.equal(ours, theirs), name
            assert ours.grad is None
            state, expected = self.optimizer.state[ours], self.eagers.state[theirs]
            assert state.keys() == expected.keys()
            for key, value in expected.items():
                assert torch.equal(state[key], value), (name, key)
                assert state[key].stride() == value.stride(), (name, key)
        for ours, theirs in zip(self.model.buffers(), self.twin.buffers(), strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_eagers(name: str, clip: float | None) -> None:
    pair = Pair(OPTIMIZERS[name], clip_grad_norm=clip)
    for _ in range(4):
        pair.train(token_batch())


def test_gradients_die_where_they_are_used() -> None:
    torch.manual_seed(0)
    width, depth = 64, 8
    model = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(depth)])
    batch = (torch.randn(4, width),)
    pair = Pair(OPTIMIZERS["sgd"], model, squares, batch, memory_limit=0.7)
    weight = 4 * width * width
    persistent = depth * weight + 4 * batch[0].numel()
    # Activations and gradients of activations are 1 KiB each; all gradients were 128 KiB.
    assert pair.step.report.promised_peak_bytes - persistent < 3 * weight
    for _ in range(3):
        pair.train((torch.randn(4, width),))


def test_schedulers_see_steps_and_set_rates() -> None:
    pair = Pair()
    schedules = [
        torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        for optimizer in (pair.optimizer, pair.eagers)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "lr_scheduler.step() before optimizer.step()"
        for _ in range(3):
            pair.train(token_batch())
            for schedule in schedules:
                schedule.step()
    assert pair.optimizer.param_groups[0]["lr"] == 0.01 / 8


def test_parameter_groups_have_their_own_settings() -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        first, *rest = parameters
        groups: list[dict[str, Any]] = [
            {"params": [first], "lr": 0.1, "weight_decay": 0.0},
            {"params": rest},
        ]
        return torch.optim.AdamW(groups, lr=0.01)

    pair = Pair(make)
    pair.train(token_batch())
    for optimizer in (pair.optimizer, pair.eagers):
        optimizer.param_groups[1]["weight_decay"] = 0.3
        optimizer.param_groups[0]["betas"] = (0.5, 0.6)
    pair.train(token_batch())


def test_a_checkpoint_goes_from_one_to_the_other() -> None:
    pair = Pair()
    pair.train(token_batch())
    saved = io.BytesIO()
    torch.save((pair.model.state_dict(), pair.optimizer.state_dict()), saved)
    saved.seek(0)
    model_state, optimizer_state = torch.load(saved)
    pair.train_twin(token_batch())  # elsewhere, then back
    for model, optimizer in ((pair.model, pair.optimizer), (pair.twin, pair.eagers)):
        model.load_state_dict(model_state)
        optimizer.load_state_dict(copy.deepcopy(optimizer_state))
    pair.train(token_batch())


def test_eager_steps_in_between() -> None:
    pair = Pair()
    pair.train(token_batch())
    batch = token_batch()
    torch.manual_seed(5)
    pair.train_twin(batch)
    torch.manual_seed(5)
    pair.loss_fn(pair.model, *batch).backward()
    pair.optimizer.step()
    pair.optimizer.zero_grad()
    pair.train(token_batch())


def test_a_parameter_that_lags_behind_is_planned_for() -> None:
    pair = Pair(model=Line(), loss_fn=squares, batch=(torch.randn(4, 2),))
    pair.train((torch.randn(4, 2),))
    for model, optimizer in ((pair.model, pair.optimizer), (pair.twin, pair.eagers)):
        first = next(model.parameters())
        first.grad = torch.ones_like(first)
        optimizer.step()
        first.grad = None
    pair.train((torch.randn(4, 2),))


def test_groups_may_be_added() -> None:
    model = Line()
    first, *rest = model.parameters()
    optimizer = torch.optim.SGD([first], lr=0.1)
    batch = (torch.randn(4, 2),)
    step = plan(model, squares, batch, optimizer=optimizer)
    step(*batch)
    assert first.grad is None
    assert all(parameter.grad is not None for parameter in rest)
    optimizer.add_param_group({"params": rest, "lr": 0.2})
    with pytest.raises(GuardError, match=r"has a gradient already"):
        step(*batch)
    optimizer.zero_grad()
    before = rest[0].detach().clone()
    step(*batch)
    assert not torch.equal(before, rest[0])
    assert rest[0].grad is None


def test_hooks_of_the_optimizer_run() -> None:
    pair = Pair()
    heard = []
    pair.optimizer.register_step_pre_hook(lambda *_: heard.append("before"))
    pair.optimizer.register_step_post_hook(lambda *_: heard.append("after"))
    pair.train(token_batch())
    assert heard == ["before", "after"]
    tokens, labels = token_batch()
    pair.train((tokens[:2], labels[:2]))  # planned anew: comparing with eager runs none
    assert heard == ["before", "after"] * 2


def test_a_new_shape_may_run_eagerly() -> None:
    pair = Pair(on_new_shape="eager")
    tokens, labels = token_batch()
    pair.train((tokens[:2], labels[:2]))
    assert pair.step.eager_calls == 1
    pair.train((tokens, labels))


def test_tied_weights_are_updated_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(8, 8, bias=False)
            self.b = nn.Linear(8, 8, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(torch.tanh(self.a(x)))

    pair = Pair(model=Tied(), loss_fn=squares, batch=(torch.randn(4, 8),))
    for _ in range(3):
        pair.train((torch.randn(4, 8),))


def test_layouts_of_parameters_are_kept() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 3))
    model = model.to(memory_format=torch.channels_last)
    batch = (torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),)
    pair = Pair(model=model, loss_fn=squares, batch=batch)
    for _ in range(3):
        pair.train(batch)


def test_recomputing_reads_the_old_values() -> None:
    torch.manual_seed(0)
    layers = [m for _ in range(6) for m in (nn.Linear(16, 16), nn.Tanh())]
    batch = (torch.randn(256, 16),)
    pair = Pair(
        OPTIMIZERS["sgd"], nn.Sequential(*layers), squares, batch, memory_limit=0.55, exact=True
    )
    assert " as .1" in pair.step.plan.text()  # something is recomputed
    for _ in range(3):
        pair.train((torch.randn(256, 16),))


def test_what_the_step_would_pass_over_is_refused() -> None:
    pair = Pair()
    first = next(pair.model.parameters())
    first.grad = torch.zeros_like(first)
    before = [p.detach().clone() for p in pair.model.parameters()]
    with pytest.raises(GuardError, match=r"has a gradient already.*zero_grad"):
        pair.step(*token_batch())
    first.grad = None
    handle = first.register_hook(lambda grad: 2 * grad)
    with pytest.raises(GuardError, match=r"has a gradient hook"):
        pair.step(*token_batch())
    handle.remove()
    assert all(map(torch.equal, before, pair.model.parameters()))
    pair.train(token_batch())


def test_an_error_before_the_loss_leaves_everything() -> None:
    pair = Pair(OPTIMIZERS["adamw"])
    pair.train(token_batch())
    tokens, labels = token_batch()
    with pytest.raises(IndexError):
        pair.step(tokens, torch.full_like(labels, 1000))
    pair.assert_same()
    pair.train((tokens, labels))


def test_a_torn_update_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    names = pair.step._current.step.base._names
    [name] = [n for n in names if n.startswith("aten_addcdiv")]
    calls = []

    def fails(*args: Any, **kwargs: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise RuntimeError("out of memory")

    monkeypatch.setitem(names, name, fails)
    with pytest.raises(TornStep, match=r"RuntimeError after updates had begun") as raised:
        pair.step(*token_batch())
    assert raised.value.touched
    assert set(raised.value.touched) <= {name for name, _ in pair.model.named_parameters()}


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need it"
)
def test_ctrl_c_waits_for_the_end_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    names = pair.step._current.step.base._names
    [name] = [n for n in names if n.startswith("aten_addcdiv")]
    own = names[name]

    def interrupted(*args: Any, **kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        own(*args, **kwargs)

    monkeypatch.setitem(names, name, interrupted)
    batch = token_batch()
    torch.manual_seed(5)
    with pytest.raises(KeyboardInterrupt):
        pair.step(*batch)
    monkeypatch.undo()
    torch.manual_seed(5)
    pair.train_twin(batch)
    pair.assert_same()


def test_arguments_that_make_no_sense() -> None:
    model, batch = Line(), (torch.randn(4, 2),)
    optimizer = torch.optim.SGD(model.parameters())
    with pytest.raises(MagisError, match=r"clip_grad_norm needs an optimizer"):
        magis.optimize(model, squares, batch, clip_grad_norm=1.0)
    with pytest.raises(CaptureError, match=r"clip_grad_norm=-1 must be a positive number"):
        magis.optimize(model, squares, batch, clip_grad_norm=-1, optimizer=optimizer)
    with pytest.raises(MagisError, match=r"needs a loss_fn"):
        magis.optimize(model, None, batch, optimizer=optimizer)
    with pytest.raises(CaptureError, match=r"torch.optim.Optimizer, not a str"):
        magis.optimize(model, squares, batch, optimizer="adamw")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, torch.bfloat16) for n in OPTIMIZERS if n != "fused momentum"]
    # Adam's epsilon is 0 in float16, and parameters are not numbers any more after a step.
    + [(n, torch.float16) for n in ("sgd", "momentum", "nesterov", "fused sgd")],
)
def test_parameters_of_16_bits(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(dtype)
    batches = [(torch.randn(16, 8, dtype=dtype),) for _ in range(4)]

    def small(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x).float().square().mean()

    pair = Pair(OPTIMIZERS[name], model, small, batches[0])
    for batch in batches:
        pair.train(batch)


def test_fused_momentum_in_16_bits_is_refused() -> None:
    model = nn.Linear(8, 4).bfloat16()
    optimizer = OPTIMIZERS["fused momentum"](model.parameters())
    with pytest.raises(CaptureError, match=r"the parameter weight has 16 bits.*without fused=True"):
        plan(model, squares, (torch.randn(2, 8).bfloat16(),), optimizer=optimizer)


def test_state_that_was_cleared_is_made_again() -> None:
    pair = Pair()
    fresh = pair.optimizer.state_dict()["param_groups"]
    pair.train(token_batch())
    for optimizer in (pair.optimizer, pair.eagers):
        optimizer.state.clear()
    pair.train(token_batch())
    for optimizer in (pair.optimizer, pair.eagers):
        optimizer.load_state_dict({"state": {}, "param_groups": copy.deepcopy(fresh)})
    pair.train(token_batch())


class Spare(nn.Module):
    """With a parameter that the step does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(4, 4)
        self.spare = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.used(x)
        return found


def test_a_parameter_without_gradient_is_left_alone() -> None:
    batch = (torch.randn(4, 4),)
    pair = Pair(OPTIMIZERS["adam"], Spare(), squares, batch, on_new_shape="error")
    for _ in range(3):
        pair.train(batch)  # by the one plan
    spare = pair.model.spare.weight  # type: ignore[union-attr]
    assert not pair.optimizer.state.get(spare)
    spare.grad = torch.ones_like(spare)
    with pytest.raises(GuardError, match=r"spare.weight has a gradient already"):
        pair.step(*batch)


def test_clipping_goes_by_what_the_optimizer_updates() -> None:
    batch = (torch.randn(4, 4),)

    def of_weight(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD([next(iter(parameters))], lr=0.1)

    model = Spare()
    other = twin(model)
    optimizer, eagers = of_weight(model.parameters()), of_weight(other.parameters())
    step = plan(model, squares, batch, optimizer=optimizer, clip_grad_norm=0.1)
    for _ in range(3):
        step(*batch)
        squares(other, *batch).backward()
        nn.utils.clip_grad_norm_([other.used.weight], 0.1)
        eagers.step()
        eagers.zero_grad()
        for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
            assert torch.equal(ours, theirs)
            assert (ours.grad is None) == (theirs.grad is None)
            assert ours.grad is None or torch.equal(ours.grad, theirs.grad)


def test_hooks_that_change_settings_count_at_once() -> None:
    pair = Pair(lambda p: torch.optim.SGD(p, lr=0.1))

    def decay(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        optimizer.param_groups[0]["weight_decay"] = 0.1

    for optimizer in (pair.optimizer, pair.eagers):
        optimizer.register_step_pre_hook(decay)
    pair.train(token_batch())


def test_rewritten_updates_read_runtime_scalars() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.a(x) + self.b(x)
            return found

    model = Sum()
    batch = (torch.randn(16, 8),)
    other = twin(model)
    make = lambda p: torch.optim.SGD(p, lr=0.01, weight_decay=0.1)  # noqa: E731
    optimizer, eagers = make(model.parameters()), make(other.parameters())
    step = plan(model, squares, batch, optimizer=optimizer, memory_limit=1.0)
    step(*batch)
    squares(other, *batch).backward()
    eagers.step()
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
