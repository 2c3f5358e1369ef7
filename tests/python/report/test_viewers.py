"""Files for PyTorch's memory viewer and for Perfetto: they show what the simulator counts."""

from __future__ import annotations

import copy
import json
import pickle
import pickletools
import random
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path

import pytest
import viewer_plans
from snapshot_format import assert_no_overlap, peak_of
from torch.cuda import _memory_viz
from trace_format import Counters, events_of, nanoseconds, slices

from magis import _core
from magis.errors import PlanError
from magis.report import Report
from magis.report.memory import WORKSPACE
from magis.report.viewers.addresses import place
from magis.report.viewers.drawing import FRAMES
from magis.report.viewers.files import facts_of, write_snapshot, write_trace
from magis.report.viewers.predicted import predicted
from magis.report.viewers.record import DEVICE, HOST, Block, Place, Record
from magis.report.viewers.snapshot import pickled, snapshot
from magis.report.viewers.trace import trace_text

PLANS: dict[str, tuple[Callable[[], _core.Plan], str]] = {
    "swapping": (viewer_plans.swapping_bert, "reference"),
    "swapping, on a CPU": (viewer_plans.swapping_bert, "cpu"),
    "split": (viewer_plans.split_bert, "cpu"),
    "split, in blocks of 512 bytes": (viewer_plans.split_bert, "a100"),
    "by hand": (lambda: _core.Plan.program_order(_core.Graph.parse(viewer_plans.LOOP)), "cpu"),
}


@pytest.fixture(params=PLANS)
def planned(request: pytest.FixtureRequest) -> tuple[_core.Plan, str]:
    make, device = PLANS[request.param]
    return make(), device


def assert_counters_equal(plan: _core.Plan, device: str, text: str) -> None:
    """At every operator, in every part of every loop."""
    events = events_of(text)
    counters = Counters(events)
    simulation = plan.simulate(device)
    points = {point.result: point for point in simulation.timeline}
    ran = [event for event in slices(events) if event["cat"] not in FRAMES]
    names = [event["args"]["result"].split()[0].rstrip(",").removeprefix("%") for event in ran]
    bounds = {"magis.begin", "magis.end"}
    assert set(names) == {n for n, point in points.items() if point.operator not in bounds}
    for name, event in zip(names, ran, strict=True):
        assert event["name"] == points[name].operator
        live = counters.at(DEVICE, nanoseconds(event["ts"]))
        assert live == simulation.persistent_bytes + points[name].live_bytes, event
    assert counters.peak(DEVICE) == simulation.peak_bytes
    assert counters.peak(HOST) <= simulation.host_peak_bytes
    kinds = counters.names() - {DEVICE, HOST}
    for event in ran[:: max(1, len(ran) // 50)]:
        moment = nanoseconds(event["ts"])
        of_kinds = sum(counters.at(kind, moment) for kind in kinds)
        assert of_kinds == counters.at(DEVICE, moment)
    ends = [nanoseconds(e["ts"]) + nanoseconds(e["dur"]) for e in slices(events)]
    assert max(ends) == pytest.approx(1e9 * simulation.seconds, abs=2)


def test_the_trace_is_well_formed_and_its_counters_equal_the_timeline(
    planned: tuple[_core.Plan, str],
) -> None:
    plan, device = planned
    assert_counters_equal(plan, device, trace_text([predicted(plan, device)], {}))


@pytest.mark.parametrize("device", ["cpu", "reference", "rtx3090"])
def test_random_plans(device: str) -> None:
    for plan in viewer_plans.random_plans():
        record = predicted(plan, device)
        assert_counters_equal(plan, device, trace_text([record], {}))
        content = snapshot([record])
        assert peak_of(content["device_traces"][0]) == plan.simulate(device).peak_bytes
        assert_no_overlap(content)


def test_without_loops_operators_and_copies_stand_where_the_simulator_has_them() -> None:
    plan = viewer_plans.swapping_bert()
    simulation = plan.simulate("reference")
    record = predicted(plan, "reference")
    drawn = [s for s in record.slices if s.category not in FRAMES]
    for entry, point in zip(drawn, simulation.timeline, strict=True):
        assert entry.start == pytest.approx(1e9 * point.start, abs=1)
        assert entry.end == pytest.approx(1e9 * point.end, abs=1)
    copies = [s for s in record.slices if s.category == "copy"]
    for entry, copied in zip(copies, simulation.copies, strict=True):
        assert entry.name == f"%{copied.tensor}"
        assert entry.engine == f"copies {'to' if copied.kind == 'store' else 'from'} the host"
        assert entry.start == pytest.approx(1e9 * copied.start, abs=1)
    waited = sum(s.end - s.start for s in record.slices if s.category == "wait")
    assert waited == pytest.approx(1e9 * simulation.exposed_seconds, abs=len(record.slices))


def test_the_snapshot_comes_to_the_promise(planned: tuple[_core.Plan, str]) -> None:
    plan, device = planned
    content = pickle.loads(pickled(snapshot([predicted(plan, device)])))
    assert peak_of(content["device_traces"][0]) == plan.simulate(device).peak_bytes
    assert_no_overlap(content)
    # Some room is lost between blocks, and by beginning each at a multiple of 512.
    live = sum(tensor.is_input for tensor in plan.graph.tensors) + 100
    room = 1.3 * plan.simulate(device).peak_bytes + 512 * live
    assert content["segments"][0]["total_size"] < room


def test_inputs_are_there_from_the_start_and_outputs_to_the_end() -> None:
    plan = viewer_plans.swapping_bert()
    content = snapshot([predicted(plan, "cpu")])
    inputs = [entry for entry in plan.graph.inputs if entry.bytes]
    segment, *first = content["device_traces"][0][: len(inputs) + 1]
    assert segment["action"] == "segment_alloc"
    assert [entry["size"] for entry in first] == [entry.bytes for entry in inputs]
    word = next(e for e in first if "word_embeddings.weight" in e["frames"][0]["name"])
    assert word["category"] == "parameters"
    assert word["frames"][2]["name"] == "bert.embeddings.word_embeddings"
    held = [b for b in content["segments"][0]["blocks"] if b["state"] == "active_allocated"]
    outputs = sum(t.bytes for t in plan.graph.tensors if t.is_output and not t.is_input)
    assert sum(b["requested_size"] for b in held) == plan.graph.persistent_bytes + outputs


def test_pytorchs_own_tools_read_it(planned: tuple[_core.Plan, str]) -> None:
    plan, device = planned
    content = pickle.loads(pickled(snapshot([predicted(plan, device)])))
    page = _memory_viz.trace_plot(copy.deepcopy(content))
    assert "Active Memory Timeline" in page
    assert "Allocator State History" in _memory_viz.segment_plot(copy.deepcopy(content))
    _memory_viz.trace_plot(copy.deepcopy(content), filter_freed=True)
    assert _memory_viz.segsum(content).count("total_allocated") == 1  # it checks its sums
    listed = _memory_viz.trace(content)
    allocated = sum(e["action"] == "alloc" for e in content["device_traces"][0])
    assert listed.count(" = seg_0[") + listed.count(" = MEM[") + listed.count("= a[") <= allocated
    lines = _memory_viz.memory(content, format_flamegraph=str).splitlines()
    sizes = [int(line.rpartition(" ")[2]) for line in lines]
    assert sum(sizes) == content["segments"][0]["total_size"]


# What the script of PyTorch's viewer reads of the pickle format.
READABLE = {
    *("PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINGET", "LONG_BINGET", "NONE"),
    *("NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE", "EMPTY_DICT", "SETITEM", "SETITEMS"),
    *("EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE"),
}


def test_the_viewers_script_can_read_it(planned: tuple[_core.Plan, str]) -> None:
    plan, device = planned
    content = snapshot([predicted(plan, device), predicted(plan, device)])
    used = {opcode.name for opcode, _, _ in pickletools.genops(pickled(content))}
    assert used <= READABLE
    for trace in content["device_traces"]:
        # It fails where there are categories and none is "unknown".
        assert "unknown" in {entry["category"] for entry in trace if "category" in entry}
        # It takes a free that is requested and completed at once for one event.
        for requested, completed in pairwise(trace):
            if requested["action"] == "free_requested":
                assert completed["action"] == "free_completed"
                assert completed["addr"] == requested["addr"]


def test_frames_are_the_models_lines_inside_its_modules() -> None:
    plan = viewer_plans.split_bert()
    content = snapshot([predicted(plan, "cpu")])
    allocated = [e for e in content["device_traces"][0] if e["action"] == "alloc"]
    gelu = next(e for e in allocated if e["frames"][1]["name"] == "aten.gelu")
    tensor, line, *modules = gelu["frames"]
    assert line["filename"].endswith(".py")
    assert line["line"] > 0
    assert modules[0]["name"] == "cls.predictions.transform.transform_act_fn"
    assert modules[-1]["name"] == "cls"
    assert tensor["name"].startswith("%gelu")
    assert tensor["filename"] == gelu["category"]


def test_loops_enclose_their_parts_and_these_their_operators() -> None:
    plan = _core.Plan.program_order(_core.Graph.parse(viewer_plans.LOOP))
    events = events_of(trace_text([predicted(plan, "cpu")], {}))
    named = [event["name"] for event in slices(events)]
    body = ["aten.exp", "aten.sum.dim_IntList", "magis.write_part", "magis.add_part"]
    parts = [[f"r1, part {part} of 3", *body] for part in (1, 2, 3)]
    assert named == ["aten.mm", "aten.relu", "r1: 3 parts", *chain.from_iterable(parts)]
    total = {e["name"]: nanoseconds(e["dur"]) for e in slices(events)}["r1: 3 parts"]
    costs = {call.partition("(")[0]: seconds for call, seconds in plan.run_costs("cpu")}
    assert total == pytest.approx(1e9 * sum(costs[name] for name in body), abs=20)


def test_of_a_loop_too_long_to_draw_the_first_part_is_drawn_and_the_others_are_counted() -> None:
    for plan, device in ((viewer_plans.split_bert(), "cpu"), (viewer_plans.split_bert(), "h100")):
        simulation = plan.simulate(device)
        whole = predicted(plan, device)
        short = predicted(plan, device, most_runs=10)
        assert len(short.slices) < len(whole.slices)
        (rest,) = [s for s in short.slices if s.name.endswith(": like the first")]
        assert rest.name.startswith("r1, parts 2 to ")
        assert max(s.end for s in short.slices) == max(s.end for s in whole.slices)
        assert peak_of(snapshot([short])["device_traces"][0]) == simulation.peak_bytes
        assert_counters_equal(plan, device, trace_text([short], {}))


def test_arrows_lead_from_stores_over_loads_to_what_is_computed_next() -> None:
    for device in ("reference", "cpu"):
        record = predicted(viewer_plans.swapping_bert(), device)
        arrows = [arrow for arrow in record.arrows if arrow.name == "swapped"]
        loads = [s for s in record.slices if s.engine == "copies from the host"]
        assert len(arrows) == len(loads) > 0
        for arrow in arrows:
            stored, loaded, used = (record.slices[stop] for stop in arrow.stops)
            assert stored.engine == "copies to the host"
            assert loaded.engine == "copies from the host"
            assert stored.name.partition(".")[0] == loaded.name.partition(".")[0]
            assert stored.end <= loaded.start
            assert used.engine == "compute"
            assert used.category not in FRAMES
            assert used.start >= loaded.end


def test_arrows_lead_from_producers_to_what_computes_them_again() -> None:
    plan = viewer_plans.split_bert()
    record = predicted(plan, "cpu", most_runs=0)
    arrows = [arrow for arrow in record.arrows if arrow.name == "computed again"]
    assert len(arrows) == len(plan.recomputed()) > 0
    for arrow in arrows:
        made, again = (record.slices[stop] for stop in arrow.stops)
        assert made.name == again.name
        assert again.category == "computed again"
        assert made.end <= again.start


def test_workspace_is_there_while_its_operator_runs() -> None:
    text = viewer_plans.LOOP.replace("f32[8,4] @1\n%y", "f32[8,4] @1 scratch 1000\n%y")
    plan = _core.Plan.program_order(_core.Graph.parse(text))
    record = predicted(plan, "cpu")
    (number,) = [i for i, block in enumerate(record.blocks) if block.kind == WORKSPACE]
    relu = next(s for s in record.slices if s.name == "aten.relu")
    came, went = [change for change in record.changes if change.block == number]
    assert (came.time, went.time) == (relu.start, relu.end)
    assert record.blocks[number].bytes == 1000


def test_places_are_reused_and_never_shared() -> None:
    rng = random.Random(7)
    for _ in range(50):
        record = Record("random")
        live: list[int] = []
        for moment in range(200):
            if live and rng.random() < 0.5:
                record.free(moment, live.pop(rng.randrange(len(live))))
            else:
                size = rng.choice([1, 512, 513, 4096, 100_000])
                block = Block("", "", size, size, Place("", "", ""))
                live.append(record.allocate(moment, block))
        assert_no_overlap(snapshot([record]))
        _, size = place(record)
        assert size < sum(block.bytes + 512 for block in record.blocks) / 2


def test_names_that_would_be_markup_or_obeyed_by_a_terminal() -> None:
    text = viewer_plans.LOOP.replace("net.first", "net.<script>alert(1)</script>;x")
    text = text.replace("net.py:3", "a\x1b[31m.py:3")
    plan = _core.Plan.program_order(_core.Graph.parse(text))
    record = predicted(plan, "cpu")
    events = events_of(trace_text([record], {}))
    mm = next(event for event in slices(events) if event["name"] == "aten.mm")
    assert mm["args"]["module"] == "net.<script>alert(1)</script>;x"  # text, for a viewer
    assert mm["args"]["source"] == "a\\x1b[31m.py:3"
    content = snapshot([record])
    page = _memory_viz.trace_plot(copy.deepcopy(content))
    assert "<script>alert" not in page  # the names are in it as base64
    lines = _memory_viz.memory(content, format_flamegraph=str).splitlines()
    assert all(line.rpartition(" ")[2].isdecimal() for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_a_plan_without_source_lines() -> None:
    text = "\n".join(
        line.replace(" @1", "").replace(" @2", "")
        for line in viewer_plans.LOOP.splitlines()
        if not line.startswith("site")
    )
    plan = _core.Plan.program_order(_core.Graph.parse(text + "\n"))
    record = predicted(plan, "cpu")
    assert_counters_equal(plan, "cpu", trace_text([record], {}))
    content = snapshot([record])
    allocated = next(
        e for e in content["device_traces"][0][1:] if e["frames"][0]["name"].startswith("%a ")
    )
    assert allocated["frames"][1:] == [
        {"name": "aten.mm", "filename": "(no source line)", "line": 0}
    ]
    _memory_viz.memory(content, format_flamegraph=str)


def test_the_peak_of_fifty_thousand_operators(tmp_path: Path) -> None:
    half = 25_000
    shape = "f32[16]"
    lines = ["magis 1", "device cpu", f'batch %x "x" : {shape}', f"%a0 = aten.tanh(%x) : {shape}"]
    lines += [f"%a{i} = aten.tanh(%a{i - 1}) : {shape}" for i in range(1, half)]
    lines.append(f"%g{half} = aten.sin(%a{half - 1}) : {shape} backward")
    lines += [
        f"%g{i} = aten.mul.Tensor(%g{i + 1}, %a{i}) : {shape} backward"
        for i in reversed(range(half))
    ]
    lines.append('output grad "x" %g0')
    plan = _core.Plan.program_order(_core.Graph.parse("\n".join(lines) + "\n"))
    record = predicted(plan, "cpu")
    write_snapshot(tmp_path / "a.pickle", [record])
    write_trace(tmp_path / "a.json", [record], {})
    content = pickle.loads((tmp_path / "a.pickle").read_bytes())
    assert peak_of(content["device_traces"][0]) == plan.simulate("cpu").peak_bytes


def test_a_report_writes_both(tmp_path: Path) -> None:
    found = _core.optimize(
        viewer_plans.tiny_bert(), device="cpu", latency_limit=1.0, state_budget=50
    )
    report = Report.build(found, device="cpu", limit_text="", replayed="")
    report.snapshot(tmp_path / "a.pickle")
    report.trace(tmp_path / "a.json")
    content = pickle.loads((tmp_path / "a.pickle").read_bytes())
    assert peak_of(content["device_traces"][0]) == report.promised_peak_bytes
    text = (tmp_path / "a.json").read_text()
    assert Counters(events_of(text)).peak(DEVICE) == report.promised_peak_bytes
    assert json.loads(text)["otherData"] == facts_of(found.plan, "cpu")
    with pytest.raises(PlanError, match=r"gone/a.json: the trace cannot be written \(No such file"):
        report.trace(tmp_path / "gone" / "a.json")
    with pytest.raises(PlanError, match="no plan to snapshot; `magis export --snapshot` reads it"):
        Report.from_json(report.to_json()).snapshot(tmp_path / "b.pickle")
