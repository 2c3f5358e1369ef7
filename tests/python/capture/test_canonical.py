"""The canonical form: one spelling for each view and each factory, nothing that is not needed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from capture_support import check_step
from torch import nn

Function = Callable[[torch.Tensor], torch.Tensor]


def statements(function: Function, x: torch.Tensor) -> list[str]:
    """The statements of a forward pass whose module is `function`, checked against eager."""

    class Apply(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    text = check_step(Apply(), None, x).text
    return [line.split(" @")[0] for line in text.splitlines() if line.startswith("%")]


X = torch.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x[0].t(), ["select.int(%batch_0, 0, 0)", "permute(%select, [1, 0])"]),
        (lambda x: x.transpose(-1, -3), ["permute(%batch_0, [2, 1, 0])"]),
        (lambda x: x.mT, ["permute(%batch_0, [0, 2, 1])"]),
        (lambda x: x.movedim(0, -1), ["permute(%batch_0, [1, 2, 0])"]),
        (lambda x: x.swapaxes(0, 1), ["permute(%batch_0, [1, 0, 2])"]),
        (lambda x: x.view(-1, 4), ["view(%batch_0, [6, 4])"]),
        (lambda x: x.flatten(), ["view(%batch_0, [24])"]),
        (lambda x: x.unflatten(2, (2, 2)), ["view(%batch_0, [2, 3, 2, 2])"]),
        (lambda x: x[..., 1:-1], ["slice.Tensor(%batch_0, 2, 1, 3)"]),
        (lambda x: x[:, :100, ::2], ["slice.Tensor(%batch_0, 2, 0, 4, 2)"]),
        (lambda x: x[:, -2:], ["slice.Tensor(%batch_0, 1, 1, 3)"]),
        (lambda x: x.narrow(-1, 1, 2), ["slice.Tensor(%batch_0, 2, 1, 3)"]),
        (lambda x: x.select(-1, -1), ["select.int(%batch_0, 2, 3)"]),
        (lambda x: x.unsqueeze(-1), ["unsqueeze(%batch_0, 3)"]),
        (lambda x: x.expand(5, -1, -1, 4), ["expand(%batch_0, [5, 2, 3, 4])"]),
        (
            lambda x: x[:1, :, :1].squeeze(),
            [
                "slice.Tensor(%batch_0, 0, 0, 1)",
                "slice.Tensor(%slice, 2, 0, 1)",
                "squeeze.dims(%slice_1, [0, 2])",
            ],
        ),
        (
            lambda x: x[:1].squeeze(-3),
            ["slice.Tensor(%batch_0, 0, 0, 1)", "squeeze.dim(%slice, 0)"],
        ),
        (lambda x: x.diagonal(dim1=-2, dim2=-1), ["diagonal(%batch_0, 0, 1, 2)"]),
        (lambda x: x.unfold(-1, 2, 1), ["unfold(%batch_0, 2, 2, 1)"]),
        (lambda x: x.view(torch.int32), ["view.dtype(%batch_0, torch.int32)"]),
        (
            lambda x: torch.view_as_complex(x.view(2, 3, 2, 2)),
            ["view(%batch_0, [2, 3, 2, 2])", "view_as_complex(%view)"],
        ),
        (
            lambda x: x.as_strided((2, 2), (4, 1), 3),
            ["as_strided(%batch_0, [2, 2], [4, 1], 3)"],
        ),
    ],
)
def test_one_spelling_for_each_view(function: Function, expected: list[str]) -> None:
    calls = [line.split(" = aten.")[1].split(" : ")[0] for line in statements(function, X)]
    assert calls == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.split(2, -1)[1], ["slice.Tensor(%batch_0, 2, 2, 4)"]),
        (lambda x: x.split([1, 3], 2)[0], ["slice.Tensor(%batch_0, 2, 0, 1)"]),
        (lambda x: x.chunk(3, 2)[1], ["slice.Tensor(%batch_0, 2, 2, 4)"]),
        (lambda x: x.tensor_split(3, 2)[2], ["slice.Tensor(%batch_0, 2, 3, 4)"]),
        (lambda x: x.unbind(1)[2], ["select.int(%batch_0, 1, 2)"]),
    ],
)
def test_one_result_for_each_view(function: Function, expected: list[str]) -> None:
    """Pieces that nobody reads are not there."""
    calls = [line.split(" = aten.")[1].split(" : ")[0] for line in statements(function, X)]
    assert calls == expected


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.view(2, 3, 4),
        lambda x: x.transpose(0, 1).transpose(0, 1),
        lambda x: x.flatten().view(2, 3, 4),
        lambda x: x.detach(),
        lambda x: x[:],
        lambda x: x.squeeze(1),
        lambda x: x.expand(-1, -1, -1),
        lambda x: x.contiguous(),
        lambda x: (x.exp(), x)[1],
    ],
)
def test_what_changes_nothing_is_not_there(function: Function) -> None:
    assert statements(function, X) == []


def test_reshape_that_copies() -> None:
    assert statements(lambda x: x.transpose(0, 1).reshape(6, 4), X) == [
        "%permute = aten.permute(%batch_0, [1, 0, 2]) : f32[3,2,4]{4,12,1}",
        "%clone = aten.clone(%permute, memory_format=torch.contiguous_format) : f32[3,2,4]",
        "%view = aten.view(%clone, [6, 4]) : f32[6,4]",
    ]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (torch.zeros_like, "full([2, 3, 4], 0,"),
        (torch.ones_like, "full([2, 3, 4], 1,"),
        (lambda x: torch.full_like(x, 2.5), "full([2, 3, 4], 2.5,"),
        (lambda x: x.new_zeros(5), "full([5], 0,"),
        (lambda x: x.new_ones(5), "full([5], 1,"),
        (lambda x: x.new_full((5,), 7), "full([5], 7,"),
        (lambda x: torch.ones(2, dtype=torch.bool), "full([2], true,"),
        (lambda x: torch.empty_like(x).fill_(3), "full([2, 3, 4], 3,"),
        (lambda x: torch.empty_like(x).zero_(), "full([2, 3, 4], 0,"),
    ],
)
def test_factories_do_not_hold_on_to_their_operand(function: Function, expected: str) -> None:
    (line,) = statements(function, X)
    assert f"aten.{expected} dtype=torch." in line
    assert 'device=device("cpu"))' in line


def test_factory_in_another_layout() -> None:
    assert statements(lambda x: torch.zeros_like(x.permute(2, 0, 1)), X) == [
        '%full = aten.full([2, 3, 4], 0, dtype=torch.float32, device=device("cpu")) : f32[2,3,4]',
        "%permute = aten.permute(%full, [2, 0, 1]) : f32[4,2,3]{1,12,4}",
    ]


def test_copy_into_a_fresh_tensor() -> None:
    """What was in the tensor before is not read; the layout is kept."""
    assert statements(lambda x: torch.empty(4, 3, 2).permute(2, 1, 0).copy_(x).exp(), X) == [
        "%permute = aten.permute(%batch_0, [2, 1, 0]) : f32[4,3,2]{1,4,12}",
        "%clone = aten.clone(%permute, memory_format=torch.contiguous_format) : f32[4,3,2]",
        "%permute_1 = aten.permute(%clone, [2, 1, 0]) : f32[2,3,4]{1,2,6}",
        "%exp = aten.exp(%permute_1) : f32[2,3,4]{1,2,6}",
    ]


def test_casts_say_only_what_changes() -> None:
    (line,) = statements(lambda x: x.to(torch.bfloat16), X)
    assert line == "%to_copy = aten._to_copy(%batch_0, dtype=torch.bfloat16) : bf16[2,3,4]"


def test_unused_results_and_outputs_left_out() -> None:
    """native_layer_norm has three results; a gradient that is not asked for has the type none."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3))
    text = check_step(model, lambda m, x: m(x).sum(), torch.randn(1, 3, 8, 8)).text
    backward = [
        line for line in text.splitlines() if "convolution_backward" in line and "=" in line
    ]
    assert backward[1].count(": none, f32[") == 1


def test_types_tell_storage_and_offset() -> None:
    (line,) = statements(lambda x: x[1, 1:, 2:], X)[-1:]
    assert line.endswith(": f32[2,2]{4,1}+18")
    (line,) = statements(lambda x: x[0, :2], X)[-1:]
    assert line.endswith(": f32[2,4]/96")


def test_names_are_identifiers_and_distinct() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in ("in", "a_b", "mm", "torch"):
                self.register_parameter(name, nn.Parameter(torch.randn(2, 2)))
            self.a = nn.Module()
            self.a.b = nn.Parameter(torch.randn(2, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for parameter in self.parameters():
                x = torch.mm(x, parameter)
            return x

    text = check_step(Odd(), lambda m, x: m(x).sum(), torch.randn(2, 2)).text
    inputs = [line.split()[1] for line in text.splitlines() if line.startswith("param ")]
    assert inputs == ["%in_", "%a_b", "%mm", "%torch_", "%a_b_1"]
    assert "%mm_1 = aten.mm(" in text


def test_strings_are_escaped() -> None:
    batch = ({'a "quoted"\\key': torch.randn(2, 2)},)
    text = check_step(nn.Linear(2, 2), lambda m, b: m(next(iter(b.values()))).sum(), batch).text
    assert r"""batch %batch_0_a_quoted_key "[0]['a \"quoted\"\\\\key']" : f32[2,2]""" in text


def test_dead_code_is_dropped() -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        torch.tensor([5.0]).exp()
        model(x).exp().sum()
        return model(x).sum()

    text = check_step(nn.Linear(2, 2), loss, torch.randn(3, 2)).text
    assert "aten.exp(" not in text
    assert "const" not in text


def test_cross_entropy_keeps_its_operators() -> None:
    """Nothing is decomposed."""
    text = check_step(
        nn.Linear(4, 5),
        lambda m, x, y: F.cross_entropy(m(x), y),
        (torch.randn(3, 4), torch.arange(3)),
    ).text
    for name in ("_log_softmax", "nll_loss_forward", "nll_loss_backward"):
        assert f"aten.{name}(" in text
