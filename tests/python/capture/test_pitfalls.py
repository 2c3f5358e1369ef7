"""What makes tracing a whole training step subtle; one test for each way to get it wrong."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from capture_support import assert_same, captured, check_step, eager
from torch import nn
from torch.utils.checkpoint import checkpoint as checkpoint_by_another_name

from magis.capture import capture


def mean_square(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()


def lines(text: str, word: str) -> list[str]:
    return [line for line in text.splitlines() if word in line]


class Checkpointed(nn.Module):
    """Dropout inside checkpointed blocks, called in every way there is."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.5)) for _ in range(2)
        )
        self.bound = functools.partial(checkpoint_by_another_name, use_reentrant=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            if self.way == "attribute":
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
            elif self.way == "imported":
                x = checkpoint_by_another_name(block, x, use_reentrant=True)
            elif self.way == "partial":
                x = self.bound(block, x)
        if self.way == "sequential":
            x = torch.utils.checkpoint.checkpoint_sequential(self.blocks, 2, x, use_reentrant=False)
        return x


def test_checkpoint_with_dropout() -> None:
    """Recomputation would be traced with another mask: silently wrong gradients."""
    for way in ("attribute", "partial", "sequential", "imported"):
        x = torch.randn(4, 8, requires_grad=True)  # reentrant checkpoints need it
        step = check_step(Checkpointed(way), mean_square, x)
        assert len(lines(step.text, "magis.bernoulli")) == 2, way


def test_checkpoint_works_again_afterwards() -> None:
    model = Checkpointed("imported")
    capture(model, mean_square, torch.randn(4, 8))
    x = torch.randn(4, 8, requires_grad=True)
    before = torch.utils.checkpoint.CheckpointFunction
    out = checkpoint_by_another_name(model.blocks[0], x, use_reentrant=True)
    assert type(out.grad_fn).__name__ == "CheckpointFunctionBackward"
    assert before is torch.utils.checkpoint.CheckpointFunction


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.frozen = nn.Linear(8, 8)
        self.frozen.requires_grad_(False)
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.frozen(self.embed(ids)))


def test_tied_frozen_and_unused_parameters() -> None:
    ids = torch.randint(0, 11, (4, 5))
    step = check_step(Tied(), lambda m, i: F.cross_entropy(m(i).flatten(0, 1), i.flatten()), ids)
    assert [line.split()[2] for line in lines(step.text, "output grad")] == ['"embed.weight"']
    inputs = [line.split()[2] for line in lines(step.text, "param %")]
    assert inputs == [
        '"embed.weight"',
        *('"frozen.weight"', '"frozen.bias"', '"unused.weight"', '"unused.bias"'),
    ]


class Counting(nn.Module):
    """Buffers written in place, put another tensor in place of, through a view, and not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("in_place", torch.zeros(4))
        self.register_buffer("assigned", torch.zeros(4))
        self.register_buffer("rows", torch.zeros(3, 4))
        self.register_buffer("constant", torch.ones(4))
        self.register_buffer("absent", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) * self.constant
        with torch.no_grad():
            self.in_place.mul_(0.9).add_(y.mean(0))
            self.rows[1] = y[0]
        self.assigned = self.assigned + y.detach().sum(0)
        return y + self.in_place


def test_buffers_that_change() -> None:
    step = check_step(Counting(), mean_square, torch.randn(2, 4))
    written = [line.split()[2] for line in lines(step.text, "output buffer")]
    assert sorted(written) == ['"assigned"', '"in_place"', '"rows"']


class Swapping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("a", torch.zeros(4))
        self.register_buffer("b", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.a, self.b = self.b, self.a
        return self.linear(x) + self.a


def test_buffers_that_trade_places() -> None:
    """Written back one after the other, each must have its value by itself."""
    step = check_step(Swapping(), mean_square, torch.randn(2, 4))
    assert len(lines(step.text, "aten.clone")) == 2


def test_parameter_written_under_no_grad() -> None:
    class Momentum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.online, self.target = nn.Linear(4, 4), nn.Linear(4, 4)
            self.target.requires_grad_(False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                self.target.weight.lerp_(self.online.weight, 0.1)
            return self.online(x) - self.target(x)

    step = check_step(Momentum(), mean_square, torch.randn(2, 4))
    assert lines(step.text, 'output param "target.weight"')


TABLE = torch.arange(8.0).reshape(2, 4)


def test_literals_and_closures_become_constants() -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        scale = torch.tensor([1.0, 2.0, 3.0, 4.0])
        again = torch.tensor([1.0, 2.0, 3.0, 4.0])
        return (model(x) * scale * again + TABLE).square().mean()

    step = check_step(nn.Linear(4, 4), loss, torch.randn(2, 4))
    assert len(lines(step.text, "const %")) == 2  # equal ones are one


def test_constant_is_not_handed_out() -> None:
    """The caller may write to what comes back."""
    step = check_step(
        nn.Linear(4, 4), lambda m, x: (m(x).sum(), torch.tensor([1.0, 2.0])), torch.randn(2, 4)
    )
    assert lines(step.text, "aten.clone(%lit, ")


def test_dropout_mask_on_a_transposed_tensor() -> None:
    """Eager fills the mask in the memory order of its operand, which decides who gets which bit."""

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(model(x).transpose(0, 1), 0.4).square().mean()

    step = check_step(nn.Linear(4, 6), loss, torch.randn(5, 4))
    assert "magis.bernoulli([6, 5], [1, 6], 0.6, dtype=torch.float32) : f32[6,5]{1,6}" in step.text


def test_other_random_operators() -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        noise = torch.empty_like(y.t()).uniform_(-1, 1).t() + torch.randn_like(y)
        drawn = torch.bernoulli(torch.sigmoid(y.detach()))
        return (F.gumbel_softmax(y) * noise * drawn + F.rrelu(y, training=True)).sum()

    check_step(nn.Linear(4, 6), loss, torch.randn(5, 4))


def test_unread_random_operator_still_moves_the_generator() -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        torch.randn(100)
        F.dropout(x)
        return model(x).sum()

    step = check_step(nn.Linear(4, 6), loss, torch.randn(5, 4))
    assert len(lines(step.text, "aten.randn(")) == 1
    assert len(lines(step.text, "magis.bernoulli(")) == 1


def test_writes_through_views() -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = model(x) * 1
        y[:, 0] = 0
        y[y > 1] = -1.0
        y[1].add_(x[0])
        y.narrow(1, 2, 2).relu_()
        return (y + y[:, :2].repeat(1, 2)).square().sum()

    check_step(nn.Linear(4, 4), loss, torch.randn(3, 4))


def test_gradient_inside_the_forward_pass() -> None:
    """A gradient penalty differentiates twice."""

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        score = model(x).square().sum()
        (slope,) = torch.autograd.grad(score, x, create_graph=True)
        return score + slope.square().sum()

    check_step(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)), loss, torch.randn(3, 4))


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return g * x.sign()


def test_custom_autograd_function() -> None:
    step = check_step(
        nn.Linear(4, 4), lambda m, x: Scaled.apply(m(x)).square().sum(), torch.randn(3, 4)
    )
    assert "aten.sign" in step.text


def test_parametrised_weights() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    nn.utils.parametrizations.weight_norm(model[0])
    nn.utils.parametrizations.spectral_norm(model[1])
    step = check_step(model, mean_square, torch.randn(3, 4))
    assert lines(step.text, "output buffer")  # spectral norm's power iteration


def test_reads_of_what_is_known() -> None:
    """Data that is made of shapes and literals alone is the same at every run."""

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[1]).expand(2, -1)
        assert not (positions.diff() != 1).any()
        limit = torch.tensor([2, 3]) * 2
        columns = [c for c in range(x.shape[1]) if positions[0, c] < limit.max()]
        return model(x)[:, columns].sum() * float(limit[0])

    step = check_step(nn.Linear(8, 8), loss, torch.randn(2, 8))
    assert not step.as_if_compiled
    assert "aten.arange" not in step.text
    assert "aten.mul.Tensor(%sum, 4.0)" in step.text


def test_checks_of_data_are_left_out() -> None:
    """They return nothing that the step could use."""

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        torch._assert_async(y.sum() < 1e9)
        return torch.linalg.solve(y.t() @ y + torch.eye(4), y.t()).sum()

    check_step(nn.Linear(4, 4), loss, X)


X = torch.randn(2, 4)


def test_integer_and_complex_arithmetic() -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(model(x))
        power = (spectrum * spectrum.conj()).real
        return power.sum() + torch.view_as_real(spectrum).square().sum() + spectrum.abs().sum()

    check_step(nn.Linear(4, 8), loss, torch.randn(3, 4))


def test_shared_module_runs_twice() -> None:
    layer = nn.Linear(4, 4)
    check_step(nn.Sequential(layer, nn.ReLU(), layer), mean_square, torch.randn(3, 4))


def test_ambient_no_grad_and_inference_mode_do_not_matter() -> None:
    model, x = nn.Linear(4, 4), torch.randn(3, 4)
    plain = capture(model, mean_square, x).text
    with torch.no_grad():
        assert capture(model, mean_square, x).text == plain
    with torch.inference_mode():
        assert capture(model, mean_square, x).text == plain


def test_capture_is_deterministic() -> None:
    model, x = Checkpointed("partial"), torch.randn(4, 8)
    assert capture(model, mean_square, x).text == capture(model, mean_square, x).text


def test_weights_on_meta() -> None:
    real, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), torch.randn(3, 4)
    meta = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to("meta")
    batch = torch.empty(3, 4, device="meta")
    assert capture(meta, mean_square, batch).text == capture(real, mean_square, x).text


def test_capture_for_a_gpu_without_one() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    text = capture(model, mean_square, torch.randn(3, 4), device="cuda").text
    assert "\ndevice cuda\n" in text
    assert "aten.native_dropout(" in text  # what dropout is there
    assert 'device("cuda")' in text
    assert "cuda:0" not in text


def test_same_outcome_on_another_batch() -> None:
    """The text holds nothing of the batch that it was captured with."""
    model = Checkpointed("attribute")
    step = capture(model, mean_square, torch.zeros(4, 8))
    other = torch.randn(4, 8)
    assert_same(eager(model, mean_square, other, 3), captured(step, model, other, 3))
