"""What the core tells planners of a graph, and programs by hand."""

from __future__ import annotations

import pytest

import magis._core as core

# An update behind its reader, a random operator, and a sum over an operand that dies.
STEP = """magis 1
device cpu

param %w "w" : f32[8,8]
batch %x "['x']" : f32[8,8]

%h = aten.mm(%x, %w) : f32[8,8]
%mask = magis.bernoulli([8,8], [8,1], 0.5, dtype=torch.float32) : f32[8,8]
%a = aten.mul.Tensor(%h, %mask) : f32[8,8]
%loss = aten.sum(%a) : f32[]
%dh = aten.mul.Tensor(%mask, %mask) : f32[8,8] backward
%x_t = aten.permute(%x, [1,0]) : f32[8,8]{1,8}
%dw = aten.mm(%x_t, %dh) : f32[8,8] backward
%updated = aten.sub_.Tensor(%w, %dw) : none backward

output loss "" %loss
output param "w" %w
"""


@pytest.fixture
def graph() -> core.Graph:
    return core.Graph.parse(STEP)


def test_structure_of_a_small_step(graph: core.Graph) -> None:
    facts = core.structure(graph, device="reference")
    names = [op.name for op in facts.operators]
    assert names == ["h", "mask", "a", "loss", "dh", "dw", "updated"]
    by_name = dict(zip(names, facts.operators, strict=True))
    tensors = [tensor.name for tensor in facts.tensors]
    assert [tensors[t] for t in by_name["a"].reads] == ["h", "mask"]
    assert [tensors[t] for t in by_name["a"].makes] == ["a"]
    assert [op.recomputable for op in facts.operators] == [
        True,
        False,
        True,
        True,
        True,
        True,
        False,
    ]
    # What reads w may run again until it is updated, which waits for its readers and the loss.
    assert [names[op] for op in by_name["h"].overwriters] == ["updated"]
    assert {"h", "dw", "loss"} <= {names[op] for op in by_name["updated"].predecessors}
    assert by_name["a"].in_place == [0, 1]
    assert [op.backward for op in facts.operators] == [False] * 4 + [True] * 3
    sizes = {tensor.name: tensor.bytes for tensor in facts.tensors}
    assert sizes["h"] == 256
    assert sizes["w"] == 0  # an input
    assert facts.persistent_bytes == graph.persistent_bytes == 512
    inputs = [tensor.name for tensor in facts.tensors if tensor.producer < 0]
    assert set(inputs) == {"w", "x"}
    assert not any(t.swappable for t in facts.tensors if t.is_input or t.is_output)


def test_structure_says_what_stands_in_a_loop() -> None:
    text = STEP.replace("%updated = aten.sub_.Tensor(%w, %dw) : none backward\n", "")
    text = text.replace('output param "w" %w', 'output grad "w" %dw').replace(
        "%mask = magis.bernoulli([8,8], [8,1], 0.5, dtype=torch.float32)", "%mask = aten.relu(%x)"
    )
    whole = core.Graph.parse(text)
    split = core.fission_regions(whole, device="reference").split_batch(4)
    assert split.loop_count == 1
    facts = core.structure(split, device="reference")
    bounds = [op.bounds for op in facts.operators if op.bounds]
    assert bounds == ["r1", "r1"]
    inside = [op for op in facts.operators if op.loop == "r1"]
    assert inside
    with pytest.raises(core.UserError):
        core.fission_regions(whole, device="reference").split_batch(9)


def test_a_program_by_hand_ends_lifetimes_where_it_can(graph: core.Graph) -> None:
    order = core.Plan.program_order(graph)
    runs = [f"run %{op.name}" for op in core.structure(graph, device="cpu").operators]
    plan = core.Plan.of(graph, "program\n" + "\n".join(runs) + "\n")
    assert plan.text() == order.text()
    assert " over %" in plan.text()
    again = [*runs[:3], "run %h as .1", *runs[3:]]
    assert "free %h.1" in core.Plan.of(graph, "program\n" + "\n".join(again) + "\n").text()


def test_a_program_by_hand_is_verified(graph: core.Graph) -> None:
    with pytest.raises(core.UserError, match="runs before"):
        core.Plan.of(graph, "program\nrun %a\n")
    with pytest.raises(core.UserError, match="the program never runs"):
        core.Plan.of(graph, "program\nrun %h\n")
    with pytest.raises(core.UserError, match="mine:1:1"):
        core.Plan.of(graph, "run %h\n", "mine")


def test_footprints_are_what_the_simulation_says(graph: core.Graph) -> None:
    plan = core.Plan.program_order(graph)
    simulation = plan.simulate("reference")
    expected = (simulation.peak_bytes, simulation.seconds, simulation.exposed_seconds)
    assert plan.footprint("reference") == pytest.approx(expected)


def test_rewriting_takes_what_saves_time_and_merges_only_if_asked() -> None:
    text = """magis 1
device cpu

param %w1 "w1" : f32[256,256]
param %w2 "w2" : f32[256,256]
param %b "b" : f32[256,256]
batch %x "['x']" : f32[256,256]

%q = aten.mm(%x, %w1) : f32[256,256]
%s = aten.add.Tensor(%q, %b) : f32[256,256]
%k = aten.mm(%x, %w2) : f32[256,256]
%y = aten.mul.Tensor(%s, %k) : f32[256,256]

output loss "" %y
"""
    graph = core.Graph.parse(text)
    careful = core.rewrite(graph, device="reference")
    assert dict(careful.rewrites) == {"add_to_product": 1}
    merged = core.rewrite(graph, device="reference", merge=True)
    seconds = [
        core.Plan.program_order(g).footprint("reference")[1] for g in (graph, careful, merged)
    ]
    assert seconds[0] > seconds[1] >= seconds[2]
