"""Strides are those that eager's kernels give, also where PyTorch's formulas for fakes differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from capture_support import check_step
from torch import nn

from magis.capture.fakes import make_fake_mode

_aten = torch.ops.aten


def laid_out(shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    return torch.zeros(4096).as_strided(shape, strides)


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        # A gradient that comes transposed, an input that does not.
        (
            lambda a, b: _aten.softplus_backward(a, b, 1.0, 20.0),
            [laid_out((2, 16, 4), (64, 1, 16)), laid_out((2, 16, 4), (64, 4, 1))],
        ),
        # Both are contiguous, as lengths of 1 hide.
        (
            _aten.add.Tensor,
            [
                laid_out((2, 220, 1, 1), (220, 1, 1, 1)),
                laid_out((2, 220, 1, 1), (220, 1, 220, 220)),
            ],
        ),
        (lambda a: _aten.view(a, [1, 64, 8, 8]), [laid_out((1, 64, 64), (4096, 1, 64))]),
        (
            lambda a: _aten.upsample_bilinear2d_backward(
                _aten.view(a, [1, 64, 8, 8]), [8, 8], [1, 64, 8, 8], False
            ),
            [laid_out((1, 64, 64), (4096, 1, 64))],
        ),
        (
            lambda a, b: _aten._grouped_mm(a, b, torch.zeros(3, dtype=torch.int32)),
            [laid_out((9, 4), (4, 1)), laid_out((3, 4, 8), (32, 8, 1))],
        ),
    ],
)
def test_fakes_are_laid_out_as_results_are(
    function: Callable[..., torch.Tensor], operands: list[torch.Tensor]
) -> None:
    expected = function(*operands)
    with make_fake_mode() as mode:
        found = function(*map(mode.from_tensor, operands))
    assert found.shape == expected.shape
    assert found.stride() == expected.stride()


def squares(model: nn.Module, *batch: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = model(*batch)
    return out.square().mean()


def test_channels_last_stays() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3))
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    step = check_step(model, squares, x)
    assert "f32[2,8,6,6]{288,1,48,8}" in step.text


def test_masks_are_drawn_in_eagers_memory_order() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
    check_step(layer, squares, torch.randn(4, 6, 8))


@pytest.mark.parametrize(
    "noise",
    [
        torch.randn_like,
        torch.rand_like,
        lambda t: torch.empty_like(t).normal_(),
        lambda t: torch.empty_like(t).uniform_(-1, 2),
        lambda t: torch.empty_like(t).exponential_(),
        lambda t: torch.bernoulli(t.sigmoid()),
        lambda t: F.dropout(t, 0.3, inplace=True),
    ],
)
def test_noise_on_transposed_tensors(noise: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def loss(m: nn.Module, x: torch.Tensor) -> Any:
        h = m(x).t()
        return (h + noise(h)).square().mean()

    check_step(nn.Linear(24, 24), loss, torch.randn(40, 24))


class Gru(nn.Module):
    """Over batches that come whole or, with lengths, packed; two layers, both directions."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.gru = nn.GRU(5, 24, 2, bidirectional=True, dropout=0.3, **options)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        if lengths is None:
            return self.gru(x)[0]  # type: ignore[no-any-return]
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0])[0]


# Twenty-four columns, of which vectors hold eight or sixteen: in rows of their own, as eager has
# them, other elements are the rest than in all rows as one.
@pytest.mark.parametrize(("batch_first", "packed"), [(False, False), (True, False), (False, True)])
def test_gates_of_a_gru_round_as_in_eager(batch_first: bool, packed: bool) -> None:
    torch.manual_seed(0)
    lengths = (torch.tensor([3, 4, 2, 4, 1, 3, 4]),) if packed else ()
    model = Gru(batch_first=batch_first)
    check_step(model, squares, (torch.randn(4, 7, 5), *lengths))


def test_gates_of_a_gru_cell_round_as_in_eager() -> None:
    torch.manual_seed(0)
    check_step(nn.GRUCell(5, 24), lambda m, x: m(x, m(x)).square().sum(), torch.randn(7, 5))


def test_cells_of_an_lstm_round_as_in_eager() -> None:
    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        state = None
        for _ in range(3):
            state = m(x, state)
        return state[0].square().sum() + state[1].sum()  # type: ignore[index, no-any-return]

    torch.manual_seed(0)
    check_step(nn.LSTMCell(5, 24), loss, torch.randn(7, 5))
    double = nn.LSTM(5, 24, bidirectional=True).double()
    check_step(double, lambda m, x: m(x)[0].square().mean(), torch.randn(4, 7, 5).double())


def test_what_is_not_exact_reads_the_strides_that_in_place_operators_left() -> None:
    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        pieces = m(x).unsafe_chunk(3, 1)
        return pieces[0].add_(1).sigmoid_().sum() + pieces[1].mul(2).sum()

    text = check_step(nn.Linear(5, 72), loss, torch.randn(7, 5)).text
    (read,) = (
        line.split("(%")[1].split(")")[0] for line in text.splitlines() if "sigmoid(" in line
    )
    (made,) = (line for line in text.splitlines() if line.startswith(f"%{read} ="))
    assert "f32[7,24]{72,1}" in made
