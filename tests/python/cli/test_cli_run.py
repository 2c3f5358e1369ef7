"""`magis run`: a plan against eager, promised and measured; and what happens if it fails."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from pathlib import Path

import pytest
from cli_support import TRAIN, Magis, assert_user_error
from swap_programs import swapped

from magis import _core
from magis.cli.trial import Run, Trial


@pytest.fixture
def plan(magis: Magis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """plan.json for train.py:make, in the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)
    assert magis("capture", "train.py:make").status == 0
    # Rounds of states and no clock: the same plan on every machine.
    search = ("--state-budget", "2000", "--time-budget", "60", "-o", "plan.json")
    done = magis("optimize", "train.magis", "--latency-limit", "1.5", *search, "--json")
    assert done.json["peak_bytes"] < done.json["baseline_peak_bytes"]
    return tmp_path / "plan.json"


def test_in_its_own_process_the_promise_holds_to_the_byte(
    plan: Path, magis_process: Magis, tmp_path: Path
) -> None:
    done = magis_process("run", plan, "--model", "train.py:make", "--rounds", "2", "--json")
    assert done.status == 0, done.err
    data = done.json
    assert data["measured_with"] == "hook"
    assert data["measured_peak_bytes"] == data["promised_peak_bytes"]
    assert data["promise_kept"] is True
    assert data["equal"] is True
    assert data["eager_peak_bytes"] > data["measured_peak_bytes"]
    assert data["rounds"] == 2
    assert data["seconds"] > 0


def test_a_zoo_model_is_built_again(magis: Magis, tmp_path: Path) -> None:
    graph, plan = tmp_path / "bert.magis", tmp_path / "bert.json"
    assert magis("capture", "bert", "--batch", "3", "--dropout", "0.1", "-o", graph).status == 0
    assert magis("optimize", graph, "--memory-limit", "95%", "-o", plan).status == 0
    done = magis("run", plan, "--rounds", "1")
    assert (done.status, done.err) == (0, "")
    # In this process there is no hook; the profiler sees the same allocator.
    assert "(to the byte; profiler)" in done.out
    assert "bitwise equal: loss, gradients, buffers, random generator" in done.out


def test_a_batch_that_requires_gradients(
    magis: Magis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = TRAIN.replace("torch.randn(32, 8)", "torch.randn(32, 8, requires_grad=True)")
    Path("attack.py").write_text(text)
    assert magis("capture", "attack.py:make", "-o", "attack.magis").status == 0
    assert 'output grad "[0]"' in Path("attack.magis").read_text()
    asked = ("--latency-limit", "1.5", "--state-budget", "500", "-o", "attack.json")
    assert magis("optimize", "attack.magis", *asked).status == 0
    done = magis("run", "attack.json", "--model", "attack.py:make", "--rounds", "2", "--json")
    assert done.status == 0, done.err
    assert done.json["equal"] is True
    assert done.json["measured_peak_bytes"] == done.json["promised_peak_bytes"]


def test_a_batch_with_a_history_is_refused(
    magis: Magis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = TRAIN.replace("torch.randn(32, 8)", "torch.randn(32, 8, requires_grad=True) * 2")
    Path("attack.py").write_text(text.replace('print("loading")', ""))
    done = magis("capture", "attack.py:make", "-o", "attack.magis")
    assert_user_error(done, "batch[0] is the result of a differentiable computation")


def test_time_is_the_median_of_ratios_and_medians_are_said_apart(
    plan: Path, magis: Magis, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ratios 1/2, 4/5 and 5/3: their median says faster, the medians of the times say slower.
    def timed(_: Trial, planned: Run, eager: Run, __: int) -> None:
        planned.seconds.extend([1.0, 4.0, 5.0])
        eager.seconds.extend([2.0, 5.0, 3.0])

    monkeypatch.setattr(Trial, "time", timed)
    arguments = ("run", plan, "--model", "train.py:make")
    assert magis(*arguments, "--json").json["time_ratio"] == 0.8
    shown = " ".join(magis(*arguments).out.split())
    assert "-20.0 % (median ratio of 3 pairs; median times apart: 4.00 s, eager 3.00 s)" in shown


@pytest.mark.usefixtures("plan")
def test_a_plan_for_another_device_is_held_to_what_this_machine_allocates(magis: Magis) -> None:
    search = ("--latency-limit", "1.5", "--state-budget", "500", "--device", "rtx3090")
    assert magis("optimize", "train.magis", *search, "-o", "gpu.json").status == 0
    arguments = ("run", "gpu.json", "--model", "train.py:make", "--rounds", "1")
    done = magis(*arguments, "--json")
    assert done.status == 0
    facts = done.json
    inspected = magis("inspect", "gpu.json", "--device", "cpu", "--json").json
    assert facts["promised_peak_bytes"] == inspected["peak_bytes"] == facts["measured_peak_bytes"]
    assert facts["plan_device"] == "rtx3090"
    assert facts["plan_peak_bytes"] == magis("inspect", "gpu.json", "--json").json["peak_bytes"]
    assert facts["plan_peak_bytes"] > facts["promised_peak_bytes"]
    shown = " ".join(magis(*arguments).out.split())
    assert "for rtx3090" in shown
    assert f"{facts['plan_peak_bytes']:,} bytes): the plan's promise, which includes" in shown


def test_a_model_of_ones_own_must_be_named(plan: Path, magis: Magis) -> None:
    done = magis("run", plan)
    assert_user_error(done, "a model of your own, captured from train.py:make", "--model")


@pytest.mark.parametrize("threads", ["\u00b2", "0", "9" * 5000])
def test_a_number_of_threads_that_is_none_is_let_be(plan: Path, magis: Magis, threads: str) -> None:
    text, count = re.subn(r'meta threads \\"\d+', rf'meta threads \\"{threads}', plan.read_text())
    assert count == 1
    plan.write_text(text)
    assert magis("run", plan, "--model", "train.py:make", "--rounds", "1").status == 0


def test_a_device_that_cannot_run_plans(plan: Path, magis: Magis) -> None:
    plan.write_text(plan.read_text().replace("\\ndevice cpu\\n", "\\ndevice warp\\n", 1))
    done = magis("run", plan, "--model", "train.py:make")
    assert_user_error(done, 'the plan is for the device "warp"')


def test_a_plan_for_another_graph(plan: Path, magis: Magis) -> None:
    text = TRAIN.replace("nn.Linear(8, 16)", "nn.Linear(8, 24)").replace("(16, 4)", "(24, 4)")
    Path("other.py").write_text(text.replace('print("loading")', ""))
    done = magis("run", plan, "--model", "other.py:make")
    assert_user_error(
        done,
        "is for another graph",
        'the plan has `param %_0_weight "0.weight" : f32[16,8]`',
        'the model gives `param %_0_weight "0.weight" : f32[24,8]`',
    )


def test_results_that_differ_are_a_failure(
    plan: Path, magis: Magis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trial, "difference", lambda *_: "the loss differs by up to 0.5")
    done = magis("run", plan, "--model", "train.py:make", "--rounds", "1")
    assert done.status == 1
    assert done.out.startswith("THE RESULTS DIFFER: the loss differs by up to 0.5")


def test_a_promise_that_is_not_kept_is_a_failure(
    plan: Path, magis: Magis, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = Trial.planned

    def one_kibibyte_more(trial: Trial) -> object:
        run = planned(trial)
        return dataclasses.replace(run, peak_bytes=run.peak_bytes + 1024)

    monkeypatch.setattr(Trial, "planned", one_kibibyte_more)
    done = magis("run", plan, "--model", "train.py:make", "--rounds", "1", "--json")
    assert done.status == 1
    assert done.json["promise_kept"] is False
    done = magis("run", plan, "--model", "train.py:make", "--rounds", "1")
    assert done.out.startswith("THE PROMISE WAS NOT KEPT: 1.00 KiB more than promised.")


def test_where_eager_does_not_fit_the_plan_runs_alone(
    plan: Path, magis: Magis, monkeypatch: pytest.MonkeyPatch
) -> None:
    promised = magis("inspect", plan, "--json").json["peak_bytes"]
    monkeypatch.setattr("magis.runtime.free_memory.free_bytes", lambda _: promised)
    monkeypatch.setattr(Trial, "eager", pytest.fail)
    done = magis("run", plan, "--model", "train.py:make", "--rounds", "1", "--json")
    assert done.status == 0
    assert done.json["equal"] is None
    assert done.json["eager_peak_bytes"] is None
    assert done.json["measured_peak_bytes"] == promised

    monkeypatch.setattr("magis.runtime.free_memory.free_bytes", lambda _: promised - 1)
    done = magis("run", plan, "--model", "train.py:make")
    assert_user_error(done, "the plan takes", "are free on this machine")


def test_what_is_no_plan_for_this_machine(plan: Path, magis: Magis, tmp_path: Path) -> None:
    assert_user_error(magis("run", "absent.json"), "absent.json: no such file")
    assert_user_error(magis("run", "train.magis"), "train.magis: not a plan file")
    cut = tmp_path / "cut.json"
    cut.write_text(plan.read_text()[:500])
    assert_user_error(magis("run", cut), "cut.json:", "damaged or cut off")
    damaged = tmp_path / "damaged.json"
    damaged.write_text(plan.read_text().replace("\\nprogram\\nrun ", "\\nprogram\\nwalk ", 1))
    assert_user_error(magis("run", damaged), "damaged.json", "walk")
    assert magis("run", plan, "--rounds", "0").status == 2


def test_a_plan_with_the_optimizer_inside(
    magis: Magis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    magis("capture", "mlp", "--optimizer", "adamw", "-o", "adamw.magis")
    budget = ("--latency-limit", "1.1", "--state-budget", "1")
    magis("optimize", "adamw.magis", *budget, "-o", "adamw.json")
    found = magis("run", "adamw.json", "--json")
    assert found.status == 0
    assert json.loads(found.out)["promise_kept"]
    assert json.loads(found.out)["equal"]


@pytest.fixture
def swapping_plan(plan: Path) -> Path:
    """The same with tensors that leave for the host."""
    content = json.loads(plan.read_text())
    content["text"] = swapped(content["text"], random.Random(1), share=0.6).text
    plan.write_text(json.dumps(content))
    return plan


def test_what_a_plan_keeps_on_the_host_is_reported_apart(
    swapping_plan: Path, magis: Magis, tmp_path: Path
) -> None:
    text = json.loads(swapping_plan.read_text())["text"]
    host_bytes = _core.Plan.parse(text).host_bytes
    arguments = ("run", swapping_plan, "--model", "train.py:make", "--rounds", "1")
    done = magis(*arguments, "--json")
    assert done.status == 0, done.err
    facts = done.json
    assert facts["host_bytes"] == host_bytes > 0
    assert facts["offload_to"] == "host"
    assert facts["equal"] is True
    assert facts["measured_peak_bytes"] == facts["promised_peak_bytes"]
    disk = ("--offload-to", "disk", "--offload-directory", tmp_path)
    before = sorted(tmp_path.iterdir())
    shown = " ".join(magis(*arguments, *disk).out.split())
    assert f"({host_bytes:,} bytes) in a file, apart from the promise" in shown
    assert "(to the byte; profiler)" in shown
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--offload-to", "moon"], "choose one of host, disk"),
        (["--offload-to", "disk"], "needs an offload directory"),
        (["--offload-to", "disk", "--offload-directory", "missing"], "no file can be made in"),
        (["--offload-directory", "."], 'goes with offload_to="disk"'),
    ],
)
def test_where_to_offload_to_must_be_clear(
    swapping_plan: Path, magis: Magis, words: list[str], said: str
) -> None:
    arguments = ("run", swapping_plan, "--model", "train.py:make")
    assert_user_error(magis(*arguments, *words), said)


def test_too_little_memory_for_plan_and_host(
    swapping_plan: Path, magis: Magis, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _core.Plan.parse(json.loads(swapping_plan.read_text())["text"])
    most = found.simulate("cpu").peak_bytes + found.host_bytes
    arguments = ("run", swapping_plan, "--model", "train.py:make", "--rounds", "1")
    monkeypatch.setattr("magis.runtime.free_memory.free_bytes", lambda _: most - 1)
    assert_user_error(magis(*arguments), "the plan takes")
    monkeypatch.setattr("magis.runtime.free_memory.free_bytes", lambda _: most)
    assert magis(*arguments).status == 0
