"""The pieces that the backend is made of."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from compile_support import compiled

import magis
from magis import _core
from magis.cli import main
from magis.report import Report
from magis.runtime.plan_file import write_plan
from magis.torch_compile.halves import cut
from magis.torch_compile.joint import module_path

GRAPH = """magis 1
device cpu

param %w "w" : f32[4,4]
batch %x "x" : f32[4,4]
const %lit "AAAAQA==" : f32[]

%mm = aten.mm(%x, %w) : f32[4,4]
%relu = aten.relu(%mm) : f32[4,4]
%exp = aten.exp(%relu) : f32[4,4]
%sum = aten.sum(%exp) : f32[]
%grad = magis_compile.outside([%sum], []) : f32[] backward
%mul = aten.mul.Tensor(%exp, %grad) : f32[4,4] backward
%twice = aten.mul.Tensor(%mul, %lit) : f32[4,4] backward
%dr = aten.threshold_backward(%twice, %relu, 0) : f32[4,4] backward
%xt = aten.permute(%x, [1,0]) : f32[4,4]{1,4} backward
%dw = aten.mm(%xt, %dr) : f32[4,4] backward

output aux "[0]" %sum
output aux "gradient of [0]" %grad
output grad "w" %dw
"""


def test_a_plan_is_cut_where_gradients_come_in() -> None:
    plan = _core.Plan.program_order(_core.Graph.parse(GRAPH))
    halves = cut(plan, torch.device("cpu"))
    assert halves.inputs == ["w", "x"]
    assert halves.saved == ["x", "relu", "exp"]
    assert halves.backward.takes == ["x", "relu", "exp", "grad"]
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    inputs = [w.detach(), x]
    forward = halves.forward.compiled(halves.constants, "<forward>")
    backward = halves.backward.compiled(halves.constants, "<backward>")
    loss, *kept = forward(inputs)
    assert inputs == []
    expected = (x @ w).relu().exp().sum()
    torch.testing.assert_close(loss, expected.detach())
    (gradient,) = backward([*kept, torch.tensor(1.0)])
    expected.backward()
    assert w.grad is not None
    torch.testing.assert_close(gradient, 2 * w.grad)


def test_no_order_puts_the_backward_half_before_the_cut() -> None:
    graph = _core.Graph.parse(GRAPH)
    lowest = _core.lower_bound(graph, device="cpu").bytes
    plan = _core.optimize(graph, device="cpu", memory_limit=lowest, time_budget=0.2).plan
    names = [statement.name for statement in plan.statements if statement.kind == "run"]
    middle = names.index("grad")
    assert {"mm", "relu", "exp", "sum"} <= set(names[:middle])
    assert {"mul", "twice", "dr", "dw"} <= set(names[middle:])


def test_a_plan_of_one_graph_is_no_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports: list[Report] = []
    compiled(torch.nn.Linear(4, 4), reports)(torch.randn(2, 4)).sum()
    plan, report = reports[0]._plan, reports[0]
    assert plan is not None
    write_plan(tmp_path / "plan.json", plan, report)
    assert main(["run", str(tmp_path / "plan.json")]) == 2
    assert "the plan is for a graph of torch.compile" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("spelled", "path"),
    [
        ("L['self']._modules['encoder']._modules['0']._parameters['weight']", "encoder.0.weight"),
        ("L['model']._buffers['mean']", "model.mean"),
        ("L['self'].layers.0", "layers.0"),
        ("", ""),
    ],
)
def test_paths_of_modules(spelled: str, path: str) -> None:
    assert module_path(spelled) == path


def test_the_backend_has_a_name_without_an_import() -> None:
    root = Path(__file__).parents[3]
    tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
    groups = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]
    ((name, value),) = groups["torch_dynamo_backends"].items()
    assert name == "magis"
    assert EntryPoint(name, value, "torch_dynamo_backends").load() is magis.backend
