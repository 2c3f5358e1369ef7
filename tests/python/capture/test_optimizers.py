"""Updates inside the step: written in place, parameters and states come out as torch.optim would
leave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from magis.capture import capture
from magis.errors import CaptureError
from magis.verify.text import parse


def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2), nn.Linear(2, 2))
    model[2].bias.requires_grad_(False)
    return model


def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model[2](model[1](model[0](x))).square().mean()  # model[3] is not used


X = torch.randn(3, 4)


def statements(text: str) -> list[str]:
    """Of the optimizer's update of the parameter 2.weight: calls alone."""
    document = parse(text)
    updates = {n for n, (_, source) in document.sites.items() if source.startswith("optimizer ")}
    lines = text.splitlines()
    found = []
    for operation in document.operations:
        if operation.site in updates and "_2_weight" in lines[operation.line - 1]:
            found.append(lines[operation.line - 1].split(" = ")[1].split(" : ")[0])
    return found


def test_sgd() -> None:
    model = network()
    text = capture(model, loss, X, optimizer=torch.optim.SGD(model.parameters())).text
    assert "output grad" not in text
    assert 'meta optimizer "SGD"' in text
    assert statements(text) == ["aten.add_.Tensor(%_2_weight, %mm_1, alpha=%minus_lr)"]
    assert "scalar %minus_lr \"neg(optimizer[0]['lr'])\"" in text
    assert 'output param "2.weight" %_2_weight' in text
    assert 'output param "2.bias"' not in text  # frozen
    assert 'output param "3.weight"' not in text  # without a gradient


def test_adamw() -> None:
    model = network()
    text = capture(model, loss, X, optimizer=torch.optim.AdamW(model.parameters())).text
    assert statements(text) == [
        "aten.mul_.Tensor(%_2_weight, %decay)",
        "aten.lerp_.Scalar(%_2_weight_exp_avg, %mm_1, %one_minus_beta1)",
        "aten.mul_.Tensor(%_2_weight_exp_avg_sq, %beta2)",
        "aten.addcmul_(%_2_weight_exp_avg_sq, %mm_1, %mm_1, value=%one_minus_beta2)",
        "aten.sqrt(%_2_weight_exp_avg_sq)",
        "aten.addcdiv_(%_2_weight, %_2_weight_exp_avg, %add_2, value=%minus_size)",
    ]
    shapes = {i.path: i.type.shape for i in parse(text).inputs if i.kind == "state"}
    assert shapes["0.weight.exp_avg"] == shapes["0.weight.exp_avg_sq"] == (8, 4)
    assert "2.bias.exp_avg" not in shapes
    assert 'output state "0.weight.exp_avg" %_0_weight_exp_avg' in text


def test_decay_is_part_of_the_gradient_or_apart() -> None:
    model = network()
    coupled = torch.optim.Adam(model.parameters(), weight_decay=0.1)
    text = capture(model, loss, X, optimizer=coupled).text
    assert statements(text)[0] == "aten.add.Tensor(%mm_1, %_2_weight, alpha=%weight_decay)"
    none = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    assert "%decay" not in capture(model, loss, X, optimizer=none).text


def test_fused_updates_are_one_kernel_each() -> None:
    model = network()
    adamw = torch.optim.AdamW(model.parameters(), fused=True)
    text = capture(model, loss, X, optimizer=adamw).text
    assert statements(text) == [
        "aten.add_.Scalar(%_2_weight_step, 1)",
        "aten._fused_adamw_([%_2_weight], [%mm_1], [%_2_weight_exp_avg], [%_2_weight_exp_avg_sq], "
        "[], [%_2_weight_step], lr=%lr, beta1=%beta1, beta2=%beta2, weight_decay=%weight_decay, "
        "eps=%eps, amsgrad=false, maximize=false)",
    ]
    assert "optimizer['step']" not in text  # the kernel reads tensors


def test_groups_and_numbers_of_steps_have_scalars_of_their_own() -> None:
    model = network()
    groups: list[dict[str, Any]] = [
        {"params": [model[0].weight, model[0].bias]},
        {"params": [model[2].weight], "lr": 0.5},
    ]
    optimizer = torch.optim.Adam(groups)
    text = capture(model, loss, X, optimizer=optimizer).text
    paths = {i.path for i in parse(text).inputs if i.kind == "scalar"}
    assert "optimizer[0]['beta2']" in paths
    assert "optimizer[1]['beta2']" in paths
    assert sum("optimizer['step']" in path for path in paths) == 4
    model[0].bias.grad = torch.zeros_like(model[0].bias)
    optimizer.step()  # of one parameter only
    text = capture(model, loss, X, optimizer=optimizer).text
    paths = {i.path for i in parse(text).inputs if i.kind == "scalar"}
    assert sum("optimizer['step']" in path for path in paths) == 6


def test_updates_are_placed_with_their_parameter() -> None:
    model = network()
    text = capture(model, loss, X, optimizer=torch.optim.SGD(model.parameters())).text
    document = parse(text)
    made = {o.operator: o for o in document.operations}
    assert document.sites[made["aten.add_.Tensor"].site] == ("2", "optimizer SGD")


def test_other_gradients_still_come_out() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    model = network()
    text = capture(model, loss, x, optimizer=torch.optim.SGD([model[0].weight])).text
    paths = {o.path for o in parse(text).outputs if o.kind == "grad"}
    assert paths == {"[0]", "0.bias", "2.weight"}


class Other(torch.optim.SGD):
    pass


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: torch.optim.Adam(p, amsgrad=True), ["group 0", "amsgrad=True"]),
        (lambda p: torch.optim.SGD(p, maximize=True), ["group 0", "maximize=True"]),
        (lambda p: torch.optim.SGD(p, momentum=0.9, dampening=0.1), ["dampening=0.1"]),
        (lambda p: torch.optim.Adam(p, differentiable=True), ["differentiable=True"]),
        (lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.1)), ["lr", "tensor"]),
        (lambda p: torch.optim.RMSprop(p), ["RMSprop", "SGD, Adam, AdamW"]),
        (lambda p: Other(p), ["Other", "SGD, Adam, AdamW"]),
        (lambda _: torch.optim.SGD(network().parameters()), ["group 0", "none of the model's"]),
    ],
)
def test_what_cannot_stand_in_a_step(make: Callable[[Any], Any], words: list[str]) -> None:
    model = network()
    with pytest.raises(CaptureError) as raised:
        capture(model, loss, X, optimizer=make(model.parameters()))
    assert all(word in str(raised.value) for word in [*words, "leave `optimizer` out"])


def test_a_parameter_that_the_forward_pass_writes_to() -> None:
    class Averaging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.mean = nn.Parameter(torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                self.mean.mul_(0.9)
            return self.layer(x) * self.mean

    model = Averaging()
    with pytest.raises(CaptureError, match=r"itself writes to the parameter mean"):
        capture(
            model,
            lambda m, x: m(x).sum(),
            X,
            optimizer=torch.optim.SGD(model.parameters()),
        )


def test_a_step_that_may_have_to_be_abandoned() -> None:
    def checked(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        value = loss(model, x)
        return value if torch.isfinite(value) else value * 0

    model = network()
    with pytest.raises(CaptureError, match=r"test_optimizers.py:\d+.*leave `optimizer` out"):
        capture(model, checked, X, optimizer=torch.optim.SGD(model.parameters()))


def test_a_parameter_that_the_step_returns() -> None:
    model = network()
    with pytest.raises(CaptureError, match=r"returns the parameter 0\.weight itself.*clone"):
        capture(
            model,
            lambda m, x: (loss(m, x), m[0].weight.view(-1)),
            X,
            optimizer=torch.optim.SGD(model.parameters()),
        )


def test_complex_parameters() -> None:
    class Complex(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, dtype=torch.complex64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.w * x).abs()

    model = Complex()
    with pytest.raises(CaptureError, match=r"the parameter w is complex"):
        capture(model, lambda m, x: m(x).sum(), X, optimizer=torch.optim.Adam(model.parameters()))
