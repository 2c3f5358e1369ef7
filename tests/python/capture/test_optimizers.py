"""Updates inside the step: written in place, parameters and states come out as torch.optim would
leave them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from magis import _core
from magis.capture import capture
from magis.capture.optimizers import OptimizerView
from magis.errors import CaptureError
from magis.verify import verify_plan
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


# ---- averages over several processes


def averaged(sizes: list[int], paths: set[str] | None = None) -> list[str]:
    """The averages of a chain of layers, in order: calls alone."""
    layers = [nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(sizes)]
    model = nn.Sequential(*layers)
    names = frozenset(paths or dict(model.named_parameters()))
    optimizer = torch.optim.SGD(model.parameters())
    view = OptimizerView(optimizer, dict(model.named_parameters()), averaged=names)
    step = capture(model, lambda m, x: m(x).sum(), torch.randn(3, sizes[0]), optimizer=view)
    assert set(step.averaged) == set(names)
    lines = [line for line in step.text.splitlines() if "= magis." in line]
    return [line.split(" : ")[0] for line in lines]


def test_small_gradients_are_waited_for_at_the_end() -> None:
    assert averaged([4, 5, 6]) == [
        "%begin_average = magis.begin_average(%mm_2)",
        "%begin_average_1 = magis.begin_average(%mm_4)",
        "%end_average = magis.end_average(%begin_average, [%begin_average_1])",
        "%end_average_1 = magis.end_average(%begin_average_1, [])",
    ]


def test_large_gradients_are_waited_for_one_after_another() -> None:
    # Of 1 MiB each: the one before is waited for once another has begun.
    found = averaged([512, 512, 512, 512])
    assert [line.split("magis.")[1].split("(")[0] for line in found] == [
        *("begin_average", "begin_average", "end_average"),
        *("begin_average", "end_average", "end_average"),
    ]
    assert found[2].endswith("magis.end_average(%begin_average, [%begin_average_1])")


def test_gradients_that_are_not_averaged_are_left_alone() -> None:
    assert averaged([4, 5, 6], {"0.weight"}) == [
        "%begin_average = magis.begin_average(%mm_4)",
        "%end_average = magis.end_average(%begin_average, [])",
    ]


def test_updates_and_norms_read_averages() -> None:
    model = network()
    names = frozenset(dict(model.named_parameters()))
    optimizer = torch.optim.SGD(model.parameters())
    view = OptimizerView(optimizer, dict(model.named_parameters()), 1.0, names)
    text = capture(model, loss, X, optimizer=view).text
    document = parse(text)
    begun = {
        r for o in document.operations if o.operator == "magis.begin_average" for r in o.reads()
    }
    assert len(begun) == 3  # one is frozen, two are not used
    readers = [o.operator for o in document.operations if begun & set(o.reads())]
    assert set(readers) == {"magis.begin_average"}
    norms = [o for o in document.operations if o.operator == "aten.linalg_vector_norm"]
    assert all("end_average" in name or "stack" in name for o in norms for name in o.reads())


def test_a_gradient_dies_once_it_is_averaged_and_used() -> None:
    """Three layers of 1 MiB, three rows: at most two gradients are there, beside 6 KiB each of
    activations, their gradients and what the loss spreads out."""
    model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(3)))
    parameters = dict(model.named_parameters())
    view = OptimizerView(
        torch.optim.SGD(model.parameters()), parameters, None, frozenset(parameters)
    )
    step = capture(model, lambda m, x: m(x).sum(), torch.randn(3, 512), optimizer=view)
    graph = _core.Graph.parse(step.text, "captured")
    found = _core.optimize(graph, device="cpu", memory_limit=1, time_budget=0.2, fission=False)
    weight = 512 * 512 * 4
    transient = found.peak_bytes - graph.persistent_bytes
    assert 2 * weight < transient < 2 * weight + 5 * 3 * 512 * 4
    facts = verify_plan(found.plan.text(), device="cpu")
    assert facts.peak_bytes == found.peak_bytes
    assert found.plan.source().count("begin_average_(") == 3  # each in place
    assert found.plan.source().count("end_average_(") == 3
