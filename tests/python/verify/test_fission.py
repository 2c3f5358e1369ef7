"""Graphs that were split by hand mean what their sources do, and their bytes are counted."""

import pytest
import torch
from fission_texts import (
    COMBINED,
    COMBINED_SOURCE,
    MERGED,
    MERGED_SOURCE,
    MLP_SOURCE,
    MLP_SPLIT_PLAN,
    SAME_AXIS,
    SAME_AXIS_SOURCE,
    TWO_AXES,
    TWO_AXES_PLAN,
    TWO_AXES_SOURCE,
    mlp_split,
    same_axis,
)
from verify_support import MLP_PLAN, changed

from magis.errors import PlanError
from magis.verify import check_fission, check_types, evaluate, random_inputs, verify_plan

PAIRS = {
    "one part": (MLP_SOURCE, mlp_split(4)),
    "even parts": (MLP_SOURCE, mlp_split(2)),
    "a shorter last part": (MLP_SOURCE, mlp_split(3)),
    "parts of one": (MLP_SOURCE, mlp_split(1)),
    "a program": (MLP_SOURCE, MLP_SPLIT_PLAN),
    "two axes": (TWO_AXES_SOURCE, TWO_AXES),
    "two axes, a program": (TWO_AXES_SOURCE, TWO_AXES_PLAN),
    "a transposed result": (
        TWO_AXES_SOURCE,
        changed(TWO_AXES, "[%x3]) : f32[3,10], f32[3]", "[%x3]) : f32[3,10]{1,3}, f32[3]"),
    ),
    "one axis twice": (SAME_AXIS_SOURCE, SAME_AXIS),
    "merged axes": (MERGED_SOURCE, MERGED),
    "every combination": (COMBINED_SOURCE, COMBINED),
}


@pytest.mark.parametrize("what", PAIRS)
def test_split_graphs_mean_what_their_sources_do(what):
    source, split = PAIRS[what]
    for seed in range(3):
        check_fission(source, split, seed=seed)


@pytest.mark.parametrize(("outer", "inner"), [(8, 8), (8, 3), (7, 4), (3, 3), (3, 2), (1, 1)])
def test_parts_of_parts(outer, inner):
    split = same_axis(outer, inner)
    check_fission(SAME_AXIS_SOURCE, split)
    check_types(split)


@pytest.mark.parametrize("what", PAIRS)
def test_types_hold_in_every_part(what):
    check_types(PAIRS[what][1])


@pytest.mark.parametrize("what", PAIRS)
def test_recorded_dtypes(what):
    source, split = PAIRS[what]
    inputs = random_inputs(source)
    for value, wanted in zip(
        evaluate(split, inputs, dtype=None), evaluate(source, inputs, dtype=None), strict=True
    ):
        assert value.dtype == wanted.dtype
        torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-4)


def test_bytes_of_the_split_mlp():
    # Results 32 + 4 + 40 + 60; in a part of 3: %a 60, %do 24, %da 60. The batch's parts are views.
    facts = verify_plan(MLP_SPLIT_PLAN)
    assert facts.transient_peak_bytes == 136 + 144
    assert facts.peak_statement.startswith("run %da (")
    assert facts.persistent_bytes == verify_plan(MLP_PLAN).persistent_bytes
    assert facts.recomputed == []


def test_bytes_of_nested_loops():
    # %x2 192, results of r1 320 + 32; %x3 72, results of r2 120 + 12; %mm 48, %rp 12.
    assert verify_plan(TWO_AXES_PLAN).transient_peak_bytes == 192 + 352 + 72 + 132 + 48 + 12


def test_a_tensor_made_anew_for_the_begin():
    again = changed(TWO_AXES_PLAN, "run %x2\n", "run %x2\nfree %x2\nrun %x2 as .1\n")
    again = changed(again, "run %y\n", "run %y reading %x2.1\n")
    again = changed(again, "run %x3\n", "run %x3 reading %x2.1\n")
    again = changed(again, "run %e1\nfree %x2\n", "run %e1 reading %x2.1\nfree %x2.1\n")
    assert verify_plan(again).recomputed == ["x2"]
    check_fission(TWO_AXES_SOURCE, again)


def test_an_iteration_may_make_its_own_tensors_anew():
    again = changed(MLP_SPLIT_PLAN, "run %n1\nrun %d over %o\n", "run %n1\nfree %o\nrun %d\n")
    with pytest.raises(PlanError, match="%o is still read by run %d"):
        verify_plan(again)
    again = changed(
        MLP_SPLIT_PLAN,
        "run %n1\nrun %d over %o\n",
        "run %n1\nfree %o\nrun %o as .1\nrun %d reading %o.1 over %o.1\n",
    )
    assert verify_plan(again).recomputed == ["o"]
    check_fission(MLP_SOURCE, again)


def test_a_stride_that_is_never_used_does_not_count_in_a_part():
    split = mlp_split(1)
    check_types(
        changed(
            split, "%h = aten.mm(%xp, %w1t) : f32[1,5]", "%h = aten.mm(%xp, %w1t) : f32[1,5]{7,1}"
        )
    )
    wrong = changed(
        split,
        "%dot = aten.permute(%do, [1,0]) : f32[2,1]{1,2}",
        "%dot = aten.permute(%do, [1,0]) : f32[2,1]{2,2}/12",
    )
    with pytest.raises(PlanError, match=r"%dot is recorded as"):
        check_types(wrong)
