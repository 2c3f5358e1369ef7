"""Plans for the tests of viewers' files: of a tiny BERT, split and swapped, and by hand."""

from __future__ import annotations

import functools
import random
from pathlib import Path

from swap_programs import swapped

from magis import _core
from magis.capture import capture
from magis.zoo import build

# Two parts of a loop and a shorter third one; %s leaves for the host for a while.
LOOP = """magis 1
device cpu
site @1 "net.first" "net.py:3"
site @2 "net.second" "net.py:4"
batch %x "x" : f32[8,4]
param %w "net.first.weight" : f32[4,4]
%a = aten.mm(%x, %w) : f32[8,4] @1
%b = aten.relu(%a) : f32[8,4] @1
%y, %s = magis.begin("r1", 3, 8, [%b]) : f32[8,4], f32[4]
%p = magis.part(%b, 0, 1*r1) : f32[3,4]/128
%e = aten.exp(%p) : f32[3,4] @2
%t = aten.sum.dim_IntList(%e, [0]) : f32[4] @2
%n = magis.write_part(%y, 0, 1*r1, %e) : none @2
%m = magis.add_part(%s, %t) : none @2
%end = magis.end("r1", [%y, %s], [%b]) : none
output loss "" %s
output aux "" %y
"""


def tiny_bert() -> _core.Graph:
    return _core.Graph.parse(_tiny_bert())


def swapping_bert() -> _core.Plan:
    return _core.Plan.parse(_swapping_bert())


def split_bert() -> _core.Plan:
    return _core.Plan.parse(_split_bert())


# Texts are kept, not objects of the core: these would outlive it.
@functools.cache
def _tiny_bert() -> str:
    model, loss_fn, batch = build("bert")
    return capture(model, loss_fn, batch).text


@functools.cache
def _swapping_bert() -> str:
    """Found under a profile whose copies overlap with computing."""
    peak = _core.Plan.program_order(tiny_bert()).simulate("reference").peak_bytes
    found = _core.optimize(
        tiny_bert(),
        device="reference",
        memory_limit=6 * peak // 10,
        time_budget=60,
        state_budget=500,
        fission=False,
    )
    assert found.swapped > 0
    return found.plan.text()


@functools.cache
def _split_bert() -> str:
    """It recomputes, too, and swaps inside its loop."""
    graph = tiny_bert()
    regions = _core.fission_regions(graph, device="cpu", least_saving=None)
    best = max(range(len(regions)), key=regions.saving)
    split = regions.split([(best, max(1, regions.length(best) // 4), [])])
    found = _core.optimize(
        split,
        device="cpu",
        latency_limit=10.0,
        time_budget=60,
        state_budget=500,
        fission=False,
        rewrite=False,
        host_memory=0,
    )
    assert found.recomputed > 0
    return swapped(found.plan.text(), random.Random(1), share=0.2).text


def random_plans() -> list[_core.Plan]:
    """Every other one with random swapping."""
    folder = Path(__file__).parents[1] / "data" / "random_plans"
    plans = []
    for number, path in enumerate(sorted(folder.glob("*.plan"))):
        text = path.read_text()
        if number % 2:
            plain = _core.Plan.parse(text).text()
            text = swapped(plain, random.Random(number), share=0.5).text
        plans.append(_core.Plan.parse(text))
    assert len(plans) > 10
    return plans
