"""`magis cache`, `magis profile`, `magis optimize --measure`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from cli_support import SMALL, Magis

from magis import _core
from magis.cli import validating


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


def test_validating_runs_what_was_found(magis: Magis, tmp_path: Path) -> None:
    graph = tmp_path / "mlp.magis"
    assert magis("capture", "mlp", "-o", graph).status == 0
    options = ("--memory-limit", "99%", "--time-budget", "0.3", "--validate", "2", "--json")
    done = magis("optimize", graph, *options)
    assert done.status == 0, done.err
    assert "run here, 5 steps each" in done.json["times"]
    assert done.json["met"]
    refused = magis("optimize", graph, "--memory-limit", "99%", "--model", "train.py:make")
    assert refused.status == 2
    assert "--validate" in refused.err


class Candidate:
    """As much of a result as validating looks at."""

    def __init__(self, peak_bytes: int, met: bool = True) -> None:
        self.source = _core.Graph.parse(SMALL)
        self.plan = _core.Plan.program_order(self.source)
        self.peak_bytes, self.met, self.baseline_seconds = peak_bytes, met, 1.0


def test_the_fastest_as_measured_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [[2.0], [2.5], [2.2], [1.0]]  # the captured order, then the candidates
    monkeypatch.setattr(validating, "_step_seconds", lambda plans, model: samples)
    candidates: list[Any] = [Candidate(10), Candidate(30), Candidate(20, met=False)]
    assert validating.validate(candidates, None, None).result is candidates[1]
    # A limit of 1.15 times what the captured order was promised to take: 2.3 as measured.
    assert validating.validate(candidates, None, 1.15).result is candidates[1]
    assert validating.validate(candidates, None, 1.5).result is candidates[0]  # least memory
    assert validating.validate(candidates, None, 1.0).result is candidates[1]  # none is that fast
