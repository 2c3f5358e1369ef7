"""`magis report` and `magis diff`: the pages and tables, and what they refuse in one line."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_support import Magis, assert_user_error, chain

from magis import _core
from magis.cli import main
from magis.report.page import html
from magis.report.page.html import read_data
from magis.report.report import MEASURED_BASELINE
from magis.runtime.plan_file import captured_graph, parse_plan, read_plan

SEARCH = ("--state-budget", "2000", "--threads", "1", "--no-swap", "--device", "rtx3090")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph, two plans of it and a frontier; not to be changed."""
    place = tmp_path_factory.mktemp("made")
    graph = place / "chain.magis"
    graph.write_text(chain(12))
    for name, limit in (("loose", "90%"), ("tight", "60%")):
        plan = str(place / f"{name}.json")
        assert main(["optimize", str(graph), "--memory-limit", limit, *SEARCH, "-o", plan]) == 0
    found = [*SEARCH, "--frontier", "-o", str(place / "frontier")]
    assert main(["optimize", str(graph), *found]) == 0
    return place


def page_of(path: Path) -> dict[str, Any]:
    return read_data(path.read_text())


def test_a_plan_becomes_a_page(magis: Magis, made: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    told = magis("report", made / "tight.json", "-o", page, "--json").json
    assert told["page"] == str(page)
    assert told["bytes"] == page.stat().st_size
    saved = read_plan(made / "tight.json")
    assert [run["peak_bytes"] for run in told["runs"]] == [
        saved.report.captured_peak_bytes,
        saved.promise["peak_bytes"],
    ]
    data = page_of(page)
    assert [run["peak_bytes"] for run in data["runs"]] == [r["peak_bytes"] for r in told["runs"]]
    assert {line["name"] for line in data["lines"]} == {"limit", "lower bound"}
    assert data["search"]["elapsed"]
    assert data["frontier"] is None


def test_the_page_lies_beside_the_plan_unless_told_otherwise(
    magis: Magis, made: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text((made / "tight.json").read_text())
    assert magis("report", plan).status == 0
    assert (tmp_path / "plan.html").is_file()


def test_a_graph_and_bare_plan_text_have_pages_too(
    magis: Magis, made: Path, tmp_path: Path
) -> None:
    text = tmp_path / "bare.plan"
    text.write_text(json.loads((made / "tight.json").read_text())["text"])
    for path in (made / "chain.magis", text):
        page = tmp_path / "page.html"
        assert magis("report", path, "-o", page).status == 0
        data = page_of(page)
        assert data["lines"] == []
        assert data["search"] is None
        labels = [run["label"] for run in data["runs"]]
        assert labels == (["before", "after"] if path == text else ["as captured"])


# What an edit of a plan file might promise, and the words that refuse it.
UNTRUE = [
    (("report", "promised_peak_bytes"), 1000, "says a peak of 1000 B, and its plan comes to"),
    (("report", "captured_peak_bytes"), 10**12, "says a peak of the captured graph of 931.32 GiB"),
    (("report", "baseline_peak_bytes"), 10**12, "says a peak before of 931.32 GiB"),
    (("report", "seconds"), 1e-9, "says a time of"),
    (("report", "baseline_seconds"), 1e3, "says a time before of 1,000 s"),
    (("report", "lower_bound_bytes"), 10**12, "says that no plan stays below 931.32 GiB"),
    (("report", "lower_bound_bytes"), 1, "says that no plan stays below 1 B"),
    (("report", "lower_bound_reason"), "I say so", "says that no plan stays below "),
    (("report", "limit_bytes"), 1, "says that its limit of 1 B is met"),
    (("promise", "peak_bytes"), 1000, "says a peak of 1000 bytes"),
]


@pytest.mark.parametrize(("field", "value", "words"), UNTRUE)
def test_an_edited_promise_is_refused(
    magis: Magis, made: Path, tmp_path: Path, field: tuple[str, str], value: Any, words: str
) -> None:
    content = json.loads((made / "tight.json").read_text())
    content[field[0]][field[1]] = value
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(content))
    for command in (("report", plan), ("diff", made / "loose.json", plan), ("inspect", plan)):
        assert_user_error(magis(*command), f"{plan}: {words}", "make it again")
    assert not (tmp_path / "plan.html").exists()


def edited(plan: Path, to: Path, **changes: Any) -> Path:
    """The file `plan` with other fields in its report, as `to`."""
    content = json.loads(plan.read_text())
    content["report"] |= changes
    to.write_text(json.dumps(content))
    return to


def test_a_bound_off_by_one_byte_is_refused(magis: Magis, made: Path, tmp_path: Path) -> None:
    bound = read_plan(made / "tight.json").report.lower_bound_bytes
    for told in (bound - 1, bound + 1):
        plan = edited(made / "tight.json", tmp_path / "plan.json", lower_bound_bytes=told)
        assert_user_error(magis("inspect", plan), f"{plan}: says that no plan stays below")


def test_beside_a_measured_peak_the_time_before_is_counted_all_the_same(
    magis: Magis, made: Path, tmp_path: Path
) -> None:
    """As `magis.optimize` writes files: the peak was eager's own, the time never is."""
    peak = 2 * read_plan(made / "tight.json").report.captured_peak_bytes
    eager = {"baseline_source": MEASURED_BASELINE, "baseline_peak_bytes": peak}
    plan = edited(made / "tight.json", tmp_path / "plan.json", **eager)
    assert magis("inspect", plan).status == 0
    for changes, words in (
        ({"baseline_seconds": 1e3}, "says a time before of 1,000 s"),
        ({"baseline_peak_bytes": 1}, "says a peak before of 1 B"),
        ({"baseline_source": "a guess"}, '"report.baseline_source" must be "captured graph'),
    ):
        plan = edited(made / "tight.json", tmp_path / "plan.json", **{**eager, **changes})
        assert_user_error(magis("inspect", plan), str(plan), words, "make it again")


@pytest.fixture(scope="module")
def bounded(made: Path) -> Path:
    """A plan with a bound on its time."""
    plan = made / "bounded.json"
    asked = [*SEARCH, "--memory-limit", "70%", "--time-bound", "-o", str(plan)]
    assert main(["optimize", str(made / "chain.magis"), *asked]) == 0
    return plan


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seconds": 1e-9, "gap": 1e3}, "for running each operator once"),
        ({"seconds": 1e3, "gap": 0.0}, "says that no plan like it takes less than 1,000 s"),
        ({"gap": 0.5}, "says to be 50.00 % above its bound on time"),
        ({"gap": None}, "says to be an unknown share above its bound on time"),
        ({"in_parts": True}, "says its bound on time to be of operators that run in parts"),
        ({"seconds": None, "gap": None, "least_bytes": 1}, "take at least 1 B"),
        ({"seconds": None, "gap": None, "least_bytes": 10**12}, "take at least 931.32 GiB"),
        ({"seconds": None}, "as magis wrote it, or null"),
        ({"least_bytes": 5}, "as magis wrote it, or null"),
        ({"missing": "none"}, "as magis wrote it, or null"),
        ({"seconds": -1.0}, "as magis wrote it, or null"),
    ],
)
def test_an_edited_bound_on_time_is_refused(
    magis: Magis, bounded: Path, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    assert magis("inspect", bounded).status == 0
    told = json.loads(bounded.read_text())["report"]["time_bound"]
    assert told["seconds"] > 0
    plan = edited(bounded, tmp_path / "plan.json", time_bound={**told, **changes})
    assert_user_error(magis("inspect", plan), str(plan), words)


def test_a_promise_off_by_one_byte_is_refused_in_bytes(
    magis: Magis, made: Path, tmp_path: Path
) -> None:
    content = json.loads((made / "tight.json").read_text())
    peak = content["report"]["promised_peak_bytes"]
    content["report"]["promised_peak_bytes"] += 1
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(content))
    told = f"says a peak of {peak + 1:,} bytes, and its plan comes to {peak:,} bytes"
    assert_user_error(magis("inspect", plan), f"{plan}: {told}", "make it again")


def test_what_was_done_is_told_from_the_plan(magis: Magis, made: Path, tmp_path: Path) -> None:
    content = json.loads((made / "tight.json").read_text())
    told = content["report"]["edits"]
    assert told
    content["report"]["edits"] = [{"kind": "rewrite", "rule": "of mine", "times": 7}]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(content))
    assert magis("inspect", plan, "--json").json["report"]["edits"] == told


def test_measured_times_stay_as_they_are_told(magis: Magis, made: Path, tmp_path: Path) -> None:
    content = json.loads((made / "tight.json").read_text())
    content["report"] |= {"times": "9 of 9 calls measured", "seconds": 0.25}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(content))
    assert magis("inspect", plan, "--json").json["report"]["seconds"] == 0.25


# The same bad input: what is typed after `magis report`, `diff`, `export` and `inspect`.
BAD_INPUTS: dict[str, Callable[[Path], Path]] = {
    "missing": lambda place: place / "none.json",
    "folder": lambda place: place,
    "empty": lambda place: _written(place / "empty", ""),
    "binary": lambda place: _written(place / "binary", "\0\udcff"),
    "cut": lambda place: _written(place / "cut.json", '{"magis": "0.1.0", "format": 1,'),
    "foreign": lambda place: _written(place / "foreign.json", '{"a": 1}'),
    "graph": lambda place: _written(place / "graph.magis", "magis 1\ndevice cpu\n%a = b"),
    "device": lambda place: _written(
        place / "device.json",
        (place / "tight.json").read_text().replace('"device": "rtx3090"', '"device": "abacus"'),
    ),
}


def _written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


@pytest.mark.parametrize("kind", BAD_INPUTS)
def test_the_same_bad_input_has_the_same_words_everywhere(
    magis: Magis, made: Path, tmp_path: Path, kind: str
) -> None:
    shutil.copy(made / "tight.json", tmp_path)
    bad, good = BAD_INPUTS[kind](tmp_path), made / "loose.json"
    page = tmp_path / "page.html"
    said = {
        magis(*command).err
        for command in (
            ("inspect", bad),
            ("report", bad, "-o", page),
            ("report", bad),
            ("diff", bad, good),
            ("diff", good, bad, "-o", page),
            ("export", bad, "--trace", tmp_path / "trace.json"),
        )
    }
    assert len(said) == 1
    assert str(bad) in said.pop()
    assert not page.exists()


def test_a_missing_file_in_a_missing_folder_is_missing(magis: Magis, tmp_path: Path) -> None:
    assert_user_error(magis("report", tmp_path / "no" / "plan.json"), "plan.json: no such file")


def test_a_plan_of_a_frontier_is_shown_among_its_neighbours(
    magis: Magis, made: Path, tmp_path: Path
) -> None:
    index = json.loads((made / "frontier" / "frontier.json").read_text())
    peaks = [plan["peak_bytes"] for plan in index["plans"]]
    page = tmp_path / "page.html"
    for plan, options in (
        (made / "frontier" / "plan-001.json", ()),
        (made / "tight.json", ("--frontier", made / "frontier")),
    ):
        assert magis("report", plan, "-o", page, *options).status == 0
        assert [p["peak_bytes"] for p in page_of(page)["frontier"]["plans"]] == peaks


def test_peers_stand_beside_the_plan(magis: Magis, made: Path, tmp_path: Path) -> None:
    peers, page = tmp_path / "peers.json", tmp_path / "page.html"
    told = [{"name": "checkpointing", "peak_bytes": 4096, "seconds": 0.5}]
    peers.write_text(json.dumps(told))
    assert magis("report", made / "tight.json", "--peers", peers, "-o", page).status == 0
    assert page_of(page)["peers"] == told
    for text, said in (
        ("{", "is not JSON"),
        ("{}", "must hold a list of objects"),
        ('[{"name": "a", "seconds": 1.0}]', "has no field '[0].peak_bytes'"),
        ('[{"name": "a", "peak_bytes": "b", "seconds": 1}]', "must be an integer"),
        ('[{"name": "a", "peak_bytes": -1, "seconds": 1}]', '[0].peak_bytes" must be more than'),
        ('[{"name": "a", "peak_bytes": 1, "seconds": -1}]', '[0].seconds" must be more than'),
        ('[{"name": "a", "peak_bytes": 1, "seconds": 0}]', '[0].seconds" must be more than'),
        ('[{"name": " ", "peak_bytes": 1, "seconds": 1}]', '[0].name" must be a text that is'),
    ):
        peers.write_text(text)
        done = magis("report", made / "tight.json", "--peers", peers, "-o", page)
        assert_user_error(done, said)


def test_what_cannot_be_written_is_refused_before_any_work(
    magis: Magis, made: Path, tmp_path: Path
) -> None:
    plan = made / "tight.json"
    locked = tmp_path / "locked.html"
    locked.write_text("keep me")
    locked.chmod(0o444)
    for command in (("report", plan), ("diff", plan, made / "loose.json")):
        assert_user_error(magis(*command, "-o", locked), "read-only")
        assert_user_error(magis(*command, "-o", tmp_path), "is a folder")
        assert_user_error(magis(*command, "-o", tmp_path / "no" / "page.html"), "no folder")
        assert_user_error(magis(*command, "-o", plan), "both")
    assert locked.read_text() == "keep me"


def test_without_plotly_there_is_one_line(
    magis: Magis, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    html._library.cache_clear()
    monkeypatch.setattr(html.resources, "files", missing)
    page = tmp_path / "page.html"
    done = magis("report", made / "tight.json", "-o", page)
    assert_user_error(done, "pip install 'magis[report]'")
    assert not page.exists()


def test_a_plan_on_another_graph_carries_the_captured_one(
    magis: Magis, made: Path, tmp_path: Path
) -> None:
    graph = _core.Graph.parse((made / "chain.magis").read_text(), "chain")
    split = tmp_path / "split.json"
    options = ("--batch-parts", "2", "--memory-limit", "60%", *SEARCH, "-o", split)
    assert magis("optimize", made / "chain.magis", *options).status in (0, 3)
    saved = read_plan(split)
    plan = parse_plan(saved.text, "split")
    assert plan.graph.altered
    found = captured_graph(saved, plan, "split")
    assert found is not None
    assert found.text() == graph.text()
    content = json.loads(split.read_text())
    other = base64.b64encode(zlib.compress(chain(5).encode())).decode()
    for damaged, said in (("????", "is damaged"), ("AAAA", "is damaged"), (other, "another graph")):
        split.write_text(json.dumps({**content, "graph": damaged}))
        assert_user_error(magis("report", split, "-o", tmp_path / "page.html"), said)
    del content["graph"]  # as older files are
    split.write_text(json.dumps(content))
    assert magis("report", split, "-o", tmp_path / "page.html").status == 0
    assert [run["label"] for run in page_of(tmp_path / "page.html")["runs"]] == ["after"]


def test_diff_says_what_differs(magis: Magis, made: Path, tmp_path: Path) -> None:
    loose, tight = made / "loose.json", made / "tight.json"
    page = tmp_path / "diff.html"
    told = magis("diff", loose, tight, "-o", page, "--json").json
    figures = {row[0]: row[1:] for row in told["sections"][0]["rows"]}
    promises = [read_plan(path).promise for path in (loose, tight)]
    assert promises[0]["peak_bytes"] > promises[1]["peak_bytes"]
    data = page_of(page)
    assert [run["peak_bytes"] for run in data["runs"]] == [p["peak_bytes"] for p in promises]
    assert [run["label"] for run in data["runs"]] == ["loose.json", "tight.json"]
    assert data["differences"] == told["sections"]
    assert figures["peak"][2].startswith("-")
    again = next(s for s in told["sections"] if s["title"] == "Computed again")
    edits = [read_plan(path).report.edits for path in (loose, tight)]
    counts = [sum(edit["kind"] == "recompute" for edit in each) for each in edits]
    assert counts[0] < counts[1]
    shown = [
        sum(
            int(row[side].split(" x")[0].replace(",", ""))
            for row in again["rows"]
            if row[side] != "-"
        )
        for side in (1, 2)
    ]
    assert shown[1] - shown[0] == counts[1] - counts[0]
    text = magis("diff", loose, tight).out
    for section in told["sections"]:
        assert section["title"] in text


def test_diff_of_a_plan_with_itself_has_figures_alone(magis: Magis, made: Path) -> None:
    told = magis("diff", made / "tight.json", made / "tight.json", "--json").json
    (figures,) = told["sections"]
    assert all(row[1] == row[2] and not row[3] for row in figures["rows"])
    assert figures["columns"][1].endswith("(first)")


def test_diff_takes_a_graph_under_the_others_profile(magis: Magis, made: Path) -> None:
    done = magis("diff", made / "chain.magis", made / "tight.json", "--json")
    rows = {row[0] for row in done.json["sections"][0]["rows"]}
    assert "profile" not in rows
    assert done.err == ""


def test_diff_warns_of_plans_for_different_steps(magis: Magis, made: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.magis"
    other.write_text(chain(5))
    page = tmp_path / "diff.html"
    done = magis("diff", other, made / "tight.json", "-o", page)
    assert done.status == 0
    assert "are not plans of the same step" in done.err
    # Whoever is sent the page has to know, too.
    words, style = page_of(page)["headline"][1]
    assert words == "other.magis and tight.json are not plans of the same step"
    assert style == "red"


def test_times_on_a_page_of_two_plans_are_those_of_each_profile(
    magis: Magis, made: Path, bounded: Path, tmp_path: Path
) -> None:
    page, other = tmp_path / "diff.html", tmp_path / "other.json"
    asked = ["--device", "a100", "--no-swap", "--state-budget", "2000", "-o", other]
    assert magis("optimize", made / "chain.magis", "--memory-limit", "70%", *asked).status == 0
    assert magis("diff", bounded, other, "-o", page).status == 0
    data = page_of(page)
    assert [run["device"] for run in data["runs"]] == ["rtx3090", "a100"]
    assert [line["run"] for line in data["times"]] == ["bounded.json"]
    # Under another profile the bound is another one, which nobody has found.
    assert magis("diff", bounded, other, "--device", "a100", "-o", page).status == 0
    assert page_of(page)["times"] == []


def test_files_that_hold_no_plan_are_named(magis: Magis, made: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for command in (("report", broken), ("diff", broken, made / "tight.json")):
        assert_user_error(magis(*command), "broken.json:1:2")
    missing = tmp_path / "missing.json"
    assert_user_error(magis("report", missing, "-o", tmp_path / "a.html"), "no such file")
