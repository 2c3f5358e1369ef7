"""Gradients come out as eager mode would leave them in `.grad`: dense, apart, in its strides."""

from __future__ import annotations

import itertools

import pytest
import torch
from capture_support import check_step
from torch import nn

from magis.capture import Capture
from magis.verify.text import parse


class Two(nn.Module):
    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(shape))
        self.b = nn.Parameter(torch.randn(shape))


def gradients_own_memory(step: Capture) -> None:
    """No gradient shares storage with another output or an input; each fills its storage."""
    document = parse(step.text)
    inputs = {item.name for item in document.inputs}
    owners = [(o.kind, document.owner(o.name)) for o in document.outputs]
    for kind, owner in owners:
        assert kind != "grad" or owner not in inputs
    shared = [
        (x, y)
        for x, y in itertools.combinations(owners, 2)
        if x[1] == y[1] and "grad" in (x[0], y[0])
    ]
    assert shared == []


def test_one_tensor_for_two_parameters() -> None:
    step = check_step(Two(3, 4), lambda m, x: ((m.a + m.b) * x).sum(), torch.randn(3, 4))
    gradients_own_memory(step)


def test_expanded_gradients() -> None:
    step = check_step(Two(3, 4), lambda m, x: (m.a.sum() + m.b.mean()) * x, torch.randn(()))
    gradients_own_memory(step)
    assert "output grad" in step.text


def test_gradient_that_is_an_input() -> None:
    step = check_step(Two(3, 4), lambda m, x: (m.a * x).sum(), torch.randn(3, 4))
    gradients_own_memory(step)


def test_gradient_that_also_comes_back() -> None:
    def loss(m: Two, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.exp()
        return (m.a * y).sum(), y

    step = check_step(Two(3, 4), loss, torch.randn(3, 4))
    gradients_own_memory(step)


def test_parts_of_one_tensor() -> None:
    """Gradients cut out of a bigger tensor would keep all of it alive."""

    def loss(m: Two, x: torch.Tensor) -> torch.Tensor:
        return (torch.cat([m.a, m.b]) * x).exp().sum()

    step = check_step(Two(3, 4), loss, torch.randn(6, 4))
    gradients_own_memory(step)
    document = parse(step.text)
    assert all(document.types[o.name].storage == 48 for o in document.outputs if o.kind == "grad")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_strides_of_the_parameter(order: tuple[int, ...]) -> None:
    model = Two(2, 3, 4)
    inverse = sorted(range(3), key=lambda d: order[d])
    model.a = nn.Parameter(torch.randn(2, 3, 4).permute(order).contiguous().permute(inverse))
    step = check_step(model, lambda m, x: (m.a * x + m.b).exp().sum(), torch.randn(2, 3, 4))
    gradients_own_memory(step)
    document = parse(step.text)
    (gradient,) = [o for o in document.outputs if o.path == "a"]
    assert document.types[gradient.name].strides == model.a.stride()


def test_parameter_with_holes() -> None:
    """Eager makes such a gradient contiguous."""
    model = Two(2, 3)
    model.a = nn.Parameter(torch.randn(2, 6)[:, ::2])
    gradients_own_memory(check_step(model, lambda m, x: (m.a * x).sum(), torch.randn(2, 3)))


def test_dimensions_of_length_one() -> None:
    model = Two(3, 1, 2)
    model.a = nn.Parameter(torch.randn(3, 2, 1).transpose(1, 2))
    gradients_own_memory(check_step(model, lambda m, x: (m.a * x).sum(), torch.randn(3, 1, 2)))


def test_loss_that_is_a_parameter() -> None:
    gradients_own_memory(check_step(Two(), lambda m, x: m.a, torch.randn(3)))


def test_gradients_of_the_batch() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    step = check_step(
        nn.Linear(4, 2), lambda m, x, y: (m(x["in"]) * y).sum(), ({"in": x}, torch.randn(2))
    )
    assert """output grad "[0]['in']" %""" in step.text
    assert 'output grad "[1]"' not in step.text


def test_linear_gradients_are_not_copied() -> None:
    """They come out of the matrix product as views of all of it, which is as good as the tensor."""
    step = check_step(nn.Linear(4, 2), lambda m, x: m(x).exp().sum(), torch.randn(3, 4))
    assert "aten.clone" not in step.text


def test_half_precision_parameter() -> None:
    model = nn.Linear(4, 2).bfloat16()
    step = check_step(model, lambda m, x: m(x).float().sum(), torch.randn(3, 4).bfloat16())
    document = parse(step.text)
    assert {document.types[o.name].dtype for o in document.outputs if o.kind == "grad"} == {"bf16"}
