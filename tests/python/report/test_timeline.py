"""Memory over time, held to the simulator's count and to programs counted by hand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from page_support import steps_of
from swap_programs import swapped

from magis import _core
from magis.report.curve import STRETCHES, MemoryCurve
from magis.report.definitions import definitions
from magis.report.timeline import LOAD, RUN, WAIT, Timeline, running_bytes
from magis.report.viewers.drawing import FRAMES
from magis.report.viewers.predicted import predicted

DATA = Path(__file__).parents[2] / "data"

# Every tensor has 1,024 bytes, the batch too. %a leaves for the host while %b, %c, %d are live.
SWAPPED = """\
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

program
run %a
store %a
run %b
await %a
free %a
run %c
run %d
free %c, %b
load %a as .1
await %a.1
run %e reading %a.1
free %d, %a.1
"""


def timeline_of(plan: _core.Plan, device: str) -> tuple[Timeline, _core.Simulation]:
    simulation = plan.simulate(device)
    return Timeline.of(plan, simulation, device), simulation


def plans() -> list[str]:
    """Texts of plans that recompute, reorder, run in parts."""
    found = [path.read_text() for path in sorted((DATA / "random_plans").glob("*.plan"))]
    graph = _core.Graph.parse((DATA / "verify_mlp.magis").read_text(), "mlp")
    regions = _core.fission_regions(graph, device="cpu", least_saving=-(2**40))
    for region in range(len(regions)):
        for part in (1, 3):
            if part < regions.length(region):
                split = regions.split([(region, part, [])])
                found.append(_core.Plan.program_order(split).text())
    return found


PLANS = plans()


@pytest.mark.parametrize("device", ["cpu", "rtx3090", "reference-h2"])
@pytest.mark.parametrize("swaps", [False, True])
def test_lifetimes_and_scratch_come_to_what_the_simulator_counts(device: str, swaps: bool) -> None:
    kinds: set[str] = set()
    for seed, text in enumerate(PLANS):
        text = swapped(text, random.Random(seed), share=0.5).text if swaps else text
        plan = _core.Plan.parse(text, f"plan {seed}")
        timeline, simulation = timeline_of(plan, device)
        check_bytes(timeline, simulation)
        check_times(timeline, simulation)
        check_parts(timeline, plan, device)
        check_curve(timeline, simulation)
        check_host(timeline, simulation)
        kinds |= {moment.kind for moment in timeline.moments}
    assert kinds == ({RUN, LOAD, WAIT} if swaps else {RUN})


def check_bytes(timeline: Timeline, simulation: _core.Simulation) -> None:
    live = list(running_bytes(timeline))
    assert live == [simulation.persistent_bytes + m.live_bytes for m in timeline.moments]
    assert max(live) == live[timeline.peak] == simulation.peak_bytes
    assert all(moment.scratch_bytes >= 0 for moment in timeline.moments)
    runs = [moment for moment in timeline.moments if moment.kind == RUN]
    assert [(m.name, m.live_bytes) for m in runs] == [
        (p.result, p.live_bytes) for p in simulation.timeline
    ]
    if not timeline.loops:
        assert [(m.start, m.end) for m in runs] == [(p.start, p.end) for p in simulation.timeline]
    hotspots = sorted((spot.name, spot.bytes) for spot in simulation.hotspots)
    assert hotspots == sorted(
        (life.name, life.bytes)
        for life in timeline.lifetimes
        if life.first <= timeline.peak <= life.last and not life.tensor.is_input
    )


def check_times(timeline: Timeline, simulation: _core.Simulation) -> None:
    """Steps follow each other without a gap, from nothing to the step's time."""
    clock = 0.0
    for step in steps_of(timeline):
        assert step.start == pytest.approx(clock, abs=1e-8 * simulation.seconds)
        assert step.end >= step.start
        clock = step.end
    assert clock == pytest.approx(simulation.seconds)


def check_parts(timeline: Timeline, plan: _core.Plan, device: str) -> None:
    """Each part of each loop runs what and when the step that is walked part by part does."""
    record = predicted(plan, device)
    drawn = [s for s in record.slices if s.category not in FRAMES]
    bounds = {p.result for p in plan.simulate(device).timeline if p.operator.startswith("magis.")}
    bounds -= {s.details["result"].split()[0].rstrip(",").removeprefix("%") for s in drawn}
    runs = [(timeline.moments[step.moment], step) for step in steps_of(timeline)]
    runs = [(m, step) for m, step in runs if m.kind == RUN and m.name not in bounds]
    names = [s.details["result"].split()[0].rstrip(",").removeprefix("%") for s in drawn]
    assert [moment.name for moment, _ in runs] == names
    # Where a copy from before a loop delays its first part, the others are told by their mean.
    even = all(loop.other_seconds == pytest.approx(loop.seconds) for loop in timeline.loops)
    for (_, step), entry in zip(runs, drawn, strict=True):
        if even or not step.loops:
            assert 1e9 * step.start == pytest.approx(entry.start, rel=1e-6, abs=2)
            assert 1e9 * step.end == pytest.approx(entry.end, rel=1e-6, abs=2)


def check_curve(timeline: Timeline, simulation: _core.Simulation) -> None:
    """Of each stretch the most, in all parts; at a border it may be the neighbour's."""
    levels = MemoryCurve.of(timeline, simulation).levels
    most = [simulation.persistent_bytes] * STRETCHES
    for step in steps_of(timeline):
        live = simulation.persistent_bytes + timeline.moments[step.moment].live_bytes
        stretches = (int(STRETCHES * at / simulation.seconds) for at in (step.start, step.end))
        first, last = (min(STRETCHES - 1, stretch) for stretch in stretches)
        for stretch in range(first, last + 1):
            most[stretch] = max(most[stretch], live)
    assert max(levels) == max(most) == simulation.peak_bytes
    for at, level in enumerate(levels):
        near = most[max(0, at - 1) : at + 2]
        assert min(near) <= level <= max(near)


def check_host(timeline: Timeline, simulation: _core.Simulation) -> None:
    """What the host holds at a time has room in its pool, whose places are multiples of 64."""
    for moment in range(len(timeline.moments)):
        held = [stay for stay in timeline.on_host if stay.first <= moment <= stay.last]
        assert sum(-(-s.tensor.bytes // 64) * 64 for s in held) <= simulation.host_peak_bytes
    assert {stay.tensor.name for stay in timeline.on_host} == {
        copy.tensor.partition(".")[0] for copy in simulation.copies
    }


def test_a_swapped_tensor_holds_memory_on_one_side_then_on_the_other() -> None:
    timeline, simulation = timeline_of(_core.Plan.parse(SWAPPED, "plan"), "cpu")
    # On a CPU the step waits for both copies at once, so that each is a moment of its own.
    assert [moment.kind for moment in timeline.moments] == [
        *("run", "wait", "run", "run", "run", "load", "wait", "run")
    ]
    lives = {life.name: (life.first, life.last) for life in timeline.lifetimes}
    # %a until %b has read it, %a.1 from its load on; the host has it from the store to the await.
    assert lives["a"] == (0, 2)
    assert lives["a.1"] == (5, 7)
    assert [(stay.tensor.name, stay.first, stay.last) for stay in timeline.on_host] == [("a", 1, 6)]
    # a; a; a b; b c; b c d; d a.1; d a.1; d a.1 e: without the batch.
    counted = [1, 1, 2, 2, 3, 2, 2, 3]
    assert [moment.live_bytes for moment in timeline.moments] == [1024 * n for n in counted]
    assert sum(m.end - m.start for m in timeline.moments if m.kind == "wait") == pytest.approx(
        simulation.exposed_seconds
    )
    assert next(m for m in timeline.moments if m.kind == LOAD).name == "a.1"


# %x is split in 3 parts of 2, 2 and 1 rows; the last counts as a full one. Each part makes %h
# (2 x 256 floats), then %y of it.
LOOP = """\
magis 1
device cpu
batch %x "[0]" : f32[5,256]
%before = aten.tanh(%x) : f32[5,256]
%y = magis.begin("r1", 2, 5, [%before]) : f32[5,256]
%part = magis.part(%before, 0, 1*r1) : f32[2,256]
%h = aten.exp(%part) : f32[2,256]
%z = aten.sin(%h) : f32[2,256]
%n = magis.write_part(%y, 0, 1*r1, %z) : none
%end = magis.end("r1", [%y], [%before]) : none
%after = aten.cos(%y) : f32[5,256]
output loss "" %after
"""


def test_a_loop_comes_once_for_each_part() -> None:
    plan = _core.Plan.program_order(_core.Graph.parse(LOOP, "loop"))
    timeline, simulation = timeline_of(plan, "cpu")
    (loop,) = timeline.loops
    names = [moment.name for moment in timeline.moments]
    assert names == ["before", "y", "h", "z", "n", "end", "after"]
    assert (loop.name, loop.parts, loop.first, loop.last) == ("r1", 3, 2, 4)
    steps = [names[step.moment] for step in steps_of(timeline)]
    assert steps == ["before", "y", *(3 * ["h", "z", "n"]), "end", "after"]
    costs = {call.partition("(")[0]: seconds for call, seconds in plan.run_costs("cpu")}
    in_loop = sum(costs[f"aten.{name}"] for name in ("exp", "sin")) + costs["magis.write_part"]
    assert 3 * loop.seconds == pytest.approx(in_loop)
    assert loop.other_seconds == loop.seconds
    h = [step for step in steps_of(timeline) if names[step.moment] == "h"]
    assert h[0].end - h[0].start == pytest.approx(costs["aten.exp"] / 3)
    assert h[2].start - h[1].start == pytest.approx(loop.seconds)
    assert timeline.moments[-1].end == pytest.approx(simulation.seconds)


def test_definitions_tell_operands_results_and_places() -> None:
    text = """\
magis 1
device cpu
site @1 "a \\") : x" "m.py:1"
param %w "w" : f32[8,8]
batch %x "[0]" : f32[4,8]{1,4}
%t = aten.permute(%w, [1,0]) : f32[8,8]{1,8}
%ln, %mean = aten.layer(%x, "%no ) : i64[1]", %w, e=%x) : f32[4,8], f32[4,1] @1 backward scratch 8
%n = aten.copy_(%x, %ln) : none
output loss "" %ln
"""
    permute, layer, copy = definitions(text)
    assert permute.results == ("t",)
    assert layer.results == ("ln", "mean")
    assert layer.operands == ("x", "w", "x")
    assert (layer.module, layer.source, layer.backward) == ('a ") : x', "m.py:1", True)
    assert layer.shapes == "f32[4,8]{1,4}, f32[8,8], f32[4,8]{1,4} -> f32[4,8], f32[4,1]"
    assert (copy.operator, copy.types, copy.source) == ("aten.copy_", ("none",), "")
