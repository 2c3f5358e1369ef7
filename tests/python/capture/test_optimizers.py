"""Updates inside the step: parameters and states come out as torch.optim would leave them."""

from __future__ import annotations

import copy

import torch
from capture_support import captured
from torch import nn

from magis.capture import capture
from magis.verify.text import parse


def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2), nn.Linear(2, 2))
    model[2].bias.requires_grad_(False)
    return model


def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model[2](model[1](model[0](x))).square().mean()  # model[3] is not used


X = torch.randn(3, 4)


def test_sgd() -> None:
    model = network()
    step = capture(model, loss, X, optimizer="sgd")
    assert "output grad" not in step.text
    assert 'meta optimizer "sgd"' in step.text
    outcome = captured(step, model, X, 0)
    eager = copy.deepcopy(model)
    optimizer = torch.optim.SGD(eager.parameters(), lr=1e-3)
    loss(eager, X).backward()
    optimizer.step()
    for name, parameter in eager.named_parameters():
        torch.testing.assert_close(outcome.parameters[name], parameter.detach())
        assert torch.equal(outcome.parameters[name], parameter) or parameter.requires_grad


def test_adamw_over_several_steps() -> None:
    model = network()
    step = capture(model, loss, X, optimizer="adamw")
    document = parse(step.text)
    shapes = {i.path: i.type.shape for i in document.inputs if i.kind == "state"}
    assert shapes["step"] == ()
    assert shapes["0.weight.exp_avg"] == shapes["0.weight.exp_avg_sq"] == (8, 4)
    assert "2.bias.exp_avg" not in shapes  # frozen
    states = {path: torch.zeros(shape) for path, shape in shapes.items()}
    eager = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(eager.parameters())
    for _ in range(4):
        outcome = captured(step, model, X, 0, states)
        model.load_state_dict(outcome.parameters)
        states = outcome.states
        optimizer.zero_grad()
        loss(eager, X).backward()
        optimizer.step()
        for name, parameter in eager.named_parameters():
            torch.testing.assert_close(outcome.parameters[name], parameter.detach())
    assert states["step"] == 4
    torch.testing.assert_close(
        states["0.weight.exp_avg_sq"], optimizer.state[eager[0].weight]["exp_avg_sq"]
    )


def test_updates_are_placed_with_their_parameter() -> None:
    document = parse(capture(network(), loss, X, optimizer="sgd").text)
    table = document.sites
    made = {o.path: document.operators[o.name] for o in document.outputs if o.kind == "param"}
    assert table[made["2.weight"].site] == ("2", "optimizer sgd")


def test_gradients_of_the_batch_still_come_out() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    text = capture(network(), loss, x, optimizer="sgd").text
    assert 'output grad "[0]"' in text
