"""Graphs split by hand go through the core: what it prints, promises and generates holds here."""

import pytest
import torch
from fission_texts import (
    COMBINED,
    COMBINED_SOURCE,
    MERGED,
    MERGED_SOURCE,
    MLP_SOURCE,
    MLP_SPLIT_PLAN,
    SAME_AXIS_SOURCE,
    TWO_AXES_SOURCE,
    mlp_split,
    same_axis,
    two_axes,
)

from magis import _core
from magis.verify import check_fission, evaluate, random_inputs, verify_plan
from magis.verify.text import parse

PAIRS = {
    "even parts": (MLP_SOURCE, mlp_split(2)),
    "a shorter last part": (MLP_SOURCE, mlp_split(3)),
    "a program": (MLP_SOURCE, MLP_SPLIT_PLAN),
    "two axes": (TWO_AXES_SOURCE, two_axes(4, 4)),
    "one axis twice": (SAME_AXIS_SOURCE, same_axis(4, 3)),
    "merged axes": (MERGED_SOURCE, MERGED),
    "every combination": (COMBINED_SOURCE, COMBINED),
}


@pytest.mark.parametrize("what", PAIRS)
def test_through_the_core(what):
    source, split = PAIRS[what]
    if parse(split).program is None:
        plan = _core.Plan.program_order(_core.Graph.parse(split))
    else:
        plan = _core.Plan.parse(split)
    plan.verify()
    text = plan.text()
    check_fission(source, text)
    assert verify_plan(text).transient_peak_bytes == plan.simulate("cpu").transient_peak_bytes

    inputs = random_inputs(source)
    generated = {}
    exec(compile(plan.source(), what, "exec"), generated)
    with torch.no_grad():
        made = generated["step"]([inputs[i.name].clone() for i in parse(text).inputs])
    for value, wanted in zip(made, evaluate(text, inputs, dtype=None), strict=True):
        assert torch.equal(value, wanted)
