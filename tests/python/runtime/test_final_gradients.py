"""Code that tells of gradients: each once, with the value that comes back, in any plan."""

from __future__ import annotations

import random

import pytest
import torch
from swap_programs import swapped
from torch import nn

from magis import _core
from magis.capture import capture
from magis.runtime.compiled import CompiledPlan
from magis.runtime.final_gradients import TELL

ROWS = 256


class Tower(nn.Module):
    """A weight that is read twice, so that its gradient is a sum, and one that is transposed."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.shared, self.last = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.shared(torch.tanh(self.shared(torch.relu(self.first(x))))))
        return self.last(hidden) @ self.last.weight @ self.first.weight


def squares(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()


def planned(name: str, adds: bool = False) -> _core.Plan:
    graph = _core.Graph.parse(capture(Tower(), squares, torch.randn(ROWS, 16)).text)
    if adds:
        paths = [output.path for output in graph.outputs if output.kind == "grad"]
        graph = graph.accumulate_gradients(paths)
    before = _core.Plan.program_order(graph).simulate("cpu")
    if name == "as captured":
        return _core.Plan.program_order(graph)
    if name == "in parts":
        plan = _core.optimize(
            graph, device="cpu", latency_limit=1.0, batch_parts=4, time_budget=0.2
        ).plan
        assert plan.graph.loop_count
        return plan
    if name == "recomputing":
        least = graph.persistent_bytes + before.transient_peak_bytes // 2
        options = {"memory_limit": least, "fission": False, "time_budget": 0.2}
        plan = _core.optimize(graph, device="cpu", **options).plan
        assert plan.operators_run() > graph.operator_count
        return plan
    text = swapped(_core.Plan.program_order(graph).text(), random.Random(1), share=0.5).text
    return _core.Plan.parse(text)


PLANS = ["as captured", "in parts", "recomputing", "swapping"]


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_what_is_told_is_what_comes_back(name: str, adds: bool) -> None:
    base = planned(name, adds)
    model = Tower()
    compiled = CompiledPlan(base, torch.device("cpu"), tells_gradients=True)
    gradients = {p: torch.randn(t.shape) for p, t in model.named_parameters()}
    given = {"param": dict(model.named_parameters()), "grad": gradients}
    constants = iter(compiled.constants)
    inputs = []
    for entry in compiled.inputs:
        if entry.kind == "const":
            inputs.append(next(constants))
        elif entry.kind == "batch":
            inputs.append(torch.randn(ROWS, 16))
        else:
            inputs.append(given[entry.kind][entry.path])
    told: dict[str, torch.Tensor] = {}

    def hear(path: str, gradient: torch.Tensor) -> None:
        assert path not in told
        told[path] = gradient.clone()

    with torch.no_grad(), compiled.telling(hear):
        outputs = compiled(inputs)
    assert list(told) == compiled.gradient_order
    assert told.keys() == gradients.keys()
    final = dict(gradients) if adds else {}
    for output, value in zip(compiled.outputs, outputs, strict=True):
        if output.kind == "grad":
            final[output.path] = value
    for path, value in told.items():
        assert torch.equal(value, final[path]), path


@pytest.mark.parametrize("name", PLANS)
def test_the_lines_of_statements_move_along(name: str) -> None:
    base = planned(name)
    plain = CompiledPlan(base, torch.device("cpu"))
    telling = CompiledPlan(base, torch.device("cpu"), tells_gradients=True)
    before, after = plain.source.splitlines(), telling.source.splitlines()
    for old, new in zip(plain.lines, telling.lines, strict=True):
        assert before[old - 1] == after[new - 1] or TELL in after[new - 1]
    assert [line for line in after if TELL not in line] == before


def test_a_gradient_is_told_of_before_the_step_ends() -> None:
    compiled = CompiledPlan(planned("as captured"), torch.device("cpu"), tells_gradients=True)
    lines = compiled.source.splitlines()
    first = next(i for i, line in enumerate(lines) if TELL in line)
    assert sum("mm(" in line for line in lines[first:]) >= 2
    assert compiled.gradient_order[0].startswith("last")
