"""Attention written out becomes PyTorch's kernel, with its derivatives, where that is the same."""

import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from magis import _core
from magis.capture import capture
from magis.errors import PlanError
from magis.verify import FissionCheck
from magis.verify.layouts import check_types

RULE = "attention_of_parts"


@dataclass(frozen=True)
class Shape:
    batch: int
    heads: int
    queries: int
    keys: int
    width: int  # of a head
    form: str  # how the scores are written
    layout: str  # how heads stand in memory
    trained: bool

    @staticmethod
    def at_random(seed: int) -> "Shape":
        draw = random.Random(seed)
        # One head, and rows of one element, are views of another kind.
        lengths = [draw.randint(*ends) for ends in ((1, 3), (2, 4), (1, 9), (2, 9), (2, 6))]
        return Shape(
            *lengths,
            draw.choice(["plain", "divided", "scaled", "masked", "masked row"]),
            draw.choice(["transposed", "first"]),
            draw.random() < 0.8,
        )


class Attention(nn.Module):
    def __init__(self, shape: Shape, dropout: float = 0.0, bias: bool = False) -> None:
        super().__init__()
        self.shape = shape
        width = shape.heads * shape.width
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        mask = torch.where(torch.rand(1, shape.queries, shape.keys) < 0.3, -torch.inf, 0.5)
        mask[..., 0] = 0.0
        if shape.form == "masked row":
            mask[0, 0] = -torch.inf
        self.register_buffer("mask", mask)
        self.dropout = dropout
        self.bias = nn.Parameter(torch.zeros(shape.queries, shape.keys)) if bias else None

    def heads(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        shape = self.shape
        if shape.layout == "first":
            return x.view(n, shape.heads, t, shape.width)
        return x.view(n, t, shape.heads, shape.width).transpose(1, 2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        q, k, v = self.heads(self.query(x)), self.heads(self.key(y)), self.heads(self.value(y))
        mixed = self.attend(q, k, v)
        if self.shape.layout == "transposed":
            mixed = mixed.transpose(1, 2)
        return self.out(mixed.reshape(x.shape))  # type: ignore[no-any-return]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.shape.form.startswith("masked"):
            # With a mask of three dimensions PyTorch computes it by parts itself.
            return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        scores = q @ k.transpose(-1, -2)
        if self.shape.form == "divided":
            scores = scores / 8.0
        if self.shape.form == "scaled":
            scores = scores * 0.3
        if self.bias is not None:
            scores = scores + self.bias
        return F.dropout(torch.softmax(scores, dim=-1), self.dropout) @ v


def captured(shape: Shape, **options: Any) -> str:
    torch.manual_seed(1)
    model = Attention(shape, **options)
    if not shape.trained:
        for linear in (model.query, model.key, model.value):
            linear.requires_grad_(False)
    width = shape.heads * shape.width
    batch = {
        "x": torch.randn(shape.batch, shape.queries, width),
        "y": torch.randn(shape.batch, shape.keys, width),
    }
    return capture(model, lambda m, x, y: m(x, y).square().mean(), batch).text


def prove(seeds: range) -> None:
    typed = 0
    for seed in seeds:
        shape = Shape.at_random(seed)
        text = captured(shape)
        made, rules = _core.rewrite_at_random(
            _core.Graph.parse(text), count=1, seed=seed, only=[RULE]
        )
        assert rules == [RULE], shape
        after = made.text()
        assert "softmax" not in after.replace("softmax_backward_data_", ""), shape
        assert after.count("flash_attention_for_cpu_backward(") == shape.trained, shape
        if well_typed(text):  # strides of lengths of 1 are not always captured as PyTorch has them
            check_types(after)
            typed += 1
        FissionCheck(text, seed=seed, tolerance=1e-9, noise=1e-13).check(after)
    assert typed > len(seeds) / 2


def well_typed(text: str) -> bool:
    try:
        check_types(text)
    except PlanError:
        return False
    return True


def test_it_computes_the_same_on_random_shapes() -> None:
    prove(range(12))


@pytest.mark.long
def test_it_computes_the_same_on_200_random_shapes() -> None:
    prove(range(200))


SHAPE = Shape(2, 2, 5, 5, 4, "divided", "transposed", True)


@pytest.mark.parametrize("options", [{"dropout": 0.1}, {"bias": True}], ids=str)
def test_it_leaves_alone_what_the_kernel_does_not_compute(options: dict[str, Any]) -> None:
    graph = _core.Graph.parse(captured(SHAPE, **options))
    assert RULE not in dict(_core.count_matches(graph))


def test_it_saves_memory_in_a_promised_step() -> None:
    shape = Shape(2, 4, 256, 256, 8, "divided", "transposed", True)
    graph = _core.Graph.parse(captured(shape))
    before = _core.Plan.program_order(graph).simulate("cpu")
    peaks = {}
    for rules in ([], [RULE]):
        found = _core.optimize(
            graph,
            device="cpu",
            memory_limit=1 << 40,
            state_budget=500,
            time_budget=1e9,
            without_rules=[r for r, *_ in _core.rewrite_rules() if r not in rules],
        )
        peaks[bool(rules)] = found.peak_bytes
        assert found.seconds <= before.seconds
    assert peaks[True] < peaks[False] / 2
