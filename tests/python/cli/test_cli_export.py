"""`magis export`: files for PyTorch's memory viewer and for Perfetto."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

from cli_support import Magis, assert_user_error


def test_a_graph_in_program_order(magis: Magis, small: Path, tmp_path: Path) -> None:
    pickled, trace = tmp_path / "small.pickle", tmp_path / "small.json"
    done = magis("export", small, "--snapshot", pickled, "--trace", trace, "--json")
    assert done.status == 0, done.err
    facts = done.json
    assert facts["promised_peak_bytes"] == 65_792 + 163_844
    assert facts["operators_drawn"] == 11
    content = json.loads(trace.read_text())
    assert content["otherData"]["promised_peak_bytes"] == 65_792 + 163_844
    assert content["otherData"]["model"] == "small.py:make"
    named = [event["name"] for event in content["traceEvents"] if event["ph"] == "X"]
    assert named.count("aten.mm") == 5
    assert named.count("mylib.squash") == 1
    trace_of_device = pickle.loads(pickled.read_bytes())["device_traces"][0]
    assert sum(entry["action"] == "alloc" for entry in trace_of_device) == facts["allocations"]


def test_a_plan_says_where_the_files_are(magis: Magis, small: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    search = ("--latency-limit", "2", "--state-budget", "50", "--device", "rtx3090")
    assert magis("optimize", small, *search, "-o", plan).status == 0
    pickled = tmp_path / "out.pickle"
    done = magis("export", plan, "--snapshot", pickled)
    assert done.status == 0
    assert "https://docs.pytorch.org/memory_viz" in done.out
    assert "Trace written" not in done.out
    # The profile that the plan was found under, which rounds allocations up.
    inspected = magis("inspect", plan, "--json").json["peak_bytes"]
    data = magis("export", plan, "--snapshot", pickled, "--json").json
    assert data["device"] == "rtx3090"
    assert data["promised_peak_bytes"] == inspected
    sizes = [e["size"] for e in pickle.loads(pickled.read_bytes())["device_traces"][0]]
    assert all(size % 512 == 0 for size in sizes)


def test_what_cannot_be_written(magis: Magis, small: Path, tmp_path: Path) -> None:
    assert_user_error(magis("export", small), "nothing to write; add --snapshot")
    done = magis("export", small, "--trace", small)
    assert_user_error(done, "--trace and the input are both")
    done = magis("export", small, "--trace", tmp_path / "a", "--snapshot", tmp_path / "a")
    assert_user_error(done, "--trace and --snapshot are both")
    locked = tmp_path / "locked.json"
    locked.write_text("kept")
    locked.chmod(0o444)
    assert_user_error(magis("export", small, "--trace", locked), "is read-only; choose another")
    assert locked.read_text() == "kept"
    done = magis("export", tmp_path / "none.json", "--trace", tmp_path / "b.json")
    assert_user_error(done, "none.json: no such file")
    assert not (tmp_path / "b.json").exists()
