"""The page's numbers, counted from its own data, are the plan's."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from page_support import DEVICE, live_by_kind, planned, totals, words, zoo_graph

from magis import _core
from magis.errors import MissingExtraError, PlanError
from magis.report import Report, explain
from magis.report.page import html as page_html
from magis.report.page import page_text, report_data
from magis.report.page.html import read_data
from magis.report.sentences import sentences
from magis.report.text import bytes_text

SIX_MB = 6_000_000

UPDATE = """\
magis 1
device cpu
site @1 "net" "optimizer SGD"
site @2 "net" "net.py:1"
param %w "net.w" : f32[256]
state %m "net.w.momentum" : f32[256]
buffer %b "net.b" : f32[256]
batch %x "[0]" : f32[256]
%mask = aten.bernoulli(%x) : f32[256] @2
%y = aten.mul.Tensor(%w, %mask) : f32[256] @2
%s = aten.add.Tensor(%y, %b) : f32[256] @2
%g0 = aten.mul.Tensor(%s, %mask) : f32[256] @2 backward scratch 4096
%g = aten.mul.Tensor(%g0, %y) : f32[256] @2 backward
%v = aten.add.Tensor(%m, %g) : f32[256] @1 backward
%n = aten.sub_.Tensor(%w, %v) : none @1 backward
output loss "" %s
output param "net.w" %w
"""


@pytest.fixture(scope="module")
def unet() -> tuple[_core.Plan, Report]:
    return planned(zoo_graph("unet", "tiny"), 0.6)


def test_numbers_are_the_plans(unet: tuple[_core.Plan, Report]) -> None:
    plan, report = unet
    data = read_data(page_text(report_data(plan, DEVICE, report, report.captured)))
    before, after = data["runs"]
    simulation = plan.simulate(DEVICE)
    assert after["peak_bytes"] == report.promised_peak_bytes == max(totals(after))
    assert before["peak_bytes"] == report.captured_peak_bytes == max(totals(before))
    assert totals(after)[after["peak"]] == after["peak_bytes"]
    assert after["seconds"] == report.seconds == pytest.approx(after["moments"]["end"][-1])
    assert before["seconds"] == report.captured_seconds
    assert after["host_peak_bytes"] == report.host_bytes
    assert after["exposed_seconds"] == report.exposed_seconds
    assert after["copies"]["start"] == [copy.start for copy in simulation.copies]
    ran = [m for m, kind in enumerate(after["moments"]["kind"]) if kind == 0]
    assert [after["moments"]["live"][m] for m in ran] == [
        point.live_bytes for point in simulation.timeline
    ]
    names = words(data, after, "operators", "name")
    run = [names[after["moments"]["operator"][m]] for m in ran]
    assert run == [point.result.partition(".")[0] for point in simulation.timeline]
    for run_columns in data["runs"]:
        peak = run_columns["peak"]
        assert sum(live_by_kind(data, run_columns, peak)) == run_columns["peak_bytes"]
    lines = {line["name"]: line["bytes"] for line in data["lines"]}
    assert lines == {"limit": report.limit_bytes, "lower bound": report.lower_bound_bytes}
    assert data["items"][-1]["kind"] == "bound"
    assert data["search"]["peak_bytes"][-1] == report.promised_peak_bytes


def test_without_scripts_there_are_curves_facts_and_sentences(
    unet: tuple[_core.Plan, Report],
) -> None:
    plan, report = unet
    data = report_data(plan, DEVICE, report, report.captured)
    page = re.sub("<script.*?</script>", "", page_text(data), flags=re.DOTALL)
    assert page.count("<path d=") == 2
    assert bytes_text(report.promised_peak_bytes) in page
    assert report.limit in page
    for decision in data["decisions"]:
        assert html.escape(decision["text"]) in page


def test_what_moves_is_what_the_report_says(unet: tuple[_core.Plan, Report]) -> None:
    plan, report = unet
    data = report_data(plan, DEVICE, report, report.captured)
    moved = [edit for edit in report.edits if edit["kind"] in ("recompute", "swap")]
    assert moved
    told = [{key: row[key] for key in moved[0]} for row in data["moved"]]
    assert told == moved
    assert all(0 <= row["distance"] < report.seconds for row in data["moved"])
    assert any(row["distance"] > 0 for row in data["moved"])


def test_each_decision_has_a_sentence_of_its_own(unet: tuple[_core.Plan, Report]) -> None:
    plan, report = unet
    items = [
        item for item in explain(plan, DEVICE, report) if item["kind"] in ("recompute", "swap")
    ]
    texts = [d["text"] for d in report_data(plan, DEVICE, report)["decisions"]]
    said = [text for text in texts if text.startswith(("Recomputing ", "Keeping "))]
    steps = [text for text in said if " off the peak" in text]
    assert len(said) == len(items) + len(steps)
    assert all(text.endswith(".") for text in texts)


def test_kinds_of_a_step_with_its_optimizer() -> None:
    plan = _core.Plan.program_order(_core.Graph.parse(UPDATE, "graph"))
    data = report_data(plan, "cpu")
    (run,) = data["runs"][1:]
    kinds = dict(
        zip(
            words(data, run, "tensors", "name"),
            (data["kinds"][kind] for kind in run["tensors"]["kind"]),
            strict=True,
        )
    )
    assert kinds == {
        "w": "parameters",
        "m": "optimizer",
        "b": "batch, buffers, outputs",
        "x": "batch, buffers, outputs",
        "mask": "masks",
        "y": "activations",
        "s": "batch, buffers, outputs",
        "g0": "backward temporaries",
        "g": "gradients",
        "v": "optimizer",
    }
    # %g0's moment: w, m, b, x, y, s of 1,024 bytes each, g0 where the mask was, 4,096 of scratch.
    by_kind = live_by_kind(data, run, 3)
    assert by_kind == [1024, 1024, 3 * 1024, 0, 1024, 1024, 0, 4096]
    assert run["peak"] == 3
    owners = dict(
        zip(words(data, run, "tensors", "name"), words(data, run, "tensors", "module"), strict=True)
    )
    assert (owners["w"], owners["m"], owners["b"], owners["x"]) == ("net", "net", "net", "")


def test_a_loop_has_a_gain_and_a_price() -> None:
    plan, report = planned(zoo_graph("mlp", "tiny"), 0.7, batch_parts=2, rewrite=False)
    data = report_data(plan, DEVICE, report, report.captured)
    splits = [edit for edit in report.edits if edit["kind"] == "split"]
    items = [item for item in data["items"] if item["kind"] == "split"]
    assert [item["loop"] for item in items] == [edit["loop"] for edit in splits]
    assert items
    for item, edit in zip(items, splits, strict=True):
        assert item["whole_bytes"] == edit["whole_bytes"]
        assert item["axis_text"]
        # Launching twice takes longer than launching once; whole, its time is that of these names.
        assert item["price"]["part_seconds"] > item["price"]["whole_seconds"] > 0


def test_without_the_captured_graph_a_split_plan_stands_alone() -> None:
    plan, report = planned(zoo_graph("gpt-neo", "tiny"), 0.7)
    assert plan.graph.altered
    data = report_data(plan, DEVICE, report)
    assert [run["label"] for run in data["runs"]] == ["after"]
    assert read_data(page_text(data))["runs"][0]["peak_bytes"] == report.promised_peak_bytes


def test_names_cannot_leave_their_place() -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\\u202e"
    text = UPDATE.replace('"net.py:1"', '"<b>&\\u001b[31m.py:1"').replace(
        'site @2 "net"', f'site @2 "{evil}"'
    )
    plan = _core.Plan.program_order(_core.Graph.parse(text, "graph"))
    page = page_text(report_data(plan, "cpu", title=evil))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    data = read_data(page)
    assert any("<img src=x onerror=alert(2)>" in entry for entry in data["texts"])
    assert not any(re.search("[\x00-\x1f\u202e]", entry) for entry in data["texts"])


def test_without_plotly_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    page_html._library.cache_clear()
    plan = _core.Plan.program_order(_core.Graph.parse(UPDATE, "graph"))
    data = report_data(plan, "cpu")
    monkeypatch.setattr(page_html.resources, "files", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'magis\[report\]'"):
        page_text(data)


def test_a_report_writes_its_page(tmp_path: Path, unet: tuple[_core.Plan, Report]) -> None:
    _, report = unet
    page = tmp_path / "report.html"
    report.html(page)
    assert page.stat().st_size <= SIX_MB
    assert read_data(page.read_text())["runs"][1]["peak_bytes"] == report.promised_peak_bytes
    page.chmod(0o444)
    with pytest.raises(PlanError, match=r"report\.html: the page cannot be written"):
        report.html(page)
    with pytest.raises(PlanError, match="no plan to show"):
        Report.from_json(report.to_json()).html(tmp_path / "other.html")


def test_sentences_say_the_figures() -> None:
    split, report = planned(zoo_graph("mlp", "tiny"), 0.01, batch_parts=2)
    items = explain(split, DEVICE, report)
    said: dict[str, list[str]] = {}
    for kind, text in sentences(items):
        said.setdefault(kind, []).append(text)
    for item in items:
        if item["kind"] == "split":
            assert any(f"in {item['parts']} parts along the batch axis" in t for t in said["split"])
        if item["kind"] == "rewrite":
            assert any(
                f"{item['rule']} was applied {item['times']} time" in t for t in said["rewrite"]
            )
        if item["kind"] == "step" and item["saved_bytes"]:
            assert any(bytes_text(abs(item["saved_bytes"])) in text for text in said["step"])
    assert not report.met
    assert said["limit"] == [f"The limit is not met ({report.limit}); this is the best plan found."]
    assert bytes_text(report.lower_bound_bytes) in said["bound"][0]
    assert said["split"]
