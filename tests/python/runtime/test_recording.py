"""Recorded steps: what the hook logs, whose it is, and what a device's allocator tells instead."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from hooked import under_hook

from magis import _core
from magis.errors import MagisError
from magis.measure.hook import LoggedChange
from magis.report.memory import WORKSPACE
from magis.report.viewers.measured import UNPLANNED, Level, Mark, Recording, measured
from magis.report.viewers.record import DEVICE, LIBRARIES, Place
from magis.report.viewers.snapshot import beside, snapshot, with_places
from magis.runtime.compiled import CompiledPlan
from magis.runtime.recording import record_step

needs_hook = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the hook is for Linux"
)

# %a and %b take 128 bytes each, %s 4.
TEXT = """magis 1
device cpu
site @1 "net" "net.py:3"
batch %x "x" : f32[8,4]
%a = aten.exp(%x) : f32[8,4] @1
%b = aten.sin(%a) : f32[8,4] @1
%s = aten.sum(%b) : f32[] @1
output loss "" %s
program
run %a
run %b
free %a
run %s
free %b
"""


@needs_hook
def test_the_log_has_every_block_with_its_time() -> None:
    out = under_hook("""
        import time
        start = time.perf_counter_ns()
        with hook.ChangeLog(100) as log:
            a = torch.empty(1000)
            middle = time.perf_counter_ns()
            b = torch.empty(250)
            del a
        c = torch.empty(10)  # not logged any more
        came, other, went = log.changes()
        print(log.count, log.is_complete, came.bytes, other.bytes, went.bytes)
        print(came.address == went.address != other.address, came.of_tensors)
        print(start < came.nanoseconds < middle < other.nanoseconds < went.nanoseconds)
        print(went.nanoseconds < time.perf_counter_ns())
    """)
    assert out.split() == ["3", "True", "4000", "1000", "-4000", "True", "True", "True", "True"]


@needs_hook
def test_a_log_that_is_too_short_says_so() -> None:
    out = under_hook("""
        with hook.ChangeLog(2) as log:
            blocks = [torch.empty(10) for _ in range(5)]
        print(log.count, log.is_complete)
    """)
    assert out == "5 False"


@needs_hook
def test_a_loop_whose_last_part_is_shorter() -> None:
    folder = str(Path(__file__).parents[1])
    out = under_hook(f"""
        import sys
        sys.path.append({folder!r})
        import viewer_plans
        from magis import _core
        from magis.report.viewers.measured import measured
        from magis.report.viewers.predicted import predicted
        from magis.runtime.compiled import CompiledPlan
        from magis.runtime.recording import record_step
        device = torch.device("cpu")
        plan = _core.Plan.program_order(_core.Graph.parse(viewer_plans.LOOP))
        compiled = CompiledPlan(plan, device)
        inputs = [torch.ones(8, 4), torch.eye(4)]
        compiled(inputs)
        recording = record_step(compiled, lambda: compiled(inputs), device)
        truth, promise = measured(plan, "cpu", recording), predicted(plan, "cpu")
        print([s.name for s in truth.slices] == [s.name for s in promise.slices])
        sizes = lambda record: [b.bytes for b in record.blocks if b.label.startswith("%e ")]
        print(sizes(promise), sizes(truth))
        print([b.kind for b in truth.blocks] == [b.kind for b in promise.blocks])
        print(max(s.bytes for s in truth.samples) == plan.simulate("cpu").peak_bytes)
    """)
    assert out.splitlines() == ["True", "[48, 48, 48] [48, 48, 32]", "True", "True"]


def test_without_the_hook_it_says_so() -> None:
    plan = _core.Plan.parse(TEXT)
    cpu = torch.device("cpu")
    with pytest.raises(MagisError, match="this process has none; `magis run --record` starts one"):
        record_step(CompiledPlan(plan, cpu), lambda: None, cpu)


def test_blocks_that_no_plan_knows_of_are_said_to_be_such() -> None:
    marks = [Mark(0, 100), Mark(1, 200), Mark(2, 250), Mark(3, 300), Mark(4, 320)]
    changes = [
        LoggedChange(5, 1000, 128, True),  # %a
        LoggedChange(110, 2000, 64, True),  # beside %b
        LoggedChange(120, 3000, 128, True),  # %b
        LoggedChange(130, 4000, 16, True),  # nobody's
        LoggedChange(140, 5000, 99, False),  # of a library
        LoggedChange(150, 2000, -64, True),
        LoggedChange(160, 5000, -99, False),
        LoggedChange(240, 1000, -128, True),
        LoggedChange(260, 6000, 4, True),  # %s
        LoggedChange(310, 3000, -128, True),
    ]
    record = measured(_core.Plan.parse(TEXT), "cpu", Recording("hook", 0, marks, changes))
    kinds = [(block.label, block.kind, block.bytes) for block in record.blocks]
    assert kinds[0] == ("x f32[8,4]", "batch", 128)
    assert kinds[1][0] == "%a f32[8,4]"
    assert kinds[2] == ("aten.sin", WORKSPACE, 64)
    assert kinds[3][0] == "%b f32[8,4]"
    assert kinds[4] == ("aten.sin", UNPLANNED, 16)
    assert kinds[5][0] == "%s f32[]"
    levels = {(s.time, s.counter): s.bytes for s in record.samples}
    assert levels[120, DEVICE] == 128 + 128 + 64 + 128
    assert levels[140, LIBRARIES] == 99
    assert levels[310, DEVICE] == 128 + 16 + 4
    runs = [(s.name, s.start, s.end) for s in record.slices]
    assert runs == [("aten.exp", 0, 100), ("aten.sin", 100, 200), ("aten.sum", 250, 300)]


def test_a_device_whose_allocator_tells_levels_alone() -> None:
    marks = [Mark(0, 100), Mark(1, 200), Mark(2, 250), Mark(3, 300), Mark(4, 320)]
    levels = [Level(512, 512), Level(1536, 1024), Level(1024, 512), Level(1024, 1024)]
    recording = Recording("cuda", 0, marks, levels=[*levels, Level(1024, 512)])
    record = measured(_core.Plan.parse(TEXT), "a100", recording)
    samples = [(s.time, s.bytes - 512) for s in record.samples if s.counter == DEVICE]
    assert samples[0] == (0, 0)  # the batch, in a block of 512 bytes
    # The most while an operator runs stands from its start on.
    assert samples[1:] == [
        *[(0, 512), (100, 1536), (200, 1024), (250, 512)],
        *[(250, 1024), (320, 512)],
    ]
    assert [s.name for s in record.slices] == ["aten.exp", "aten.sin", "aten.sum"]


def test_pytorchs_own_snapshot_beside_the_promise() -> None:
    frames = [{"name": "step", "filename": "<magis plan 1>", "line": 7}]
    own = {
        "segments": [{"device": 0, "address": 0, "blocks": [{"frames": frames}, {"frames": []}]}],
        "device_traces": [[{"action": "alloc", "frames": frames}]],
        "allocator_settings": {"expandable_segments": True},
    }

    def places(file: str, line: int) -> Place | None:
        return Place("aten.exp", "net.act", "net.py:3") if (file, line) == frames_at else None

    frames_at = "<magis plan 1>", 7
    found = with_places(own, places)
    names = ["aten.exp", "net.act", "net", "step"]
    assert [f["name"] for f in found["device_traces"][0][0]["frames"]] == names
    blocks = found["segments"][0]["blocks"]
    assert [[f["name"] for f in block["frames"]] for block in blocks] == [names, []]
    recording = Recording("hook", 0)
    promise = snapshot([measured(_core.Plan.parse(TEXT), "cpu", recording)])
    both = beside(promise, found)
    assert [segment["device"] for segment in both["segments"]] == [0, 1]
    assert both["device_traces"] == [promise["device_traces"][0], found["device_traces"][0]]
    assert both["allocator_settings"] == {"expandable_segments": True}


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_step_on_a_gpu() -> None:
    cuda = torch.device("cuda")
    plan = _core.Plan.parse(TEXT.replace("device cpu", "device cuda"))
    compiled = CompiledPlan(plan, cuda)
    x = torch.ones(8, 4, device=cuda)
    compiled([x])
    recording = record_step(compiled, lambda: compiled([x]), cuda)
    record = measured(plan, "h200", recording)
    assert [s.name for s in record.slices] == ["aten.exp", "aten.sin", "aten.sum"]
    most = max(s.bytes for s in record.samples if s.counter == DEVICE)
    assert most == plan.simulate("h200").peak_bytes
    assert recording.snapshot is not None
    traces = recording.snapshot["device_traces"]
    assert any(e["frames"] and e["frames"][0]["name"] == "aten.exp" for t in traces for e in t)
