"""What a plan did, told from its program alone."""

from __future__ import annotations

import pytest
import viewer_plans

from magis import _core
from magis.report.edits import find_edits

GRAPH = """\
magis 1
device cpu
site @1 "act" "model.py:3"
batch %x "[0]" : f32[8]

%a = aten.exp(%x) : f32[8] @1
%b = aten.sin(%x) : f32[8]
%c = aten.cos(%x) : f32[8]
%d = aten.mul.Tensor(%a, %b) : f32[8]
%e = aten.mul.Tensor(%d, %a) : f32[8]

output aux "c" %c
output aux "e" %e
"""
PROGRAM_ORDER = "run %a\nrun %b\nrun %c\nrun %d over %b\nrun %e over %d\nfree %a\n"


def edits_of(program: str) -> list[dict[str, object]]:
    plan = _core.Plan.parse(f"{GRAPH}\nprogram\n{program}")
    plan.verify()
    before = _core.Plan.program_order(plan.graph).simulate("cpu")
    return find_edits(plan, before, plan.simulate("cpu"))


def test_program_order_is_no_edit() -> None:
    assert edits_of(PROGRAM_ORDER) == []


def test_the_fewest_moves_that_explain_the_order() -> None:
    # c from the middle to the front: one operator moved, although three stand elsewhere.
    program = "run %c\nrun %a\nrun %b\nrun %d over %b\nrun %e over %d\nfree %a\n"
    assert edits_of(program) == [{"kind": "reorder", "moved": 1, "operators": 5}]


def test_a_recomputed_operator() -> None:
    program = (
        "run %a\nrun %b\nrun %c\nrun %d over %b\nfree %a\n"
        "run %a as .1\nrun %e reading %a.1 over %d\nfree %a.1\n"
    )
    (edit,) = edits_of(program)
    seconds = edit.pop("seconds")
    assert edit == {
        "kind": "recompute",
        "operator": "aten.exp",
        "tensor": "a",
        "module": "act",
        "source": "model.py:3",
        "times": 1,
        "bytes": 32,
        "parts": 1,
    }
    exp = _core.Plan.program_order(_core.Graph.parse(GRAPH)).simulate("cpu").timeline[0]
    assert seconds == pytest.approx(exp.end - exp.start)


WHOLE = """\
magis 1
device cpu
param %w "w" : f32[16,16]
batch %x "[0]" : f32[8,16]
%h = aten.exp(%x) : f32[8,16]
%k = aten.sin(%x) : f32[8,16]
%m = aten.mm(%h, %w) : f32[8,16]
%r = aten.relu(%m) : f32[8,16]
%z = aten.sum(%r) : f32[]
%q = aten.sum(%k) : f32[]
output loss "" %z
output aux "q" %q
"""

# %r and %z in parts of 3; %k after them.
SPLIT = """\
magis 1
device cpu
param %w "w" : f32[16,16]
batch %x "[0]" : f32[8,16]
%h = aten.exp(%x) : f32[8,16]
%m = aten.mm(%h, %w) : f32[8,16]
%z = magis.begin("r1", 3, 8, [%m]) : f32[]
%m_slice = magis.part(%m, 0, 1*r1) : f32[3,16]/512
%r = aten.relu(%m_slice) : f32[3,16]
%z_part = aten.sum(%r) : f32[]
%z_written = magis.add_part(%z, %z_part) : none
%r1_end = magis.end("r1", [%z], [%m]) : none
%k = aten.sin(%x) : f32[8,16]
%q = aten.sum(%k) : f32[]
output loss "" %z
output aux "q" %q
"""


def test_a_split_region() -> None:
    before = _core.Plan.program_order(_core.Graph.parse(WHOLE)).simulate("cpu")
    plan = _core.Plan.program_order(_core.Graph.parse(SPLIT))
    edits = find_edits(plan, before, plan.simulate("cpu"))
    # %k moved; %z is no operator any more, but the result of the loop. The peak was at %m, beside
    # %h and %k: what is made in the loop came after it.
    assert edits == [
        {"kind": "reorder", "moved": 1, "operators": 6},
        {
            "kind": "split",
            "loop": "r1",
            "part": 3,
            "length": 8,
            "parts": 3,
            "operators": 2,
            "whole_bytes": 0,
            "part_bytes": 0,
            "held": [],
        },
    ]


# %h is 8 * 16 * 4 = 512 bytes: it leaves once and comes back twice, the second time for %q.
SWAPS = """\
magis 1
device cpu
site @1 "net.act" "net.py:3"
batch %x "[0]" : f32[8,16]
%h = aten.exp(%x) : f32[8,16] @1
%k = aten.sin(%h) : f32[8,16]
%q = aten.mul.Tensor(%k, %h) : f32[8,16]
%r = aten.sub.Tensor(%q, %h) : f32[8,16]
output loss "" %r
program
run %h
store %h
run %k
await %h
free %h
load %h as .1
await %h.1
run %q reading %h.1 over %k
free %h.1
load %h as .2
await %h.2
run %r reading %h.2 over %q
free %h.2
"""


def test_a_tensor_that_leaves_for_the_host() -> None:
    plan = _core.Plan.parse(SWAPS)
    plan.verify()
    after = plan.simulate("reference")
    (edit,) = find_edits(plan, _core.Plan.program_order(plan.graph).simulate("reference"), after)
    # A copy under this profile: 5 us and 512 bytes at 12.3e9 bytes a second; three of them.
    copy_seconds = 5e-6 + 512 / 12.3e9
    assert edit.pop("seconds") == pytest.approx(3 * copy_seconds)
    assert edit == {
        "kind": "swap",
        "operator": "aten.exp",
        "tensor": "h",
        "module": "net.act",
        "source": "net.py:3",
        "times": 2,
        "bytes": 512,
        "parts": 1,
    }
    assert after.copy_seconds == pytest.approx(3 * copy_seconds)
    assert (after.bytes_to_host, after.bytes_to_device) == (512, 1024)
    assert (after.host_peak_bytes, plan.host_bytes) == (512, 512)
    # %k's 5 us and some hide all but the rest of the store's; the loads hide behind nothing.
    assert copy_seconds * 2 < after.exposed_seconds < copy_seconds * 3
    assert [(point.kind, point.tensor) for point in after.copies] == [
        ("store", "h"),
        ("load", "h.1"),
        ("load", "h.2"),
    ]
    assert all(point.end - point.start == pytest.approx(copy_seconds) for point in after.copies)


def test_what_runs_in_parts_is_told_of_a_whole_step() -> None:
    plan = viewer_plans.split_bert()  # it recomputes and swaps inside its loop
    after = plan.simulate("cpu")
    edits = find_edits(plan, _core.Plan.program_order(plan.graph).simulate("cpu"), after)
    again = [edit for edit in edits if edit["kind"] == "recompute"]
    swaps = [edit for edit in edits if edit["kind"] == "swap"]
    assert {edit["parts"] for edit in (*again, *swaps)} >= {2}
    costs: dict[str, float] = {}
    ran = [point.result for point in after.timeline if point.operator not in BOUNDS]
    for result, (_, seconds) in zip(ran, plan.run_costs("cpu"), strict=True):
        name, _, copy = result.partition(".")
        if copy:
            costs[name] = costs.get(name, 0.0) + seconds
    runs = [point.result for point in after.timeline]
    assert {edit["tensor"]: edit["seconds"] for edit in again} == pytest.approx(costs)
    for edit in again:
        extra = sum(result.startswith(edit["tensor"] + ".") for result in runs)
        assert edit["times"] == edit["parts"] * extra
    assert sum(edit["seconds"] for edit in swaps) == pytest.approx(after.copy_seconds)
    moved = sum(edit["times"] * edit["bytes"] for edit in swaps)
    assert moved == pytest.approx(after.bytes_to_device)


BOUNDS = ("magis.begin", "magis.end")
