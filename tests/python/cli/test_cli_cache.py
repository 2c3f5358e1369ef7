"""`magis cache`, `magis profile`, `magis optimize --measure`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cli_support import SMALL, Magis


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAGIS_CACHE_DIR", str(tmp_path / "cache"))
    torch.set_num_threads(1)
    return tmp_path / "cache"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "small.magis"
    path.write_text(SMALL)
    return path


def test_profile_measures_once(magis: Magis, graph: Path) -> None:
    first = magis("profile", graph, "--budget", "20", "--json").json
    assert first["measured"] > 5
    assert first["left"] == 0
    assert list(first["failed"]) == [
        call["call"] for call in first["calls"] if not call["measured"]
    ]
    assert "mylib" in next(iter(first["failed"].values()))
    again = magis("profile", graph, "--budget", "20", "--json").json
    assert again["measured"] == 0
    assert again["step_seconds"] == first["step_seconds"]


def test_profile_in_words(magis: Magis, graph: Path) -> None:
    out = magis("profile", graph, "--budget", "0").out
    assert "0 calls measured" in out
    assert "left: give a longer --budget" in out
    refused = magis("profile", "bertt")
    assert refused.status == 2
    assert "neither a file nor a model of the zoo" in refused.err


def test_optimizing_again_measures_nothing(magis: Magis, graph: Path) -> None:
    arguments = ("optimize", graph, "--memory-limit", "100%", "--time-budget", "0.3")
    first = magis(*arguments, "--measure", "20", "--json").json
    assert "measured now" in first["times"]
    second = magis(*arguments, "--measure", "20", "--json").json
    assert "nothing was measured now" in second["times"]
    assert magis(*arguments, "--json").json["times"] == ""


def test_times_of_another_device_are_refused(magis: Magis, graph: Path) -> None:
    arguments = ("optimize", graph, "--memory-limit", "100%", "--device", "a100")
    refused = magis(*arguments, "--measure", "1")
    assert refused.status == 2
    assert "--measure" in refused.err
    assert "'a100' is another" in refused.err


def test_the_cache_is_listed_exported_cleared_and_imported(
    magis: Magis, graph: Path, tmp_path: Path
) -> None:
    assert "Nothing was measured yet" in magis("cache", "list").out
    magis("profile", graph, "--budget", "20", "--no-parts")
    listed = magis("cache", "list", "--json").json
    assert listed["machines"][0]["failures"] == 1
    times = listed["machines"][0]["times"]
    file = tmp_path / "times.jsonl"
    assert f"{times + 1} calls written" in magis("cache", "export", file).out
    assert magis("cache", "clear", "--others", "--json").json == {"cleared": 0}
    assert magis("cache", "clear", "--json").json == {"cleared": times + 1}
    assert magis("cache", "import", file, "--json").json == {"added": times + 1, "kept": 0}
    assert magis("cache", "list", "--json").json["machines"] == listed["machines"]
    broken = magis("cache", "import", graph)
    assert broken.status == 2
    assert "small.magis:1" in broken.err


def test_run_sets_promised_beside_measured_times(magis: Magis, tmp_path: Path) -> None:
    graph, plan = tmp_path / "mlp.magis", tmp_path / "plan.json"
    assert magis("capture", "mlp", "-o", graph).status == 0
    options = ("--memory-limit", "100%", "--time-budget", "0.5")
    magis("optimize", graph, *options, "--measure", "30", "-o", plan)
    times = magis("run", plan, "--rounds", "2", "--json").json["times"]
    assert times["calls_measured"] == times["calls"] > 5
    assert 0.2 < times["promised_seconds"] / times["step_seconds"] < 5
    assert len(times["offenders"]) == 5
    off = [abs(row["promised"] - row["measured"]) for row in times["offenders"]]
    assert off == sorted(off, reverse=True)
    out = magis("run", plan, "--rounds", "1").out
    assert "calls measured before" in " ".join(out.split())
    assert "farthest off" in out
    assert "longest" in out
    by_operator = {row["name"]: row for row in times["operators"]}
    assert by_operator["aten.addmm"]["runs"] > 1
    longest = [row["measured"] for row in times["operators"]]
    assert longest == sorted(longest, reverse=True)


def test_validating_runs_what_was_found(magis: Magis, tmp_path: Path) -> None:
    graph = tmp_path / "mlp.magis"
    assert magis("capture", "mlp", "-o", graph).status == 0
    options = ("--memory-limit", "99%", "--time-budget", "0.3", "--validate", "2", "--json")
    done = magis("optimize", graph, *options)
    assert done.status == 0, done.err
    assert "run here, 5 steps each" in done.json["times"]
    assert done.json["met"]
    found = done.json["promised_times"]
    assert found["promised_seconds"] == done.json["seconds"]
    assert found["step_seconds"] > 0
    assert 0 < len(found["offenders"]) <= 5
    refused = magis("optimize", graph, "--memory-limit", "99%", "--model", "train.py:make")
    assert refused.status == 2
    assert "--validate" in refused.err


def test_a_frontier_of_measured_times(magis: Magis, graph: Path, tmp_path: Path) -> None:
    options = ("--frontier", "--time-budget", "0.2", "--measure", "10", "-o", tmp_path / "plans")
    done = magis("optimize", graph, *options, "--json")
    assert done.status == 0, done.err
    assert "measured now" in done.json["times"]
    again = magis("optimize", graph, *options, "--json")
    assert "nothing was measured now" in again.json["times"]
    refused = magis("optimize", graph, "--frontier", "--validate", "2")
    assert refused.status == 2
    assert "--validate does not go with --frontier" in refused.err
