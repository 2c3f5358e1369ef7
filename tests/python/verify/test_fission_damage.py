"""Graphs whose loops are damaged, and what is said of each."""

import re

import pytest
from fission_texts import (
    COMBINED,
    COMBINED_SOURCE,
    MERGED,
    MERGED_SOURCE,
    MLP_SOURCE,
    MLP_SPLIT,
    MLP_SPLIT_PLAN,
    SAME_AXIS,
    TWO_AXES,
    TWO_AXES_PLAN,
    TWO_AXES_SOURCE,
)
from verify_support import changed

from magis.errors import PlanError
from magis.verify import check_fission
from magis.verify.text import parse

# (split graph, what is replaced, by what, what is said of it)
DAMAGED_GRAPHS = {
    "a slice of a fixed length": (
        MLP_SPLIT,
        "magis.part(%x, 0, 1*r1)",
        "magis.part(%x, 0, 3)",
        "line 10: magis.part: takes a dimension and a part length after the tensor",
    ),
    "a begin without a list": (
        MLP_SPLIT,
        'magis.begin("r1", 3, 4, [])',
        'magis.begin("r1", 3, 4)',
        "line 9: magis.begin: takes a name, a part, a length and a list of tensors",
    ),
    "a begin that lists no tensor": (
        MLP_SPLIT,
        'magis.begin("r1", 3, 4, [])',
        'magis.begin("r1", 3, 4, [7])',
        "line 9: magis.begin: takes a name, a part, a length and a list of tensors",
    ),
    "a loop whose name is no word": (
        MLP_SPLIT,
        'magis.begin("r1", 3, 4, [])',
        'magis.begin("1r", 3, 4, [])',
        "line 9: magis.begin: '1r' is not a name, or a keyword is given",
    ),
    "an end without lists": (
        MLP_SPLIT,
        'magis.end("r1", [%out, %loss, %dw2, %dw1], [])',
        'magis.end("r1")',
        "line 27: magis.end: takes a name, a list of results and a list of tensors",
    ),
    "a length of nothing": (
        MLP_SPLIT,
        "magis.part(%x, 0, 1*r1)",
        "magis.part(%x, 0, 0*r1)",
        "line 10: magis.part: 0*r1 is no length",
    ),
    "a write of two parts": (
        MLP_SPLIT,
        "magis.add_part(%loss, %s)",
        "magis.add_part(%loss, %s, %s)",
        "line 19: magis.add_part: has other operands or results than it should",
    ),
    "sums without parts": (
        MLP_SPLIT,
        "magis.add_part(%loss, %s)",
        "magis.add_parts([%loss], [])",
        "line 19: magis.add_parts: takes a list of sums and a list of as many parts",
    ),
    "a sum of another shape": (
        MLP_SPLIT,
        "magis.add_part(%loss, %s)",
        "magis.add_parts([%loss], [%o])",
        "line 19: magis.add_part: writes f32[3,2] to %loss, which is f32[]",
    ),
    "a write of a number": (
        MLP_SPLIT,
        "magis.add_part(%loss, %s)",
        "magis.add_part(%loss, 1.0)",
        "line 19: magis.add_part: writes what is no tensor",
    ),
    "a missing write": (
        MLP_SPLIT,
        "%n2 = magis.add_part(%loss, %s) : none\n",
        "",
        "line 9: magis.begin: nothing in r1 writes its result %loss",
    ),
    "a second write": (
        MLP_SPLIT,
        "%n2 = magis.add_part(%loss, %s) : none\n",
        "%n2 = magis.add_part(%loss, %s) : none\n%n5 = magis.add_part(%loss, %s) : none\n",
        "line 20: magis.add_part: %loss is written in line 19 already",
    ),
    "a wrong dimension": (
        MLP_SPLIT,
        "magis.write_part(%out, 0, 1*r1, %o)",
        "magis.write_part(%out, 1, 1*r1, %o)",
        "line 15: magis.write_part: 1*r1 walks 4 of 2 in dimension 1 of f32[4,2]",
    ),
    "a dimension that is not there": (
        MLP_SPLIT,
        "magis.part(%x, 0, 1*r1)",
        "magis.part(%x, 2, 1*r1)",
        "line 10: magis.part: there is no dimension 2 in f32[4,3]",
    ),
    "a wrong coefficient": (
        MLP_SPLIT,
        "magis.part(%x, 0, 1*r1)",
        "magis.part(%x, 0, 2*r1)",
        "line 10: magis.part: 2*r1 walks 8 of 4 in dimension 0 of f32[4,3]",
    ),
    "a wrong loop": (
        TWO_AXES,
        "magis.write_part(%yr, 1, 1*r2, %yp)",
        "magis.write_part(%yr, 0, 1*r1, %yp)",
        "line 13: magis.write_part: 1*r1 is no part of r2, in which it stands",
    ),
    "a part of another length than its type": (
        MLP_SPLIT,
        "%xp = magis.part(%x, 0, 1*r1) : f32[3,3]/48",
        "%xp = magis.part(%x, 0, 1*r1) : f32[2,3]/48",
        "line 10: magis.part: f32[2,3]/48 is no slice 1*r1 in dimension 0 of f32[4,3]",
    ),
    "a sum of what is concatenated": (
        MLP_SPLIT,
        "magis.write_part(%out, 0, 1*r1, %o)",
        "magis.add_part(%out, %o)",
        "line 15: magis.add_part: writes f32[3,2] to %out, which is f32[4,2]",
    ),
    "a result read in the body": (
        MLP_SPLIT,
        "%sq = aten.mul.Tensor(%d, %d) : f32[3,2]\n%s = aten.sum(%sq) : f32[]\n",
        "%s = aten.sum(%out) : f32[]\n",
        "line 17: aten.sum: reads %out inside the loop r1, whose result it is",
    ),
    "a result added to itself": (
        MLP_SPLIT,
        "magis.add_part(%loss, %s)",
        "magis.add_part(%loss, %loss)",
        "line 19: magis.add_part: reads %loss inside the loop r1, whose result it is",
    ),
    "a value of the body read after the end": (
        MLP_SPLIT,
        'output aux "" %out',
        '%after = aten.neg(%a) : f32[3,5]\noutput aux "" %after',
        "line 28: aten.neg: reads %a outside the loop r1",
    ),
    "a part read after the end": (
        MLP_SPLIT,
        'output aux "" %out',
        '%after = aten.neg(%xp) : f32[3,3]\noutput aux "" %after',
        "line 28: aten.neg: reads %xp outside the loop r1",
    ),
    "an output made in the body": (
        MLP_SPLIT,
        'output aux "" %out',
        'output aux "" %o',
        "line 28: output %o is made inside the loop r1",
    ),
    "a result written after its end": (
        TWO_AXES,
        "%n3 = magis.write_part(%y, 0, 1*r1, %yr) : none\n",
        "%n3 = magis.add_part(%yr, %x3) : none\n",
        "line 17: magis.add_part: %yr is no result of the begin of r1",
    ),
    "a write outside all loops": (
        MLP_SPLIT,
        'output aux "" %out',
        '%n9 = magis.add_part(%loss, %loss) : none\noutput aux "" %out',
        "line 28: magis.add_part: stands in no loop",
    ),
    "reads that begin does not list": (
        TWO_AXES,
        'magis.begin("r1", 3, 8, [%x2])',
        'magis.begin("r1", 3, 8, [])',
        "line 6: magis.begin: does not list %x2, which line 8 reads inside r1",
    ),
    "reads that end does not list": (
        TWO_AXES,
        'magis.end("r2", [%yr, %rows], [%x3])',
        'magis.end("r2", [%yr, %rows], [])',
        "line 16: magis.end: does not list %x3, which line 11 reads inside r2",
    ),
    "reads that nobody needs": (
        TWO_AXES,
        'magis.begin("r2", 4, 10, [%x3])',
        'magis.begin("r2", 4, 10, [%x3, %w])',
        "line 9: magis.begin: lists %w, which is an input or not read inside r2",
    ),
    "a result that end does not list": (
        MLP_SPLIT,
        'magis.end("r1", [%out, %loss, %dw2, %dw1], [])',
        'magis.end("r1", [%out, %loss, %dw2], [])',
        "line 27: magis.end: the results of r1 are [%out, %loss, %dw2, %dw1]",
    ),
    "a loop that does not end": (
        TWO_AXES,
        '%e1 = magis.end("r1", [%y, %z], [%x2]) : none\n',
        "",
        "line 6: magis.begin: r1 has no end",
    ),
    "an end of another loop": (
        TWO_AXES,
        'magis.end("r2", [%yr, %rows], [%x3])',
        'magis.end("r1", [%y, %z], [%x2])',
        "line 16: magis.end: the loop r1 is not open here, r2 is the innermost one",
    ),
    "an end of nothing": (
        MLP_SPLIT,
        'output aux "" %out',
        '%f = magis.end("r1", [], []) : none\noutput aux "" %out',
        "line 28: magis.end: the loop r1 is not open here, none is",
    ),
    "one name for two loops": (
        TWO_AXES,
        'magis.begin("r2", 4, 10, [%x3])',
        'magis.begin("r1", 4, 10, [%x3])',
        "line 9: magis.begin: there is already a loop r1, in line 6",
    ),
    "a part of nothing": (
        TWO_AXES,
        'magis.begin("r2", 4, 10, [%x3])',
        'magis.begin("r2", 0, 10, [%x3])',
        "line 9: magis.begin: a part of r2 is 0, not within 1 and 10",
    ),
    "a part longer than the axis": (
        SAME_AXIS,
        'magis.begin("r2", 2, 1*r1, [])',
        'magis.begin("r2", 6, 1*r1, [])',
        "line 7: magis.begin: a part of r2 is 6, not within 1 and 5",
    ),
    "a length of no loop": (
        TWO_AXES,
        "magis.part(%x2, 0, 1*r1)",
        "magis.part(%x2, 0, 1*r3)",
        "line 7: magis.part: 1*r3 names no loop before it: r3",
    ),
    "a length outside its loop": (
        TWO_AXES,
        "magis.write_part(%y, 0, 1*r1, %yr)",
        "magis.write_part(%y, 0, 1*r2, %yr)",
        "line 17: magis.write_part: 1*r2 stands outside the loop r2",
    ),
    "a length with inner before outer": (
        MERGED,
        "[5*r1*r2]",
        "[5*r2*r1]",
        "line 15: aten.view: 5*r2*r1 names its loops twice or inner before outer",
    ),
}


@pytest.mark.parametrize("what", DAMAGED_GRAPHS)
def test_damaged_graphs_are_not_read(what):
    text, old, new, message = DAMAGED_GRAPHS[what]
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        parse(changed(text, old, new))


# (source, split graph, what is replaced, by what, what is said of it)
DAMAGED_MEANING = {
    "a slice of something else": (
        MLP_SOURCE,
        MLP_SPLIT,
        "%h = aten.mm(%xp, %w1t)",
        "%xq = aten.slice.Tensor(%x, 0, 0, 1*r1) : f32[3,3]/48\n%h = aten.mm(%xq, %w1t)",
        r"output aux '' differs in 2 of 8 elements: .* at \[3, 0\]",
    ),
    "keep where the parts are summed": (
        MLP_SOURCE,
        MLP_SPLIT,
        "magis.add_part(%loss, %s)",
        "magis.keep_part(%loss, %s)",
        "output loss '' differs in 1 of 1 elements",
    ),
    "a length that does not follow the part": (
        MERGED_SOURCE,
        MERGED,
        "aten.view(%c, [6*r1,5])",
        "aten.view(%c, [18,5])",
        r"line 9: run %yp in iteration 1 of r1: aten.view fails: shape '\[18, 5\]' is invalid",
    ),
    "a sum where the largest is due": (
        COMBINED_SOURCE,
        COMBINED,
        "magis.max_part(%max, %p1)",
        "magis.add_part(%max, %p1)",
        "output aux 'max' differs in 5 of 5 elements",
    ),
    "any where all is due": (
        COMBINED_SOURCE,
        COMBINED,
        "magis.all_part(%all, %p5)",
        "magis.any_part(%all, %p5)",
        "output aux 'all' differs",
    ),
    "another output": (
        COMBINED_SOURCE,
        COMBINED,
        'output aux "min" %min\n',
        "",
        "the split graph has other outputs",
    ),
    "a write that the program leaves out": (
        MLP_SOURCE,
        MLP_SPLIT_PLAN,
        "run %n2\n",
        "",
        "line 51: run %e: %loss was written in 0 of 2 iterations",
    ),
    "a body left before its end": (
        MLP_SOURCE,
        MLP_SPLIT_PLAN,
        "run %n4\nfree %dh\nrun %e\n",
        "run %e\nrun %n4\nfree %dh\n",
        "line 50: run %e in iteration 0 of r1: %dh was made in the iteration and is not freed",
    ),
    "an operator outside its loop": (
        TWO_AXES_SOURCE,
        TWO_AXES_PLAN,
        "run %e2\nfree %x3\nrun %n3\n",
        "run %n3\nrun %e2\nfree %x3\n",
        "line 35: run %n3 in iteration 0 of r2: %n3 belongs inside the loop r1",
    ),
    "a tensor taken away in the first iteration": (
        TWO_AXES_SOURCE,
        TWO_AXES_PLAN,
        "run %x3\n",
        "run %x3\nfree %x2\n",
        "in iteration 0 of r1: %x2 was made outside and is gone",
    ),
    "random numbers in a body": (
        MLP_SOURCE,
        MLP_SPLIT,
        "%h = aten.mm(%xp, %w1t) : f32[3,5]",
        "%h = magis.bernoulli([1*r1,5], [5,1], 0.5, dtype=torch.float32) : f32[3,5]",
        "line 12: %h runs in every iteration of r1, but it draws random numbers",
    ),
    "more random numbers": (
        MLP_SOURCE,
        MLP_SPLIT,
        "%w1t = ",
        "%more = magis.bernoulli([4], [1], 0.5, dtype=torch.float32) : f32[4]\n%w1t = ",
        "the split graph leaves the random generator in another state",
    ),
}


@pytest.mark.parametrize("what", DAMAGED_MEANING)
def test_damaged_graphs_mean_something_else(what):
    source, split, old, new, message = DAMAGED_MEANING[what]
    with pytest.raises(PlanError, match=message):
        check_fission(source, changed(split, old, new))


def test_a_loop_without_results():
    text = 'magis 1\n%n = magis.begin("r1", 1, 2, []) : none\n'
    with pytest.raises(PlanError, match=r"^line 2: magis.begin: r1 has no result$"):
        parse(text)
