"""Plans in words: every figure is held to programs counted by hand or by the plan verifier."""

from __future__ import annotations

import copy
import json
import pickle
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from magis import _core
from magis.errors import PlanError
from magis.report import Explanation, Report, explain
from magis.report.text import printable
from magis.verify import verify_plan

Item = dict[str, Any]


def of_kind(items: list[Item], kind: str) -> list[Item]:
    return [item for item in items if item["kind"] == kind]


def rendered(items: list[Item], width: int = 100) -> str:
    console = Console(file=StringIO(), width=width, markup=False, emoji=False, highlight=False)
    console.print(Explanation(items))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def chain(length: int, modules: int = 4, side: int = 64) -> str:
    """`length` activations, each in a module of its own, read again in reverse order."""
    shape = f"f32[{side},{side}]"
    lines = ["magis 1", "device cpu"]
    lines += [f'site @{i + 1} "net.layer.{i}" "net.py:{i}"' for i in range(modules)]
    lines += [f'batch %x "[0]" : {shape}', f"%a0 = aten.tanh(%x) : {shape} @1"]
    lines += [
        f"%a{i} = aten.tanh(%a{i - 1}) : {shape} @{i % modules + 1}" for i in range(1, length)
    ]
    lines.append(f"%g{length} = aten.mm(%a{length - 1}, %x) : {shape} backward")
    lines += [
        f"%g{i} = aten.mul.Tensor(%g{i + 1}, %a{i}) : {shape} backward"
        for i in reversed(range(length))
    ]
    return "\n".join([*lines, 'output grad "[0]" %g0']) + "\n"


# Every tensor is 1,024 bytes, and so is the batch. In program order %a, %b, %c, %d live when %d is
# made. The plan makes %a again for %e: it holds %b, %c, %d when %d is made, then %d, %a.1, %e.
GRAPH = """\
magis 1
device cpu
site @1 "net.layer.0.act" "net.py:3"
batch %x "[0]" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16] @1
%b = aten.mm(%a, %x) : f32[16,16]
%c = aten.mm(%b, %x) : f32[16,16]
%d = aten.mm(%c, %b) : f32[16,16]
%e = aten.mm(%d, %a) : f32[16,16] backward
output loss "" %e
"""
PLAN = f"""\
{GRAPH}
program
run %a
run %b
free %a
run %c
run %d
free %c, %b
run %a as .1
run %e reading %a.1
free %d, %a.1
"""


# The same plan with %a on the host while %b, %c, %d are live.
SWAP = PLAN.replace("run %b\n", "store %a\nrun %b\nawait %a\n").replace(
    "run %a as .1\n", "load %a as .1\nawait %a.1\n"
)


def test_a_recomputed_operator_counted_by_hand() -> None:
    plan = _core.Plan.parse(PLAN)
    plan.verify()
    items = explain(plan, "cpu")
    timeline = plan.simulate("cpu").timeline
    seconds = timeline[0].end - timeline[0].start
    all_seconds = timeline[-1].end
    start, step, group, peak = items
    assert start == {
        "kind": "start",
        "source": "the graph in program order",
        "peak_bytes": 5 * 1024,
        "seconds": pytest.approx(all_seconds - seconds),
    }
    assert step == {
        "kind": "step",
        "by": "recompute",
        "peak_bytes": 4 * 1024,
        "seconds": pytest.approx(all_seconds),
        "saved_bytes": 1024,
        "cost_seconds": pytest.approx(seconds),
    }
    assert group == {
        "kind": "recompute",
        "operator": "aten.mm",
        "module": "net.layer.0.act",
        "tensors": 1,
        "times": 1,
        "bytes": 1024,
        "parts": 1,
        "between": "forward and backward",
        "peak_without_bytes": 5 * 1024,
        "saved_bytes": 1024,
        "cost_seconds": pytest.approx(seconds),
    }
    assert peak["bytes"] == 4 * 1024
    assert peak["operator"] == "aten.mm"
    # The first of the two moments: %b and %c are of one kind.
    assert [(row["name"], row["tensors"], row["bytes"]) for row in peak["tensors"]] == [
        ("b", 2, 2048),
        ("d", 1, 1024),
    ]


def found(text: str, share: float, device: str, **options: Any) -> tuple[_core.Result, Report]:
    graph = _core.Graph.parse(text)
    most = int(share * _core.Plan.program_order(graph).simulate(device).peak_bytes)
    result = _core.optimize(
        graph, device=device, memory_limit=most, time_budget=5.0, state_budget=3000, **options
    )
    report = Report.build(result, device=device, limit_text="some", replayed="no")
    return result, report


def names_of(plan: _core.Plan, group: Item) -> tuple[list[str], list[str]]:
    """What to undo, found again from the program's text."""
    told = {tensor.name: tensor for tensor in plan.graph.tensors}
    program = plan.text().partition("\nprogram\n")[2]
    recompute = group["kind"] == "recompute"
    names = set()
    for line in program.splitlines():
        words = line.split()
        if words[0] == ("run" if recompute else "load") and words[2:3] == ["as"]:
            names.add(words[1].removeprefix("%"))
    fitting = sorted(
        name
        for name in names
        if told[name].operator == group["operator"] and _starred(told[name].module, group["module"])
    )
    return (fitting, []) if recompute else ([], fitting)


def _starred(module: str, pattern: str) -> bool:
    parts, stars = module.split("."), pattern.split(".")
    return len(parts) == len(stars) and all(
        star in (part, "*") for part, star in zip(parts, stars, strict=True)
    )


@pytest.mark.parametrize(
    ("device", "host_memory"), [("cpu", 0), ("reference", None), ("rtx3090", None), ("cpu", 2**30)]
)
def test_figures_agree_with_an_independent_count(device: str, host_memory: int | None) -> None:
    result, report = found(chain(24), 0.45, device, fission=False, host_memory=host_memory)
    items = report.explain().items
    groups = of_kind(items, "recompute") + of_kind(items, "swap")
    assert groups
    everything: tuple[list[str], list[str]] = ([], [])
    for group in groups:
        runs, swaps = names_of(result.plan, group)
        assert len(runs) + len(swaps) == group["tensors"]
        undone = result.plan.without(runs=runs, swaps=swaps)
        counted = verify_plan(undone.text(), device=device).peak_bytes
        assert group["peak_without_bytes"] == counted
        assert group["saved_bytes"] == counted - result.peak_bytes
        assert group["cost_seconds"] == pytest.approx(
            result.seconds - undone.simulate(device).seconds, abs=1e-12
        )
        everything[0].extend(runs)
        everything[1].extend(swaps)
    steps = of_kind(items, "step")
    (start,) = of_kind(items, "start")
    program_order = _core.Plan.program_order(result.source)
    assert start["peak_bytes"] == verify_plan(program_order.text(), device=device).peak_bytes
    assert steps[-1]["peak_bytes"] == result.peak_bytes == report.promised_peak_bytes
    assert start["peak_bytes"] - sum(s["saved_bytes"] for s in steps) == result.peak_bytes
    assert start["seconds"] + sum(s["cost_seconds"] for s in steps) == pytest.approx(result.seconds)
    # Nothing recomputed or swapped, the order as it is.
    order_alone = result.plan.without(runs=everything[0], swaps=everything[1])
    assert " as ." not in order_alone.text()
    reached = verify_plan(order_alone.text(), device=device).peak_bytes
    by = {step["by"]: step for step in steps}
    assert start["peak_bytes"] - by.get("reorder", {"saved_bytes": 0})["saved_bytes"] == reached


def test_swaps_are_hidden_or_waited_for() -> None:
    result, report = found(chain(24, side=512), 0.45, "rtx3090", fission=False)
    swaps = of_kind(report.explain().items, "swap")
    assert swaps
    total = sum(group["copy_seconds"] for group in swaps)
    assert total == pytest.approx(result.plan.simulate("rtx3090").copy_seconds)
    for group in swaps:
        exposed = group["copy_seconds"] - group["hidden_seconds"]
        assert exposed == pytest.approx(max(0.0, group["cost_seconds"]), abs=1e-9)
    assert ", all hidden\n" in str(report.explain())
    # A CPU waits for every copy: nothing is hidden.
    items = explain(_core.Plan.parse(SWAP), "cpu")
    (group,) = of_kind(items, "swap")
    assert group["hidden_seconds"] == 0
    # To the host and back: 5 us and 1,024 bytes at 5e9 bytes a second, twice.
    assert group["copy_seconds"] == pytest.approx(2 * (5e-6 + 1024 / 5e9))
    assert group["cost_seconds"] == pytest.approx(group["copy_seconds"])
    assert (group["bytes"], group["saved_bytes"]) == (1024, 1024)
    assert ", 0 s hidden\n" in str(Explanation(items))


def test_what_stands_at_the_new_peak_adds_up_to_it() -> None:
    for share in (0.9, 0.6, 0.45):
        result, report = found(chain(30), share, "cpu", fission=False, host_memory=0)
        (peak,) = of_kind(report.explain().items, "peak")
        rows = sum(row["bytes"] for row in peak["tensors"]) + peak["other_bytes"]
        persistent = sum(row["bytes"] for row in peak["persistent"])
        assert persistent == peak["persistent_bytes"]
        assert persistent + rows + peak["workspace_bytes"] == peak["bytes"] == result.peak_bytes


# %h, %m, %r, %z are 4,096 bytes but %z, which is 4: 64 rows of 16 floats.
SPLITTABLE = """\
magis 1
device cpu
site @1 "net.first" "net.py:1"
site @2 "net.second" "net.py:2"
param %w "w" : f32[16,16]
batch %x "['pixels']" : f32[64,16]
%h = aten.mm(%x, %w) : f32[64,16] @1
%k = aten.mm(%h, %w) : f32[64,16] @2
%m = aten.mm(%k, %w) : f32[64,16] @2
%p = aten.mul.Tensor(%m, %h) : f32[64,16] @2 backward
%q = aten.mul.Tensor(%p, %k) : f32[64,16] @2 backward
%z = aten.sum(%q) : f32[] @2 backward
output loss "" %z
"""


def test_a_region_in_parts_counted_by_hand() -> None:
    graph = _core.Graph.parse(SPLITTABLE)
    result = _core.optimize(
        graph, device="cpu", latency_limit=1.0, batch_parts=16, time_budget=1.0, host_memory=0
    )
    report = Report.build(result, device="cpu", limit_text="some", replayed="no")
    items = report.explain().items
    (split,) = of_kind(items, "split")
    assert (split["parts"], split["part"], split["length"], split["operators"]) == (16, 4, 64, 6)
    assert split["axis"]["tensor"] == "x"
    assert (split["axis"]["kind"], split["axis"]["dimension"]) == ("batch", 0)
    assert (split["first"]["module"], split["last"]["operator"]) == ("net.first", "aten.sum")
    # At the old peak %h, %k, %m: 3 x 4,096; 4 of 64 rows of these are 3 x 256.
    assert (split["whole_bytes"], split["part_bytes"]) == (3 * 4096, 3 * 256)
    assert [
        (g["module"], g["tensors"], g["whole_bytes"], g["part_bytes"]) for g in split["held"]
    ] == [
        ("net.second", 2, 2 * 4096, 2 * 256),
        ("net.first", 1, 4096, 256),
    ]
    assert (split["concatenated_bytes"], split["combined_bytes"]) == (0, 4)
    (step,) = [item for item in of_kind(items, "step") if item["by"] == "split"]
    # Parameter 1,024 and batch 4,096 stay. Before: 3 x 4,096 more. Now %z, which the loop adds up.
    (start,) = of_kind(items, "start")
    assert start["peak_bytes"] == 1024 + 4096 + 3 * 4096
    assert step["peak_bytes"] == 1024 + 4096 + 3 * 256 + 4
    assert step["saved_bytes"] == 3 * 4096 - 3 * 256 - 4
    text = str(report.explain())
    assert "r1: batch axis of %x (64), 16 parts of 4" in text
    assert "6 operators, from aten.mm of net.first to aten.sum of net.second (backward)" in text
    assert "of what stood at the old peak, 12.00 KiB are made in it, and are 768 B now:" in text


# r1 walks 4 of 8 rows, r2 inside it 1 of these.
NESTED = """\
magis 1
device cpu
site @1 "net.head" "net.py:7"
param %w "w" : f32[6,10]
batch %x "[0]" : f32[8,6]
%y = magis.begin("r1", 4, 8, []) : f32[8,10]
%xp = magis.part(%x, 0, 1*r1) : f32[4,6]/192
%yr = magis.begin("r2", 1, 1*r1, []) : f32[4,10]
%xq = magis.part(%xp, 0, 1*r2) : f32[1,6]/192
%mm = aten.mm(%xq, %w) : f32[1,10] @1
%yq = aten.relu(%mm) : f32[1,10] @1
%n2 = magis.write_part(%yr, 0, 1*r2, %yq) : none @1
%e2 = magis.end("r2", [%yr], []) : none
%n1 = magis.write_part(%y, 0, 1*r1, %yr) : none @1
%e1 = magis.end("r1", [%y], []) : none
output aux "" %y
"""


def test_loops_inside_loops() -> None:
    items = explain(_core.Plan.program_order(_core.Graph.parse(NESTED)), "cpu")
    outer, inner = of_kind(items, "split")
    assert (outer["loop"], outer["inside"], outer["parts"], outer["part"]) == ("r1", "", 2, 4)
    assert (inner["loop"], inner["inside"], inner["parts"], inner["part"]) == ("r2", "r1", 4, 1)
    assert (outer["operators"], inner["operators"]) == (2, 2)
    # Without a report nobody knows what stood at the old peak.
    assert "whole_bytes" not in outer
    assert (outer["concatenated_bytes"], inner["concatenated_bytes"]) == (8 * 10 * 4, 4 * 10 * 4)
    text = str(Explanation(items))
    assert "r1: batch axis of %x (8), 2 parts of 4\n" in text
    assert (
        "r2: dimension 0 of a view of %x f32[8,6], [0] (4), 4 parts of 1, inside every part of r1"
        in text
    )
    assert "the split graph in program order" in text


def test_nothing_done_is_said() -> None:
    plan = _core.Plan.program_order(_core.Graph.parse(GRAPH))
    items = explain(plan, "cpu")
    assert [item["kind"] for item in items] == ["start", "peak"]
    text = str(Explanation(items))
    assert text.startswith("Nothing was changed\n  5.00 KiB")
    assert rendered(items).startswith("Nothing was changed\n")


def test_a_limit_that_is_not_met() -> None:
    result, report = found(chain(24), 0.05, "cpu", fission=False, host_memory=0)
    assert not result.met
    text = str(report.explain())
    assert "The limit is not met: some. This is the best plan found\n" in text
    (bound,) = of_kind(report.explain().items, "bound")
    assert bound["bytes"] == result.lower_bound_bytes
    assert bound["above_bytes"] == result.peak_bytes - result.lower_bound_bytes
    result, report = found(chain(24), 0.9, "cpu", fission=False, host_memory=0)
    assert "not met" not in str(report.explain())


def test_a_measured_baseline_is_a_step_of_its_own() -> None:
    graph = _core.Graph.parse(GRAPH)
    result = _core.optimize(graph, device="cpu", latency_limit=1.0, time_budget=0.1)
    report = Report.build(
        result,
        device="cpu",
        limit_text="some",
        replayed="no",
        measured_baseline_bytes=5000,
    )
    items = report.explain().items
    (start,) = of_kind(items, "start")
    assert (start["source"], start["peak_bytes"]) == ("eager, measured", 5000)
    first = of_kind(items, "step")[0]
    assert (first["by"], first["saved_bytes"]) == ("capture", 5000 - 5120)


ODD = 'a"b\\c[bold].%d {x} é\t[/bold].0'


def test_names_with_odd_characters() -> None:
    quoted = json.dumps(ODD, ensure_ascii=False)
    text = PLAN.replace('"net.layer.0.act"', quoted)
    plan = _core.Plan.parse(text)
    items = explain(plan, "cpu")
    (group,) = of_kind(items, "recompute")
    assert group["module"] == ODD
    assert printable(ODD) in str(Explanation(items))
    squeezed = "".join(rendered(items).split())
    assert "".join(printable(ODD).split()) in squeezed  # no markup
    json.dumps(items, allow_nan=False)


def test_groups_of_six_thousand_operators_are_few() -> None:
    # 3,000 modules that no number tells apart: as many groups as there can be.
    text = chain(3000, modules=3000, side=8)
    for digit, letter in enumerate("abcdefghij"):
        head, mark, tail = text.partition("batch %x")
        text = head.replace(f'{digit}" ', f'{letter}" ') + mark + tail
    graph = _core.Graph.parse(text)
    most = int(0.8 * _core.Plan.program_order(graph).simulate("cpu").peak_bytes)
    result = _core.optimize(
        graph,
        device="cpu",
        memory_limit=most,
        time_budget=60.0,
        state_budget=400_000,
        fission=False,
        host_memory=0,
    )
    assert result.recomputed > 100
    report = Report.build(result, device="cpu", limit_text="some", replayed="no")
    explanation = report.explain()
    rendered(explanation.items)
    groups = of_kind(explanation.items, "recompute")
    assert sum(group["tensors"] for group in groups) == result.recomputed
    assert len(groups) <= 40


def test_a_report_without_its_plan() -> None:
    _, report = found(chain(12), 0.6, "cpu", fission=False, host_memory=0)
    saved = report.to_json()
    assert "plan" not in saved
    again = Report.from_json(json.loads(json.dumps(saved)))
    assert again == report == pickle.loads(pickle.dumps(report))
    assert copy.deepcopy(report) == report
    with pytest.raises(PlanError, match="inspect --explain"):
        again.explain()
