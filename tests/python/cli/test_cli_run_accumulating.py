"""`magis run` on plans of steps whose gradients add up, and whose loss is scaled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from cli_support import Magis, assert_user_error

import magis as package

MODULE = """
import torch
from torch import nn
from torch.nn import functional as F

def make():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(4)))
    return model, lambda model, x: F.mse_loss(model(x), x), (torch.randn(256, 64),)
"""


@pytest.fixture
def workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(MODULE)
    names: dict[str, Any] = {}
    exec(MODULE, names)
    return names["make"]()


@pytest.mark.parametrize("calls", [1, 2], ids=["first", "adding"])
@pytest.mark.parametrize("scale", [False, True], ids=["plain", "scaled"])
def test_both_plans_run(workload: Any, magis: Magis, calls: int, scale: bool) -> None:
    model, loss_fn, batch = workload
    step = package.optimize(
        *(model, loss_fn, batch),
        **{"memory_limit": "60%", "time_budget": 1.0, "accumulate": 3, "grad_scale": scale},
    )
    for _ in range(calls):
        step(*batch, **({"grad_scale": 8.0} if scale else {}))
    assert (step.plan.graph.text().count("\ngrad %") == 8) == (calls == 2)
    step.save("plan.json")
    done = magis("run", "plan.json", "--model", "train.py:make", "--rounds", "1", "--json")
    assert done.status == 0, done.err
    assert done.json["equal"]
    assert done.json["measured_peak_bytes"] == done.json["promised_peak_bytes"]
    assert done.json["eager_peak_bytes"] > done.json["measured_peak_bytes"]


def test_a_record_that_makes_no_sense(workload: Any, magis: Magis) -> None:
    model, loss_fn, batch = workload
    package.optimize(model, loss_fn, batch, accumulate=3, time_budget=0.05).save("plan.json")
    text = Path("plan.json").read_text()
    Path("plan.json").write_text(text.replace('meta accumulate \\"3\\"', 'meta accumulate \\"x\\"'))
    done = magis("run", "plan.json", "--model", "train.py:make")
    assert_user_error(done, "the plan records a loss shared by 'x' calls")


def test_gradients_of_the_batch_are_not_there_before(workload: Any, magis: Magis) -> None:
    model, loss_fn, _ = workload
    x = torch.randn(256, 64, requires_grad=True)
    step = package.optimize(model, loss_fn, (x,), time_budget=0.05)
    for _ in range(2):
        step(x)
    step.save("plan.json")
    source = MODULE.replace("64),)", "64, requires_grad=True),)")
    Path("train.py").write_text(source)
    done = magis("run", "plan.json", "--model", "train.py:make")
    assert_user_error(done, r"the plan adds into the gradient of batch[0]")
