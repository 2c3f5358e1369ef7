"""Steps whose regions run in parts, as a user asks for them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import magis
from magis.errors import MagisError


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8)).train()


def loss_fn(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x), y)


def batch(rows: int = 1024) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, 64, generator=generator)
    return x, torch.randint(0, 8, (rows,), generator=generator)


def gradients(net: nn.Module) -> list[Tensor]:
    found = []
    for parameter in net.parameters():
        assert parameter.grad is not None
        found.append(parameter.grad)
        parameter.grad = None
    return found


def eager(net: nn.Module) -> tuple[Tensor, list[Tensor]]:
    loss = loss_fn(net, *batch())
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach(), gradients(net)


def test_sums_over_parts_are_rounded_another_way_and_nothing_else() -> None:
    net = model()
    expected, wanted = eager(net)
    step = magis.optimize(net, loss_fn, batch(), memory_limit="45%", time_budget=1)
    assert step.report.met
    assert "for r1 in range(" in step.source
    torch.testing.assert_close(step(*batch()), expected, rtol=1e-6, atol=0)
    for found, grad in zip(gradients(net), wanted, strict=True):
        torch.testing.assert_close(found, grad, rtol=0, atol=1e-6 * float(grad.abs().max()))


def test_exact_plans_have_the_bits_of_eager() -> None:
    net = model()
    expected, wanted = eager(net)
    with pytest.warns(UserWarning, match="the limit was not met"):
        step = magis.optimize(net, loss_fn, batch(), memory_limit="45%", time_budget=1, exact=True)
    assert torch.equal(step(*batch()), expected)
    assert all(map(torch.equal, gradients(net), wanted))


def test_under_autocast_sums_are_rounded_to_sixteen_bits() -> None:
    net = model()
    with torch.autocast("cpu", torch.bfloat16):
        expected, wanted = eager(net)
        step = magis.optimize(
            net, loss_fn, batch(), memory_limit="1GiB", time_budget=1, batch_parts=4
        )
        loss = step(*batch())
    assert step.plan.graph.loop_count == 1
    torch.testing.assert_close(loss, expected, rtol=2**-7, atol=0)
    for found, grad in zip(gradients(net), wanted, strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, grad, rtol=0, atol=2**-7 * float(grad.abs().max()))


def test_a_number_of_parts_by_hand() -> None:
    net = model()
    step = magis.optimize(net, loss_fn, batch(), memory_limit="1GiB", time_budget=1, batch_parts=3)
    assert "for r1 in range(0, 1024, 342):" in step.source
    assert "3 parts of 342 of 1,024, the last of 340" in str(step.report)
    with pytest.raises(MagisError, match=r"batch_parts=2\.5 must be a whole number"):
        magis.optimize(net, loss_fn, batch(), memory_limit="1GiB", batch_parts=2.5)  # type: ignore[arg-type]
