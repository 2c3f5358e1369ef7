"""Values that a step reads from tensors, by where they come from; shapes that depend on data."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from capture_support import check_step
from torch import nn

from magis.capture import Capture, capture
from magis.capture.reads import Measure
from magis.errors import CaptureError

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([1, 3, 2, 2])
MASK = torch.tensor([True, False, True, True])


def step_of(function: Callable[..., torch.Tensor], *batch: torch.Tensor) -> Capture:
    """A step that applies `function` to a layer's result and the rest of the batch."""
    return check_step(
        nn.Linear(6, 6),
        lambda m, x, *rest: function(m(x), *rest).square().mean(),
        (X, *batch),
    )


def reads(step: Capture) -> list[tuple[Measure, Any]]:
    return [] if step.guards is None else [(r.measure, r.expected) for r in step.guards.reads]


def refused(function: Callable[..., Any], *batch: torch.Tensor) -> str:
    with pytest.raises(CaptureError) as caught:
        capture(nn.Linear(6, 6), lambda m, *b: function(m(b[0]), *b[1:]).sum(), (X, *batch))
    return str(caught.value)


def test_from_constants_it_is_folded() -> None:
    step = step_of(lambda h: h * torch.arange(5).max().item())
    assert reads(step) == []
    assert step.checks == ()


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda n: n.max().item(), 3),
        (lambda n: n.tolist()[1], [1, 3, 2, 2]),
        (lambda n: int(n.numpy().sum()), [1, 3, 2, 2]),
        (lambda n: 2.0 if n.sum() else 1.0, True),
        (lambda n: 2.0 if torch.equal(n, n.clone()) else 1.0, True),
        (lambda n: float(n[0]), 1),
        (lambda n: len(range(n[1])), 3),
    ],
)
def test_from_the_batch_it_is_guarded(read: Callable[..., Any], expected: Any) -> None:
    step = step_of(lambda h, n: h * read(n), LENGTHS)
    assert reads(step) == [(Measure.value, expected)]
    assert step.guards is not None
    assert step.guards.inputs == (("batch", "[1]"),)
    assert step.checks == ()


def test_the_guard_recomputes_what_was_read() -> None:
    step = step_of(lambda h, n: h * n.max().item(), LENGTHS)
    assert step.guards is not None
    assert [t.item() for t in step.guards.program(torch.tensor([9, 1]))] == [9]


def test_one_guard_for_what_is_read_twice() -> None:
    def twice(h: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        most = n.max()
        return h * most.item() + int(most)

    assert len(reads(step_of(twice, LENGTHS))) == 1


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("scale", torch.tensor(3.0))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: torch.Tensor, counts: bool) -> torch.Tensor:
        y = self.linear(x) * float(self.scale)
        if counts:
            self.calls += 1
            y = y * self.calls.item()
        return y


def test_from_a_buffer_it_is_guarded() -> None:
    step = check_step(Scaled(), lambda m, x: m(x, False).sum(), X)
    assert step.guards is not None
    assert step.guards.inputs == (("buffer", "scale"),)


def test_from_a_buffer_that_the_step_changes_it_is_refused() -> None:
    with pytest.raises(CaptureError, match="buffer calls, which the step itself changes"):
        capture(Scaled(), lambda m, x: m(x, True).sum(), X)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_condition_on_activations_is_speculated_on(sign: int) -> None:
    def clamped(h: torch.Tensor) -> torch.Tensor:
        return h if torch.isfinite(h).all() and h.square().sum() * sign > 0 else h.clamp(-1, 1)

    step = step_of(clamped)
    assert [(c.expected, c.chance) for c in step.checks] == [(True, False), (sign > 0, False)]
    assert [line for line in step.text.splitlines() if line.startswith("output aux")] == [
        f'output aux "speculated[{i}]" %{name}' for i, name in enumerate(("clone", "clone_1"))
    ]


def test_numbers_from_activations_are_refused() -> None:
    assert "reads the value of a tensor" in refused(lambda h: h * h.sum().item())
    assert "test_reads.py" in refused(lambda h: h * h.sum().item())


def test_a_random_choice_is_speculated_on() -> None:
    """The outcome is that of the generator's state at the call."""
    outcomes = []
    for seed in range(6):
        torch.manual_seed(seed)
        model = nn.Linear(6, 6)
        step = capture(
            model, lambda m, x: F.dropout(m(x)).sum() * (2 if torch.rand(()) < 0.5 else 1), X
        )
        state = torch.get_rng_state()
        F.dropout(X)
        outcomes.append(bool(torch.rand(()) < 0.5))
        torch.set_rng_state(state)
        assert [(c.expected, c.chance) for c in step.checks] == [(outcomes[-1], True)]
    assert len(set(outcomes)) == 2


class LayerDrop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(encoder_layerdrop=0.1)
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if torch.rand(()) >= self.config.encoder_layerdrop:
                x = layer(x)
        return x


def test_too_many_random_choices_name_the_argument() -> None:
    with pytest.raises(CaptureError, match=r"set encoder_layerdrop \(0.1\) to 0"):
        capture(LayerDrop(), lambda m, x: m(x).sum(), X)


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_draws_outside_of_torch_are_refused(draw: Callable[[], float]) -> None:
    message = refused(lambda h: h * draw())
    assert "would repeat at every run" in message


@pytest.mark.parametrize(
    ("function", "given", "measure", "expected"),
    [
        (lambda h, m: h[m], MASK, Measure.count, 3),
        (lambda h, m: torch.where(m)[0] * h[m].sum(), MASK, Measure.count, 3),
        (lambda h, m: torch.masked_select(h, m[:, None]), MASK, Measure.count, 3),
        (lambda h, n: h.repeat_interleave(n, 0), LENGTHS, Measure.total, 8),
        (lambda h, n: h.sum() * torch.unique(n), LENGTHS, Measure.shape, (3,)),
    ],
)
def test_shapes_from_the_batch_are_guarded(
    function: Callable[..., Any], given: torch.Tensor, measure: Measure, expected: Any
) -> None:
    assert (measure, expected) in reads(step_of(function, given))


def test_writing_through_a_mask() -> None:
    def doubled(h: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(h)
        y[mask] = h[mask] * 2
        return y

    step = step_of(doubled, MASK)
    assert step.text.count("aten.nonzero(") == 1


def test_shapes_from_activations_are_refused() -> None:
    message = refused(lambda h: h[h > 0])
    assert "the shape of a result depends on the data (aten.nonzero" in message
    assert "`message = refused(lambda h: h[h > 0])`" in message


@pytest.mark.parametrize("kind", [nn.LSTM, nn.RNN])
def test_packed_sequences(kind: type[nn.Module]) -> None:
    def loss(m: nn.Module, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(m(packed)[0], batch_first=True, total_length=5)
        return out.square().mean()

    step = check_step(kind(6, 7, batch_first=True), loss, (torch.randn(4, 3, 6), LENGTHS))
    assert (Measure.value, [3, 2, 2, 1]) in reads(step)


def test_ctc() -> None:
    def loss(m: nn.Module, x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(m(x).log_softmax(-1), *rest)

    batch = (
        torch.randn(8, 2, 6),
        torch.randint(1, 5, (2, 3)),
        torch.tensor([8, 7]),
        torch.tensor([3, 2]),
    )
    assert len(reads(check_step(nn.Linear(6, 5), loss, batch))) == 2


def test_without_values_it_is_refused() -> None:
    with pytest.raises(CaptureError, match="on the meta device"):
        capture(
            nn.Linear(6, 6, device="meta"),
            lambda m, x, n: m(x).sum() * n.max().item(),
            (X.to("meta"), LENGTHS.to("meta")),
        )


def test_what_literals_say_is_read_without_weights() -> None:
    """Weights on the meta device hold nothing; a mask made of lengths does."""

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4, device="meta")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mask = torch.arange(x.shape[1], device=x.device) < 4
            return self.linear(x) if mask.all() else x

    x = torch.empty(2, 4, device="meta")
    captured = capture(Masked(), lambda model, x: model(x).sum(), (x,))
    assert "aten.addmm" in captured.text
