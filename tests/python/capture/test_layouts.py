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
