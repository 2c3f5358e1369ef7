"""Memory over time, held to the simulator's count and to programs counted by hand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from swap_programs import swapped

from magis import _core
from magis.report.definitions import definitions
from magis.report.timeline import LOAD, REPEAT, RUN, WAIT, Timeline, running_bytes

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
        check_host(timeline, simulation)
        kinds |= {moment.kind for moment in timeline.moments}
    assert kinds == ({RUN, LOAD, WAIT, REPEAT} if swaps else {RUN})


def check_bytes(timeline: Timeline, simulation: _core.Simulation) -> None:
    live = list(running_bytes(timeline))
    assert live == [simulation.persistent_bytes + m.live_bytes for m in timeline.moments]
    assert max(live) == live[timeline.peak] == simulation.peak_bytes
    assert all(moment.scratch_bytes >= 0 for moment in timeline.moments)
    runs = [moment for moment in timeline.moments if moment.kind == RUN]
    assert [(m.name, m.start, m.end, m.live_bytes) for m in runs] == [
        (p.result, p.start, p.end, p.live_bytes) for p in simulation.timeline
    ]
    hotspots = sorted((spot.name, spot.bytes) for spot in simulation.hotspots)
    assert hotspots == sorted(
        (life.name, life.bytes)
        for life in timeline.lifetimes
        if life.first <= timeline.peak <= life.last and not life.tensor.is_input
    )


def check_times(timeline: Timeline, simulation: _core.Simulation) -> None:
    """Moments follow each other without a gap, from nothing to the step's time."""
    clock = 0.0
    for moment in timeline.moments:
        assert moment.start == pytest.approx(clock, abs=1e-8 * simulation.seconds)
        assert moment.end >= moment.start
        clock = moment.end
    assert clock == pytest.approx(simulation.seconds)


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
