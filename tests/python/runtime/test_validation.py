"""Plans that are run before one is taken: which one that is, and what is said about it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import magis
from magis import _core
from magis.errors import MagisError
from magis.report import Report
from magis.report.promised_times import promised_times
from magis.runtime.validation import choose

BATCH = (torch.ones(64, 32),)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())


def loss(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return net(x).square().mean()


class Candidate:
    """As much of a result as choosing looks at."""

    def __init__(self, peak_bytes: int, met: bool = True) -> None:
        self.peak_bytes, self.met, self.baseline_seconds = peak_bytes, met, 1.0


def test_the_best_as_measured_is_taken() -> None:
    candidates: list[Any] = [Candidate(10), Candidate(30), Candidate(20, met=False)]
    seconds = [2.5, 2.2, 1.0]
    assert choose(candidates, seconds, 2.0, None) == 1
    # A limit of 1.15 times what the captured order was promised to take: 2.3 as measured.
    assert choose(candidates, seconds, 2.0, 1.15) == 1
    assert choose(candidates, seconds, 2.0, 1.5) == 0  # least memory
    assert choose(candidates, seconds, 2.0, 1.0) == 1  # none is that fast
    assert choose(candidates, seconds, None, 1.0) == 0  # the promise has to do


def test_what_was_found_is_run_and_the_report_says_so() -> None:
    net = model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing was gained
        step = magis.optimize(net, loss, BATCH, memory_limit=1.0, time_budget=0.1, validate=2)
    report = step.report
    assert "run here, 5 steps each" in report.times
    assert "against the captured order" in report.times
    found = report.promised_times
    assert found is not None
    assert found.promised_seconds == report.seconds
    assert found.step_seconds > 0
    assert {"aten.addmm", "aten.gelu"} <= {row.name for row in found.operators}
    assert sum(row.runs for row in found.operators) > 8
    assert "Times, promised and measured" in str(report)
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert all(parameter.grad is None for parameter in net.parameters())
    step(*BATCH)
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_each_seed_is_searched_from_though_plans_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds = []

    def watched(*args: Any, **options: Any) -> _core.Result:
        seeds.append(options["seed"])
        return found(*args, **options)

    found = _core.optimize
    monkeypatch.setattr(_core, "optimize", watched)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            magis.optimize(model(), loss, BATCH, memory_limit=1.0, time_budget=0.1, validate=2)
    assert seeds == [0, 1, 0, 1]


def test_validate_is_a_number_of_plans(tmp_path: Path) -> None:
    with pytest.raises(MagisError, match="validate=-1 must be a whole number"):
        magis.optimize(model(), loss, BATCH, validate=-1)


def test_times_are_added_up_by_operator_and_by_call() -> None:
    costs = [("aten.mm(%1) : f32[2]", 1.0), ("aten.mm(%1) : f32[3]", 2.0), ("aten.cos(%1)", 5.0)]
    costs.append(costs[0])
    found = promised_times(9.0, 8.0, costs, [1.5, 1.0, 5.0, 1.5], calls=3, calls_measured=1)
    rows = [(row.name, row.runs, row.promised, row.measured) for row in found.operators]
    assert rows == [("aten.cos", 1, 5.0, 5.0), ("aten.mm", 3, 4.0, 4.0)]
    worst = [(row.name, row.runs, row.promised - row.measured) for row in found.offenders]
    assert worst == [
        ("aten.mm(%1) : f32[2]", 2, -1.0),
        ("aten.mm(%1) : f32[3]", 1, 1.0),
        ("aten.cos(%1)", 1, 0.0),
    ]
    words = dict(found.rows())
    assert words["promised"] == "9.00 s a step (1 of 3 calls measured before)"
    assert words["step"].startswith("8.00 s (-11.1 %;")
    nothing = promised_times(9.0, 8.0, costs, None, calls=3, calls_measured=1)
    assert (nothing.operators, nothing.offenders) == ([], [])
