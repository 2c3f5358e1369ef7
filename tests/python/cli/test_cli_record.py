"""`magis run --record`: what was promised beside what happened, in the same files."""

from __future__ import annotations

import copy
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_support import SMALL, TRAIN, Finished, Magis, assert_user_error
from snapshot_format import assert_no_overlap, peak_of
from swap_programs import swapped
from torch.cuda import _memory_viz
from trace_format import Counters, Event, events_of, nanoseconds, slices

from magis import _core
from magis.cli.recorded import check_record_folder, write_recording
from magis.report.memory import WORKSPACE
from magis.report.viewers.measured import Recording
from magis.runtime.plan_file import envelope, parse_envelope

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the hook is for Linux"
)

DEVICE = "device memory"
NO_OPERATORS = ("loop", "copy", "wait")


def with_swaps(path: Path) -> None:
    """A saved plan gets random swapping."""
    saved = parse_envelope(path.read_text(), str(path))
    plain = _core.Plan.parse(saved.text)
    plan = _core.Plan.parse(swapped(plain.text(), random.Random(3), share=0.4).text)
    assert plan.host_bytes > 0
    path.write_text(envelope(plan, saved.report, saved.captured))


def recorded(magis_process: Magis, plan: Path, *more: str) -> Finished:
    done = magis_process("run", plan, "--rounds", "1", "--record", "out", "--json", *more)
    assert done.status == 0, done.err
    return done


def most_during(counters: list[tuple[int, int]], event: Event) -> int:
    """The most that a counter stands at while a slice lasts; samples are (time, bytes)."""
    start = nanoseconds(event["ts"])
    end = start + nanoseconds(event["dur"])
    before = [level for time, level in counters if time <= start][-1]
    return max([before, *(level for time, level in counters if start < time <= end)])


def assert_promise_and_truth_agree(events: list[Event], *, within: int = 0) -> None:
    """The same operators, loops and kinds of memory, and at each operator as much of it."""
    promised = slices(events, 1)
    truth = slices(events, 2)
    assert [e["name"] for e in promised] == [e["name"] for e in truth]
    assert [e["args"] for e in promised] == [e["args"] for e in truth]
    samples = [
        (nanoseconds(e["ts"]), e["args"]["bytes"])
        for e in events
        if e["ph"] == "C" and e["pid"] == 2 and e["name"] == DEVICE
    ]
    counters = Counters(events, 1)
    for one, other in zip(promised, truth, strict=True):
        if one["cat"] not in NO_OPERATORS:
            level = counters.at(DEVICE, nanoseconds(one["ts"]))
            assert level == pytest.approx(most_during(samples, other), abs=within), one
    happened = Counters(events, 2)
    assert counters.peak(DEVICE) == happened.peak(DEVICE)
    # What a plan computes and nobody reads is gone with its operator: workspace, as measured.
    for name in counters.names() - {WORKSPACE}:
        assert happened.peak(name) <= counters.peak(name) <= happened.peak(name) + within, name
    arrows = [[e["name"] for e in events if e["ph"] == "f" and e["pid"] == p] for p in (1, 2)]
    assert arrows[0] == arrows[1]


def assert_snapshot(path: Path, facts: dict[str, Any]) -> None:
    """Device 0 is the promise, device 1 what was measured; both come to the same peak."""
    content = pickle.loads(path.read_bytes())
    promised, truth = content["device_traces"]
    assert peak_of(promised) == facts["promised_peak_bytes"]
    assert peak_of(truth) == facts["measured_peak_bytes"]
    for device in (0, 1):
        assert_no_overlap(content, device)
    _memory_viz.trace_plot(copy.deepcopy(content))
    _memory_viz.segment_plot(copy.deepcopy(content))
    _memory_viz.segsum(content)


def test_a_tiny_bert_that_swaps(magis: Magis, magis_process: Magis, tmp_path: Path) -> None:
    graph, plan = tmp_path / "bert.magis", tmp_path / "plan.json"
    assert magis("capture", "bert", "-o", graph).status == 0
    search = ("--memory-limit", "90%", "--state-budget", "2000", "--no-fission")
    assert magis("optimize", graph, *search, "--no-swap", "-o", plan).status == 0
    with_swaps(plan)
    done = recorded(magis_process, plan)
    facts = done.json
    assert facts["promised_peak_bytes"] == facts["measured_peak_bytes"]
    assert facts["recorded"]["measured_peak_bytes"] == facts["promised_peak_bytes"]
    text = (tmp_path / "out" / "trace.json").read_text()
    events = events_of(text)
    assert any(e["cat"] == "computed again" for e in slices(events, 2))
    assert any(e["cat"] == "copy" for e in slices(events, 2))
    assert_promise_and_truth_agree(events)
    assert_snapshot(tmp_path / "out" / "snapshot.pickle", facts)
    named = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert named == {"predicted (profile cpu)", "measured (hook)"}


def test_a_model_of_ones_own_that_runs_in_parts(
    magis: Magis, magis_process: Magis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)
    assert magis("capture", "train.py:make").status == 0
    search = ("--latency-limit", "9", "--state-budget", "500", "--time-budget", "60")
    asked = ("optimize", "train.magis", *search, "--batch-parts", "4", "-o", "plan.json")
    assert magis(*asked).status == 0
    done = recorded(magis_process, Path("plan.json"), "--model", "train.py:make")
    events = events_of(Path("out/trace.json").read_text())
    loops = [e["name"] for e in slices(events, 2) if e["cat"] == "loop"]
    assert loops[:2] == ["r1: 4 parts", "r1, part 1 of 4"]
    # The mean is taken apart into a comparison and a sum of 32 booleans, which PyTorch casts to
    # integers of 8 bytes first: no capture has measured that.
    assert_promise_and_truth_agree(events, within=32 * 8)
    assert_snapshot(Path("out/snapshot.pickle"), done.json)
    content = pickle.loads(Path("out/snapshot.pickle").read_bytes())
    frames = [e["frames"][1]["filename"] for e in content["device_traces"][1] if e["frames"]]
    assert any(name.endswith("train.py") for name in frames)


def test_where_it_cannot_be(magis: Magis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)
    assert magis("capture", "train.py:make").status == 0
    search = ("--latency-limit", "1.5", "--state-budget", "50", "-o", "plan.json")
    assert magis("optimize", "train.magis", *search).status == 0
    done = magis("run", "plan.json", "--record", "train.py")
    assert_user_error(done, "--record train.py: is a file; give a folder")
    Path("locked").mkdir(mode=0o555)
    done = magis("run", "plan.json", "--record", "locked")
    assert_user_error(done, "--record locked/trace.json: the folder", "read-only")
    done = magis("run", "plan.json", "--record", "locked/new")
    assert_user_error(done, "--record", "read-only")
    # This process has no hook.
    done = magis("run", "plan.json", "--model", "train.py:make", "--record", "out")
    assert_user_error(done, "--record: on a CPU a step is recorded under the allocator hook")
    assert not Path("out").exists()


def test_a_folder_is_made_with_what_is_in_it_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _core.Plan.program_order(_core.Graph.parse(SMALL))
    recording = Recording("hook", 0)
    folder = tmp_path / "a" / "b"
    check_record_folder(folder)
    assert not folder.parent.exists()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("magis.cli.recorded.write_snapshot", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_recording(folder, plan, "cpu", recording)
        assert not folder.exists()
        folder.mkdir(parents=True)
        (folder / "mine").touch()
        with pytest.raises(KeyboardInterrupt):
            write_recording(folder, plan, "cpu", recording)
    assert (folder / "mine").exists()
    write_recording(folder, plan, "cpu", recording)
    assert {path.name for path in folder.iterdir()} == {"mine", "trace.json", "snapshot.pickle"}
