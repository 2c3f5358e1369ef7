"""Plans of the evaluation's planners for captured steps, held to both verifiers; the command."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from plan import main
from planners import PLANNERS, Task
from planners.remember import remembered

import magis._core as core
from magis import zoo
from magis.capture import capture
from magis.capture.optimizers import optimizer_named
from magis.verify import FissionCheck, verify_plan

AUTHORS = Path(__file__).parents[3] / "bench" / "authors" / "graphs"
# A transformer with dropout and the update in the step; a network with skips and batch norm.
# By name: the optimizer inside, the device.
STEPS = {"bert": ("adamw", "reference"), "unet": (None, "cpu"), "mlp": ("sgd", "reference")}


@remembered
def captured(name: str) -> tuple[str, FissionCheck]:
    torch.manual_seed(0)
    options = {"dropout": 0.1} if name == "bert" else {}
    model, loss_fn, batch = zoo.build(name, size="tiny", batch=4, **options)
    optimizer, _ = STEPS[name]
    named = None if optimizer is None else optimizer_named(optimizer, model.parameters())
    text = capture(model, loss_fn, batch, optimizer=named).text
    return text, FissionCheck(text, seed=1)


def tasks(graph: core.Graph, device: str) -> Iterator[Task]:
    base = core.Plan.program_order(graph).simulate(device)
    limit = base.persistent_bytes + base.transient_peak_bytes * 6 // 10
    yield Task(graph, device, memory_limit=limit, seconds=0.3)
    yield Task(graph, device, latency_limit=1.3 * base.seconds, seconds=0.3)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", [name for name in PLANNERS if "microbatch-" not in name])
def test_plans_compute_what_the_step_does(name: str, step: str) -> None:
    text, truth = captured(step)
    _, device = STEPS[step]
    for task in tasks(core.Graph.parse(text), device):
        # PyTorch's minimum cuts take their time, and have to have been asked.
        seconds = 4.0 if name == "torch-budget" else task.seconds
        outcome = PLANNERS[name].plan(replace(task, seconds=seconds))
        assert outcome.plan is not None
        plan = outcome.plan.text()
        truth.check(plan)
        assert verify_plan(plan, device=device).peak_bytes == outcome.peak_bytes
        if task.latency_limit is not None:
            assert outcome.met


def test_micro_batches_of_a_step_leave_the_random_numbers_as_they_are() -> None:
    text, truth = captured("bert")
    graph = core.Graph.parse(text)
    outcome = PLANNERS["microbatch"].plan(Task(graph, "reference", memory_limit=1, seconds=5))
    assert outcome.plan is not None
    truth.check(outcome.plan.text())


# ---- the command


def test_the_command_prints_what_the_plan_takes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = str(AUTHORS / "unet-b32.magis.gz")
    output = tmp_path / "found.plan"
    arguments = [file, "--planner", "dtr", "--memory", "40%", "--json", "--output", str(output)]
    assert main(arguments) == 0
    (row,) = json.loads(capsys.readouterr().out)
    graph = core.Graph.parse(gzip.decompress(Path(file).read_bytes()).decode())
    base = core.Plan.program_order(graph).simulate("reference")
    found = core.Plan.parse(output.read_text()).simulate("reference")
    assert row["met"]
    assert row["peak_bytes"] == found.peak_bytes <= base.peak_bytes * 0.4
    assert row["time_ratio"] == found.seconds / base.seconds


def test_the_command_says_that_a_limit_is_not_met(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(AUTHORS / "unet-b32.magis.gz")
    assert main([file, "--planner", "pytorch", "tvm", "--memory", "10%"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[5] for line in lines[1:]] == ["no", "no"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.magis", "--memory", "40%"], "missing.magis cannot be read"),
        (["GRAPH", "--memory", "auto"], "--memory auto: say how many bytes"),
        (["GRAPH", "--latency", "90%"], "latency limit 0.9 is out of range"),
        (["GRAPH", "--latency", "soon"], "--latency soon: give 110%, or 1.1"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(AUTHORS / "unet-b32.magis.gz")
    given = [file if word == "GRAPH" else word for word in arguments]
    assert main([*given, "--planner", "dtr"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_the_command_needs_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["x.magis", "--planner", "dtr"])
    assert "give a graph, and either --memory or --latency" in capsys.readouterr().err


def test_the_list_says_what_was_simplified(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    text = capsys.readouterr().out
    assert all(planner.simplified in text for planner in PLANNERS.values())
