"""Awkward modules written by hand: each does one thing that captures stumble over."""

from __future__ import annotations

import dataclasses
import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

Case = Callable[[], tuple[nn.Module, Any, list[Any]]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def build(name: str) -> tuple[nn.Module, Any, list[Any]]:
    torch.manual_seed(0)
    model, loss, batches = CASES[name]()
    return model.train(), loss, batches


def floats(*shape: int) -> list[tuple[torch.Tensor]]:
    return [(torch.randn(*shape),) for _ in range(2)]


def squares(model: nn.Module, *batch: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = model(*batch)
    return out.square().mean()


class Lambda(nn.Module):
    """A layer with a function after it."""

    def __init__(self, function: Callable[..., torch.Tensor], size: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.function = function

    def forward(self, x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        return self.function(self.linear(x), *rest)


# ---- values and shapes from the batch


@case
def lengths_to_list() -> Any:
    def cut(h: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return torch.cat([row[:k] for row, k in zip(h, n.tolist(), strict=True)])

    batches = [(torch.randn(3, 5, 8), torch.tensor(n)) for n in ([5, 3, 2], [4, 5, 1])]
    return Lambda(cut), squares, batches


@case
def boolean_mask() -> Any:
    batches = [(torch.randn(6, 8), torch.rand(6) > 0.3) for _ in range(2)]
    return Lambda(lambda h, m: h[m]), squares, batches


@case
def repeat_by_durations() -> Any:
    batches = [(torch.randn(4, 8), torch.randint(1, 4, (4,))) for _ in range(2)]
    return Lambda(lambda h, n: h.repeat_interleave(n, dim=0)), squares, batches


@case
def packed_lstm() -> Any:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(6, 7, 2, batch_first=True, bidirectional=True, dropout=0.2)

        def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, n, True, enforce_sorted=False)
            return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], True)[0]

    batches = [(torch.randn(3, 5, 6), torch.tensor(n)) for n in ([5, 3, 2], [4, 5, 1])]
    return Tagger(), squares, batches


@case
def ctc() -> Any:
    def loss(m: nn.Module, x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(m(x).log_softmax(-1), *rest)

    batches = [
        (
            torch.randn(9, 2, 8),
            torch.randint(1, 8, (2, 3)),
            torch.tensor([9, 7 + i]),
            torch.tensor([3, 2]),
        )
        for i in range(2)
    ]
    return nn.Linear(8, 8), loss, batches


@case
def unique_ids() -> Any:
    def pool(h: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        values, where = torch.unique(ids, return_inverse=True)
        return h.new_zeros(len(values), h.shape[1]).index_add(0, where, h)

    batches = [(torch.randn(6, 8), torch.randint(0, 4, (6,))) for _ in range(2)]
    return Lambda(pool), squares, batches


@case
def padding_decides_in_python() -> Any:
    def masked(h: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return h if m.all() else h.masked_fill(~m[:, None], 0.0)

    batches = [(torch.randn(4, 8), torch.tensor(m)) for m in ([True] * 4, [True, False] * 2)]
    return Lambda(masked), squares, batches


@case
def image_grid() -> Any:
    def merge(h: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        parts = h.split([int(a * b) for a, b in grid])
        return torch.stack(
            [p.view(int(a), int(b), -1).mean((0, 1)) for p, (a, b) in zip(parts, grid, strict=True)]
        )

    grids = (torch.tensor([[2, 3], [1, 4]]), torch.tensor([[5, 1], [1, 5]]))
    return Lambda(merge), squares, [(torch.randn(10, 8), grid) for grid in grids]


# ---- conditions on activations and chance


@case
def checks_for_infinity() -> Any:
    def clamped(h: torch.Tensor) -> torch.Tensor:
        if not torch.isfinite(h).all():
            h = h.clamp(-1e4, 1e4)
        if torch.isnan(h).any():
            raise ValueError("not a number")
        return h

    return Lambda(clamped), squares, floats(4, 8)


@case
def infinity_at_the_second_step() -> Any:
    batches = floats(4, 8)
    batches[1][0][0, 0] = float("inf")

    def clamped(h: torch.Tensor) -> torch.Tensor:
        return h if torch.isfinite(h).all() else h.clamp(-1, 1)

    return Lambda(clamped), lambda m, x: (m(x) * 0.5).mean(), batches


@case
def layer_drop() -> Any:
    class Drop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                if torch.rand([]) >= 0.5:
                    x = F.dropout(layer(x), 0.1)
            return x + self.layers[0].bias

    return Drop(), squares, floats(4, 8)


# ---- layouts


@case
def channels_last() -> Any:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 4, 1),
        nn.GroupNorm(2, 4),
        nn.Upsample(scale_factor=2),
    ).to(memory_format=torch.channels_last)
    batches = [(torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),) for _ in range(2)]
    return model, squares, batches


@case
def batch_first_encoder() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    return nn.TransformerEncoder(layer, 2), squares, floats(2, 5, 8)


@case
def encoder_decoder() -> Any:
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.2, batch_first=True)
    batches = [(torch.randn(2, 5, 8), torch.randn(2, 4, 8)) for _ in range(2)]
    return model, squares, batches


@case
def noise_on_a_transposed_tensor() -> Any:
    def noisy(h: torch.Tensor) -> torch.Tensor:
        t = h.transpose(0, 1)
        t = t + torch.randn_like(t) + torch.rand_like(t)
        return F.dropout(t, 0.4) * torch.empty_like(t).uniform_(0.5, 1.0)

    return Lambda(noisy, 32), squares, floats(24, 32)


@case
def in_place_on_views() -> Any:
    def edited(h: torch.Tensor) -> torch.Tensor:
        y = h * 1
        y[:, 0] = 0
        y[1].add_(y[2])
        y.narrow(1, 2, 2).add_(2)
        y.t()[3].mul_(2)
        y[y > 1] = -1.0
        return y

    return Lambda(edited), squares, floats(4, 8)


@case
def permuted_output() -> Any:
    return Lambda(lambda h: h.view(4, 2, 4).permute(2, 0, 1)[::2]), squares, floats(4, 8)


# ---- operators


@torch.library.custom_op("magis_sweep::scaled_sine", mutates_args=())
def _scaled_sine(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.sin(x) * scale


@_scaled_sine.register_fake
def _(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(x)


def _sine_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


def _sine_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return grad * torch.cos(ctx.saved_tensors[0]) * ctx.scale, None


_scaled_sine.register_autograd(_sine_backward, setup_context=_sine_setup)


@case
def custom_operator() -> Any:
    return Lambda(lambda h: torch.ops.magis_sweep.scaled_sine(h, 2.0)), squares, floats(4, 8)


class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * (ctx.saved_tensors[0].abs() < 1)


@case
def autograd_function() -> Any:
    return Lambda(lambda h: _Straight.apply(h)), squares, floats(4, 8)


@case
def gradient_penalty() -> Any:
    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        slope = torch.autograd.grad(m(x).sum(), x, create_graph=True)[0]
        return (slope.norm(2, dim=1) - 1).square().mean()

    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)), loss, floats(4, 8)


@case
def complex_numbers() -> Any:
    def spectrum(h: torch.Tensor) -> torch.Tensor:
        z = torch.view_as_complex(h.view(4, 4, 2).contiguous())
        return (z * z.conj() + z.abs()).real + torch.fft.irfft(torch.fft.rfft(h)).sum()

    return Lambda(spectrum), squares, floats(4, 8)


@case
def stft() -> Any:
    def power(h: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(16)
        return torch.stft(h, 16, 4, window=window, return_complex=True).abs()

    return Lambda(power, 64), squares, floats(2, 64)


@case
def lstm() -> Any:
    return _first(nn.LSTM(6, 7, 2, dropout=0.2, batch_first=True)), squares, floats(3, 5, 6)


@case
def gru() -> Any:
    return _first(nn.GRU(6, 7, 2, dropout=0.2, bidirectional=True)), squares, floats(5, 3, 6)


def _first(model: nn.Module) -> nn.Module:
    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)[0]  # type: ignore[no-any-return]

    return First()


@case
def embedding_bag() -> Any:
    batches = [(torch.randint(0, 20, (7,)), torch.tensor([0, 3, 5])) for _ in range(2)]
    return nn.EmbeddingBag(20, 6), squares, batches


@case
def graph_layer() -> Any:
    def propagate(h: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges
        messages = h[source].relu()
        total = torch.zeros_like(h).scatter_add(0, target[:, None].expand_as(messages), messages)
        degree = torch.zeros(len(h)).index_add(0, target, torch.ones(len(target)))
        most = torch.full_like(h, -1e9).scatter_reduce(
            0, target[:, None].expand_as(messages), messages, "amax"
        )
        return total / degree.clamp(min=1)[:, None] + most.clamp(min=0)

    batches = [(torch.randn(5, 8), torch.randint(0, 5, (2, 12))) for _ in range(2)]
    return Lambda(propagate), squares, batches


@case
def linear_algebra() -> Any:
    def solved(h: torch.Tensor) -> torch.Tensor:
        a = h @ h.T + torch.eye(len(h))
        return torch.linalg.solve(a, h) + torch.linalg.cholesky(a).sum() + torch.logdet(a)

    return Lambda(solved), squares, floats(4, 8)


@case
def einsum_and_padding() -> Any:
    def mixed(h: torch.Tensor) -> torch.Tensor:
        w = h.view(4, 2, 4)
        y = torch.einsum("bic,bjc->bij", w, w)
        return F.pad(y, (1, 2), mode="replicate").cumsum(-1).sort(-1).values.topk(2).values

    return Lambda(mixed), squares, floats(4, 8)


@case
def grid_sample() -> Any:
    def warped(h: torch.Tensor) -> torch.Tensor:
        grid = h.view(2, 4, 4, 2).tanh()
        return F.grid_sample(h.view(2, 2, 4, 4), grid, align_corners=False)

    return Lambda(warped, 32), squares, floats(2, 32)


@case
def function_transforms() -> Any:
    def mapped(h: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: (row.outer(row)).sum(0))(h)

    return Lambda(mapped), squares, floats(4, 8)


# ---- modules


@case
def spectral_norm() -> Any:
    model = nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(8, 8)),
        nn.ReLU(),
        parametrizations.weight_norm(nn.Linear(8, 8)),
    )
    return model, squares, floats(4, 8)


@case
def old_spectral_norm() -> Any:
    return nn.utils.spectral_norm(nn.Linear(8, 8)), squares, floats(4, 8)


@case
def own_parametrization() -> Any:
    class Symmetric(nn.Module):
        def forward(self, w: torch.Tensor) -> torch.Tensor:
            return w.triu() + w.triu(1).T

    model = nn.Linear(8, 8)
    parametrize.register_parametrization(model, "weight", Symmetric())
    return model, squares, floats(4, 8)


@case
def orthogonal() -> Any:
    return parametrizations.orthogonal(nn.Linear(8, 8)), squares, floats(4, 8)


@case
def buffer_put_anew() -> Any:
    class Average(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.register_buffer("mean", torch.zeros(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
            return y - self.mean

    return Average(), squares, floats(4, 8)


@case
def vector_quantizer() -> Any:
    class Quantizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.register_buffer("codes", torch.randn(5, 8))
            self.register_buffer("used", torch.ones(5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.linear(x)
            chosen = torch.cdist(h, self.codes).argmin(1)
            hot = F.one_hot(chosen, 5).float()
            with torch.no_grad():
                self.used.mul_(0.9).add_(hot.sum(0), alpha=0.1)
                self.codes.copy_(0.9 * self.codes + 0.1 * (hot.T @ h) / self.used[:, None])
            quantized = F.embedding(chosen, self.codes)
            return h + (quantized - h).detach()

    return Quantizer(), squares, floats(6, 8)


@case
def hooks() -> Any:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    model[0].register_forward_hook(lambda _m, _a, out: out * 2)
    model[2].register_forward_pre_hook(lambda _m, args: (args[0] + 1,))

    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        h = m[0](x)
        h.register_hook(lambda grad: grad * 0.5)
        return m[2](h).square().mean()  # type: ignore[no-any-return]

    return model, loss, floats(4, 8)


@dataclasses.dataclass
class Answer:
    hidden: torch.Tensor
    extra: dict[str, Any]


@case
def dataclass_inside() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> Answer:
            h = self.linear(x)
            return Answer(h, {"norms": [h.norm(), {"max": h.max()}]})

    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        out = m(x)
        return out.hidden.square().mean() + out.extra["norms"][1]["max"]

    return Model(), loss, floats(4, 8)


@case
def dataclass_returned() -> Any:
    def loss(m: nn.Module, x: torch.Tensor) -> Any:
        h = m(x)
        return h.square().mean(), Answer(h, {"norms": [h.norm()]})

    return nn.Linear(8, 8), loss, floats(4, 8)


Pair = namedtuple("Pair", "first second")


@case
def nested_results() -> Any:
    def loss(m: nn.Module, x: torch.Tensor) -> Any:
        h = m(x)
        return h.square().mean(), {"a": [h, None, 3], "b": Pair(h.sum(), (h.t(), "word"))}

    return nn.Linear(8, 8), loss, floats(4, 8)


@case
def checkpoint_reentrant() -> Any:
    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.3)) for _ in range(3)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.blocks[0](x)
            x = checkpoint(self.blocks[1], x, use_reentrant=True)
            return checkpoint(functools.partial(self.blocks[2]), x, use_reentrant=True)

    return Blocks(), squares, floats(4, 8)


@case
def checkpoint_plain() -> Any:
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3)) for _ in range(4)))

    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return checkpoint_sequential(m, 2, x, use_reentrant=False).square().mean()

    return blocks, loss, floats(4, 8)


@case
def tied_and_frozen() -> Any:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.frozen = nn.Linear(8, 8).requires_grad_(False)
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.frozen(self.embed(ids)))

    return Tied(), squares, [(torch.randint(0, 11, (2, 5)),) for _ in range(2)]


@case
def weights_made_by_weights() -> Any:
    class Hyper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.maker = nn.Linear(4, 64)
            self.code = nn.Parameter(torch.randn(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight = self.maker(self.code).view(8, 8)
            return torch.func.functional_call(nn.Linear(8, 8, bias=False), {"weight": weight}, x)

    return Hyper(), squares, floats(4, 8)


@case
def float_in_the_batch() -> Any:
    return (
        nn.Linear(8, 8),
        lambda m, x, w: (m(x) * w).square().mean(),
        [(torch.randn(4, 8), 0.3), (torch.randn(4, 8), 1.7)],
    )


@case
def plain_tensor_attribute() -> Any:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.shift = torch.arange(8.0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) + self.shift[: int(self.shift[-1]) + 1]

    return Shifted(), squares, floats(4, 8)


@case
def batch_norm_in_double_use() -> Any:
    norm = nn.BatchNorm1d(8)
    return nn.Sequential(nn.Linear(8, 8), norm, nn.ReLU(), norm), squares, floats(4, 8)


# ---- to be refused


@case
def refused_numbers_from_activations() -> Any:
    return Lambda(lambda h: h * h.abs().max().item()), squares, floats(4, 8)


@case
def refused_routing() -> Any:
    return Lambda(lambda h: h[h.sum(1) > 0] * 2), squares, floats(4, 8)
