"""Floats in the batch stay variable: one capture serves all their values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from capture_support import assert_same, captured, check_step, eager
from torch import nn

from magis.capture import OutputScalar, ScalarLeaf, StaticLeaf, capture
from magis.capture.scalars import evaluate
from magis.errors import CaptureError

Use = Callable[[torch.Tensor, float], torch.Tensor]


def loss_with(use: Use) -> Callable[..., torch.Tensor]:
    def loss(model: nn.Module, x: torch.Tensor, s: float) -> torch.Tensor:
        y = model(x)
        return use(y, s).float().sum() + y.mean()

    return loss


@pytest.mark.parametrize(
    "use",
    [
        lambda y, s: y * s,
        lambda y, s: (1 - s) * y / 3,
        lambda y, s: y / s - 2 * s,
        lambda y, s: torch.add(y, y, alpha=s),
        lambda y, s: torch.where(y > s, y, -s),
        lambda y, s: y.clamp(min=-s, max=2 * s),
        lambda y, s: torch.addmm(y, y, torch.ones(4, 4), beta=s, alpha=s / 2),
        lambda y, s: torch.full((4,), s) * y,
        lambda y, s: y.masked_fill(y > 0, s),
        lambda y, s: F.leaky_relu(y, s),
        lambda y, s: y.bfloat16() * s,
    ],
)
def test_arithmetic(use: Use) -> None:
    """Also for the values that programs like to treat apart."""
    model, x = nn.Linear(4, 4), torch.randn(3, 4)
    step = capture(model, loss_with(use), (x, 0.3))
    for value in (0.3, 1.0, 0.0, -2.5):
        batch = (x, value)
        assert_same(eager(model, loss_with(use), batch, 1), captured(step, model, batch, 1))


def test_expressions_in_the_text() -> None:
    def loss(model: nn.Module, x: torch.Tensor, weights: dict[str, float]) -> torch.Tensor:
        a, b = weights["a"], weights["b"]
        return ((1 - a) * model(x)).sum() * (a * b) + (1 - a) * model.bias.sum()

    step = check_step(nn.Linear(4, 4), loss, (torch.randn(3, 4), {"a": 0.25, "b": 1.5}))
    scalars = [line for line in step.text.splitlines() if line.startswith("scalar")]
    assert scalars == [
        """scalar %scalar_sub_1_0_1_a "sub(1.0, [1]['a'])\"""",
        """scalar %scalar_mul_1_a_1_b "mul([1]['a'], [1]['b'])\"""",
    ]
    assert step.batch_leaves[1:] == (ScalarLeaf("[1]['a']"), ScalarLeaf("[1]['b']"))


def test_floats_that_come_back() -> None:
    def loss(model: nn.Module, x: torch.Tensor, s: float) -> tuple[object, ...]:
        return model(x).sum(), s, {"double": 2 * s, "fixed": 0.5, "name": "n"}

    step = check_step(nn.Linear(4, 4), loss, (torch.randn(3, 4), 0.25))
    assert step.out_leaves[1:] == (
        OutputScalar("[1]", "[1]"),
        OutputScalar("[2]['double']", "mul(2.0, [1])"),
        StaticLeaf("[2]['fixed']", 0.5),
        StaticLeaf("[2]['name']", "n"),
    )


def test_other_values_are_frozen() -> None:
    def loss(model: nn.Module, x: torch.Tensor, n: int, how: str, flag: bool) -> torch.Tensor:
        y = model(x) * n
        return y.sum() if how == "sum" and flag else y.mean()

    step = check_step(nn.Linear(4, 4), loss, (torch.randn(3, 4), 3, "sum", True))
    assert step.batch_leaves[1:] == (
        StaticLeaf("[1]", 3),
        StaticLeaf("[2]", "sum"),
        StaticLeaf("[3]", True),
    )


def branch(y: torch.Tensor, s: float) -> torch.Tensor:
    return y if s > 0.5 else -y


@pytest.mark.parametrize(
    "use",
    [
        branch,
        lambda y, s: y * int(s),
        lambda y, s: F.dropout(y, s),
        lambda y, s: y * max(s, 0.1),
        lambda y, s: y if s != 1 else y + 1,
        lambda y, s: y * float(s),
    ],
)
def test_where_a_value_is_needed(use: Use) -> None:
    with pytest.raises(CaptureError, match=r"needs the value of batch\[1\], a float"):
        capture(nn.Linear(4, 4), loss_with(use), (torch.randn(3, 4), 0.7))


def test_evaluate() -> None:
    values = {"['w']": 0.5, "['w'][1]": 4.0, "['add(']": 3.0}
    assert evaluate("['w']", values) == 0.5
    assert evaluate("['w'][1]", values) == 4.0  # the longest path counts
    assert evaluate("sub(mul(2.0, ['w']), truediv(['w'][1], -1e-01))", values) == 41.0
    assert evaluate("add(['add('], inf)", values) == float("inf")
    assert evaluate("sqrt(['w'][1])", values) == 2.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("['v']", "neither a number, a function nor one of the batch's floats: \\['w'\\]"),
        ("add(1.0, 2.0", "expected ', ' or '\\)'"),
        ("1.0 2.0", "neither a number"),
        ("add(1.0, 2.0)x", "'x' is left over"),
        ("__import__(1.0)", "neither a number"),
    ],
)
def test_malformed_expressions(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(text, {"['w']": 1.0})
