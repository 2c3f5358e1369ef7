"""Plans on disk: what is written is read back, and each kind of bad file has its own message."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import tomllib
import torch
from runtime_support import Line, plan, squares

import magis
from magis import _core
from magis.errors import PlanError
from magis.runtime.plan_file import FORMAT, read_plan


@pytest.fixture(scope="module")
def step():
    return plan(Line(), squares, (torch.ones(2),))


@pytest.fixture
def saved(step, tmp_path):
    path = tmp_path / "plan.json"
    step.save(path)
    return path


def test_what_is_saved_is_read_back(step, saved):
    found = read_plan(saved)
    assert found.text == step.plan.text()
    assert found.report == step.report
    assert found.magis == magis.__version__
    assert found.device == "cpu"
    assert found.promise["peak_bytes"] == step.report.promised_peak_bytes
    assert found.decisions["operators"] == step.plan.graph.operator_count
    again = _core.Plan.parse(found.text, str(saved))
    assert again.simulate(found.device).peak_bytes == found.promise["peak_bytes"]


def test_saving_replaces_a_file_and_leaves_no_other(step, saved):
    saved.write_text("old")
    saved.chmod(0o640)
    step.save(saved)
    assert read_plan(saved).text == step.plan.text()
    assert saved.stat().st_mode & 0o777 == 0o640
    assert os.listdir(saved.parent) == ["plan.json"]


def test_paths_that_cannot_be_written_are_named(step, tmp_path):
    for path in (tmp_path / "missing" / "plan.json", tmp_path):
        with pytest.raises(PlanError, match=re.escape(f"{path}: the plan cannot be written")):
            step.save(path)
    locked = tmp_path / "locked.json"
    locked.write_text("keep me")
    locked.chmod(0o444)
    with pytest.raises(PlanError, match="read-only"):
        step.save(locked)
    assert locked.read_text() == "keep me"
    assert os.listdir(tmp_path) == ["locked.json"]


def changed(path: Path, **changes: object) -> Path:
    content = json.loads(path.read_text())
    content.update(changes)
    path.write_text(json.dumps(content))
    return path


def test_bad_files_are_told_apart(saved, tmp_path):
    with pytest.raises(PlanError, match="cannot be read"):
        read_plan(tmp_path / "none.json")
    whole = saved.read_text()
    saved.write_text(whole[: len(whole) // 2])
    with pytest.raises(PlanError, match=r"plan\.json:\d+:\d+: the plan is damaged or cut off"):
        read_plan(saved)
    saved.write_text("magis 1\ndevice cpu\n")
    with pytest.raises(PlanError, match="not a plan file"):
        read_plan(saved)
    saved.write_bytes(b"\x80\x04\x95pickled")
    with pytest.raises(PlanError, match="not a text file"):
        read_plan(saved)
    saved.write_text('{"version": 3}')
    with pytest.raises(PlanError, match="JSON, but not a plan"):
        read_plan(saved)
    saved.write_text(whole)
    with pytest.raises(
        PlanError, match=rf"by magis 9\.0 in format {FORMAT + 1}.* reads format {FORMAT}"
    ):
        read_plan(changed(saved, magis="9.0", format=FORMAT + 1))
    saved.write_text(whole)
    content = json.loads(whole)
    del content["text"]
    saved.write_text(json.dumps(content))
    with pytest.raises(PlanError, match="has no field 'text'"):
        read_plan(saved)


SPLIT = {"kind": "split", "loop": "r1", "part": 1, "length": 2, "parts": 2, "operators": 3}
SPLIT |= {"whole_bytes": 8, "part_bytes": 4}


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (["text"], 3, 'field "text" must be a text, not 3'),
        (["device"], 3, 'field "device" must be a text, not 3'),
        (["device"], "tpu", r'field "device" must be a device profile \(reference, .*not \'tpu\''),
        (["report", "device"], "tpu", r'"report\.device" must be a device profile'),
        (["format"], "1", 'field "format" must be an integer'),
        (["format"], True, 'field "format" must be an integer'),
        (["format"], 1.0, 'field "format" must be an integer'),
        (["promise"], [], r'field "promise" must be an object, not \[\]'),
        (["report"], 7, 'field "report" must be an object, not 7'),
        (["report", "seconds"], "fast", r'"report\.seconds" must be a finite number'),
        (["report", "seconds"], float("nan"), r'"report\.seconds" must be a finite number'),
        (["report", "states_scored"], 2**63, r'"report\.states_scored" must be an integer of 64'),
        (["report", "met"], 1, r'"report\.met" must be true or false, not 1'),
        (["report", "edits"], {}, r'"report\.edits" must be a list'),
        (["report", "edits"], [1], r'"report\.edits\[0\]" must be an object'),
        (["report", "edits"], [{"kind": "x"}], r'"report\.edits\[0\]\.kind" must be "reorder" or'),
        (["report", "edits"], [{"kind": "reorder"}], r"no field 'report\.edits\[0\]\.moved'"),
        (["report", "edits"], [SPLIT | {"held": [7]}], r"edits\[0\]\.held\[0\]\" must be an obj"),
        (["report", "edits"], [SPLIT | {"held": [{}]}], r"no field '.*held\[0\]\.operator'"),
    ],
)
def test_a_field_of_the_wrong_type_is_named_with_its_file(saved, place, value, said):
    content = json.loads(saved.read_text())
    *outer, last = place
    parent = content[outer[0]] if outer else content
    assert last in parent
    parent[last] = value
    saved.write_text(json.dumps(content))
    with pytest.raises(PlanError, match=rf"plan\.json: the plan.*{said}.*make it again"):
        read_plan(saved)


def test_a_field_that_is_missing_in_the_report(saved):
    content = json.loads(saved.read_text())
    del content["report"]["limit"]
    saved.write_text(json.dumps(content))
    with pytest.raises(PlanError, match=r"plan\.json: the plan has no field 'report\.limit'"):
        read_plan(saved)


def test_json_beyond_what_python_reads(saved):
    saved.write_text('{"magis": ' + "[" * 100_000)
    with pytest.raises(PlanError, match=r"plan\.json: nested too deeply"):
        read_plan(saved)
    saved.write_text('{"magis": "0.1", "format": ' + "9" * 5000 + "}")
    with pytest.raises(PlanError, match=r"plan\.json: holds a number too long"):
        read_plan(saved)


def test_the_version_is_that_of_the_package():
    project = Path(__file__).parents[3] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == magis.__version__
