"""Searches with measured times: what is measured, when, and what is said about it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import magis
from magis import _core
from magis.capture import capture
from magis.errors import MagisError
from magis.runtime.refinement import Refinement
from magis.timing.cache import cache_file
from magis.timing.candidates import part_plans
from magis.timing.times import Times

CPU = torch.device("cpu")
BATCH = (torch.ones(64, 32),)

LOSING = """magis 1
device cpu
batch %x "x" : f32[64,64]
%a = aten.mm(%x, %x) : f32[64,64]
%b = mylib.squash(%a) : f32[64,64]
%c = aten.mm(%b, %x) : f32[64,64]
output loss "" %c
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAGIS_CACHE_DIR", str(tmp_path))
    torch.set_num_threads(1)
    return tmp_path


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())


def loss(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return net(x).square().mean()


def optimized(**arguments: object) -> magis.Step:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing was gained
        return magis.optimize(
            model(), loss, BATCH, memory_limit=1.0, time_budget=0.5, measure=120.0, **arguments
        )


def test_a_second_optimization_measures_nothing_and_says_so() -> None:
    first = optimized().report
    assert "measured now" in first.times
    assert "calls measured (100% of the time)" in first.times
    second = optimized().report
    assert second.times.endswith("all of these before, nothing was measured now")
    assert "nothing was measured now" in str(second)


def test_promised_times_are_the_measured_ones() -> None:
    step = optimized()
    times = Times(CPU)
    calls = step.plan.calls(times.profile("cpu"))
    assert all(call.measured for call in calls)
    total = sum(call.runs * call.seconds for call in calls)
    assert step.report.seconds == pytest.approx(total, rel=1e-6)


def test_without_measuring_no_times_are_kept() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = magis.optimize(model(), loss, BATCH, memory_limit=1.0, time_budget=0.2)
    assert step.report.times == ""
    assert not cache_file().exists()


def test_times_of_another_device_are_refused() -> None:
    with pytest.raises(MagisError, match="'a100' is another"):
        optimized(device="a100")


def test_an_operator_that_cannot_run_alone_is_modelled() -> None:
    plan = _core.Plan.program_order(_core.Graph.parse(LOSING))
    refinement = Refinement(Times(CPU), "cpu", 5.0)
    refinement.learn(plan)
    lacking = [call for call in plan.calls(refinement.device) if not call.measured]
    assert [call.key.partition("(")[0] for call in lacking] == ["mylib.squash"]
    assert lacking[0].seconds > 0
    assert "1 call cannot be run alone: modelled" in refinement.words(plan)
    again = Refinement(Times(CPU), "cpu", 5.0)
    assert again.learn(plan) == 0  # the failure is remembered


def test_parts_are_measured_before_the_first_search() -> None:
    graph = _core.Graph.parse(capture(model(), loss, BATCH).text)
    refinement = Refinement(Times(CPU), "cpu", 300.0)
    refinement.begin(graph, parts=False)
    splits = [plan.calls(refinement.device) for plan in part_plans(graph, refinement.device)]
    assert splits
    assert not all(call.measured for calls in splits for call in calls)
    assert refinement.begin(graph, parts=True) > 0
    for plan in part_plans(graph, refinement.device):
        assert all(call.measured for call in plan.calls(refinement.device))


def test_parts_leave_their_share_of_the_budget() -> None:
    graph = _core.Graph.parse(capture(model(), loss, BATCH).text)
    Refinement(Times(CPU), "cpu", 300.0).begin(graph, parts=False)
    assert Refinement(Times(CPU), "cpu", 300.0).begin(graph, parts=True, share=0.0) == 0


def test_what_the_best_plan_lacked_is_measured_before_the_next_round() -> None:
    graph = _core.Graph.parse(LOSING)
    devices: list[_core.Device] = []
    refinement = Refinement(Times(CPU), "cpu", 5.0)

    def search() -> _core.Result:
        devices.append(refinement.device)
        return _core.optimize(
            graph, device=refinement.device, memory_limit=1 << 20, time_budget=0.2, fission=False
        )

    result = refinement.refine(search, 1 << 20, None)
    assert len(devices) == 2  # the first finds what to measure, the second lacks nothing
    assert sum(call.measured for call in result.plan.calls(devices[0])) == 0
    assert sum(call.measured for call in result.plan.calls(devices[1])) == 2
    promised = result.plan.simulate(refinement.device)
    assert result.seconds == promised.seconds
    assert result.met


def test_the_limit_on_time_is_looked_at_again_with_measured_times() -> None:
    graph = _core.Graph.parse(LOSING)
    result = _core.optimize(graph, device="cpu", latency_limit=1.0, time_budget=0.2, fission=False)
    assert result.met
    slow = [(call.key, 1.0) for call in result.plan.calls("cpu")]
    device = _core.DeviceProfile.named("cpu").with_times(_core.MeasuredTimes.of(slow))
    recounted = result.with_plan(result.plan, device=device, latency_limit=1.0)
    assert recounted.seconds == pytest.approx(3.0)
    assert recounted.baseline_seconds == pytest.approx(3.0)
    assert not recounted.met


def test_a_plan_file_from_before_times_were_measured_is_read() -> None:
    report = optimized().report
    data = json.loads(json.dumps(report.to_json()))
    del data["times"]
    assert magis.Report.from_json(data).times == ""
