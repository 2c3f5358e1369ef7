"""The plan verifier: facts small enough to count by hand, one refusal per thing that it checks."""

import re

import pytest
from verify_support import MLP, MLP_PLAN, MLP_RECOMPUTE, changed

from magis import _core
from magis.errors import PlanError
from magis.verify import check_types, verify_plan


def test_bytes_of_the_mlp():
    # Live while %da runs: %do, %a, %loss, %dw2 and its own result. Inputs: %w1, %w2, %x, %y.
    facts = verify_plan(MLP_PLAN)
    assert facts.transient_peak_bytes == 32 + 80 + 4 + 40 + 80
    assert facts.persistent_bytes == 60 + 40 + 48 + 32
    assert facts.peak_bytes == 416
    assert facts.statements == 15
    assert facts.recomputed == []
    assert facts.peak_statement == "run %da (line 39)"


def test_bytes_of_recomputation():
    facts = verify_plan(MLP_RECOMPUTE)
    assert facts.recomputed == ["h", "a"]
    assert facts.transient_peak_bytes == 236  # at %da as before


def test_bytes_on_a_gpu_are_rounded_per_allocation():
    facts = verify_plan(MLP_PLAN, device="a100")
    assert facts.transient_peak_bytes == 5 * 512
    assert facts.persistent_bytes == 4 * 512


def test_scratch_counts_while_its_operator_runs():
    plan = changed(
        MLP_PLAN,
        "%sq = aten.mul.Tensor(%d, %d) : f32[4,2]",
        "%sq = aten.mul.Tensor(%d, %d) : f32[4,2] scratch 1000",
    )
    facts = verify_plan(plan)
    assert facts.transient_peak_bytes == 80 + 32 + 32 + 1000
    assert facts.peak_statement == "run %sq (line 34)"


DROPOUT = """magis 1
param %w "w" : f32[4]
batch %x "[0]" : f32[4]
grad %g "w" : f32[4]
%m1 = magis.bernoulli([4], [1], 0.5, dtype=torch.float32) : f32[4]
%m2 = magis.bernoulli([4], [1], 0.5, dtype=torch.float32) : f32[4]
%y = aten.mul.Tensor(%x, %m1) : f32[4]
%z = aten.mul.Tensor(%w, %m2) : f32[4]
%u = aten.add.Tensor(%y, %z) : f32[4]
%t = aten.mul.Tensor(%y, %g) : f32[4]
%s = aten.sum(%t) : f32[]
%r = aten.add_.Tensor(%g, %u) : none
output loss "" %s
program
run %m1
run %m2
run %y
free %m1
run %z over %m2
run %u over %z
run %t over %y
run %s
free %t
run %r
free %u
"""


def test_a_plan_with_random_and_mutating_operators():
    # Masks and %y, 16 bytes each; then %m1 goes, %z and %u take over %m2, %t takes over %y.
    assert verify_plan(DROPOUT).transient_peak_bytes == 3 * 16


REFUSED = {
    "an operator that does not run": (
        MLP_PLAN,
        "run %sq\nrun %loss\nfree %sq\n",
        "",
        "line 15: the program never runs %sq",
    ),
    "two runs of one copy": (
        MLP_PLAN,
        "run %loss",
        "run %loss\nrun %loss",
        "makes %loss a second time",
    ),
    "a statement of no operator": (MLP_PLAN, "run %sq", "run %w1t", "%w1t is not the first result"),
    "reading before it is made": (MLP_PLAN, "run %o\n", "", "reads %o, which is not made yet"),
    "reading a copy that is not made": (
        MLP_PLAN,
        "run %dw2",
        "run %dw2 reading %a.1",
        r"reads %a\.1, which is not made",
    ),
    "naming an operand that it does not read": (
        MLP_PLAN,
        "run %da\n",
        "run %da reading %a\n",
        "names %a, which it does",
    ),
    "a free before the last use": (
        MLP_PLAN,
        "run %dw2\n",
        "run %dw2\nfree %a\n",
        r"%a is still read by run %dh over %da",
    ),
    "a free of an input": (MLP_PLAN, "free %dh", "free %dh, %w1", "%w1 is an input"),
    "a free of an output": (MLP_PLAN, "free %dh", "free %dh, %dw1", "%dw1 is an output"),
    "a free of what is gone": (
        MLP_PLAN,
        "free %dh",
        "free %dh, %a",
        "%a is not live, it was gone after free %a",
    ),
    "a missing free": (MLP_PLAN, "free %a\n", "", "%a is never freed"),
    "a free that comes late": (
        MLP_PLAN,
        "free %a\nrun %dw1\nfree %dh",
        "run %dw1\nfree %dh, %a",
        "%a is held too long",
    ),
    "a dead copy that stays": (MLP_RECOMPUTE, "free %a.1\n", "", r"%a\.1 is never freed"),
    "in place over what is read later": (
        MLP_PLAN,
        "run %o\nrun %d over %o\nrun %sq\n",
        "run %o\nrun %d over %o\nrun %sq over %d\n",
        "%d is still read by run %do over %d",
    ),
    "in place over an input": (MLP_PLAN, "run %d over %o", "run %d over %y", "%y is an input"),
    "in place over another layout": (
        MLP_PLAN,
        "run %loss",
        "run %loss over %sq",
        r"%sq is f32\[4,2\], the result is f32\[\]",
    ),
    "in place over what it does not read": (
        MLP_PLAN,
        "run %loss",
        "run %loss over %a",
        "does not read %a",
    ),
    "a recomputed random operator": (
        DROPOUT,
        "run %m2\nrun %y\nfree %m1\n",
        "free %m1\nrun %m2\nrun %m1 as .1\nrun %y reading %m1.1\nfree %m1.1\n",
        "it draws random numbers",
    ),
    "random operators out of order": (
        DROPOUT,
        "run %m1\nrun %m2\n",
        "run %m2\nrun %m1\n",
        "runs before %m1, and both draw",
    ),
    "a write before another reader": (
        DROPOUT,
        "run %t over %y\n",
        "run %r\nrun %t over %y\n",
        "reads %g after it was written to",
    ),
    "a write done twice": (
        DROPOUT,
        "run %r\n",
        "run %r\nrun %r as .1\n",
        "it writes to an operand",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    text, old, new, message = REFUSED[what]
    with pytest.raises(PlanError, match=message):
        verify_plan(changed(text, old, new))


def test_errors_quote_line_and_statement():
    message = "line 32: free %a: %a is still read by run %dh over %da (line 42)"
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        verify_plan(changed(MLP_PLAN, "run %o\n", "free %a\nrun %o\n"))


def test_a_graph_alone_is_no_plan():
    with pytest.raises(PlanError, match="no program"):
        verify_plan(MLP)


IN_PLACE = """magis 1
batch %x "[0]" : f32[3,3]
%a = aten.neg(%x) : f32[3,3]
%t = aten.permute(%a, [1,0]) : f32[3,3]{1,3}
%y = OPERATION : f32[3,3]
output aux "" %y
program
run %a
run %y over %a
"""


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("aten.mul.Tensor(%a, %a)", ""),
        ("aten.addmm(%a, %x, %x)", ""),
        ("aten.where.self(%x, %x, %a)", ""),
        ("aten.mul.Tensor(%a, %t)", "more than one layout"),
        ("aten.addmm(%a, %a, %x)", "not pointwise and reads %a twice"),
        ("aten._softmax(%a, 1, false)", "aten._softmax has no form"),
        ("aten.mm(%a, %x)", "aten.mm has no form that works over argument 0"),
        ("aten.addmm(%x, %a, %x)", "aten.addmm has no form that works over argument 1"),
        ("aten.neg(%t)", r"%t is f32\[3,3\]\{1,3\}, the result is f32\[3,3\]"),
        ("aten.cat([%a])", "inside a list"),
    ],
)
def test_who_may_run_in_place(operation, message):
    plan = IN_PLACE.replace("OPERATION", operation)
    if message:
        with pytest.raises(PlanError, match=message):
            verify_plan(plan)
    else:
        assert verify_plan(plan).transient_peak_bytes == 36


@pytest.mark.parametrize("text", [MLP, MLP_PLAN, MLP_RECOMPUTE], ids=["graph", "plan", "recompute"])
def test_types_of_the_mlp(text):
    check_types(text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "%a = aten.relu(%h) : f32[4,5]",
            "%a = aten.relu(%h) : f32[4,5]{1,4}",
            r"%a is recorded as",
        ),
        ("%a = aten.relu(%h) : f32[4,5]", "%a = aten.relu(%h) : f32[4,5]/96", r"as f32\[4,5\]/96"),
        (
            "%h = aten.mm(%x, %w1t) : f32[4,5]",
            "%h = aten.mm(%x, %w1t) : f64[4,5]",
            r"%h is recorded",
        ),
        (
            "%da = aten.mm(%do, %w2) : f32[4,5]",
            "%da = aten.alias(%h) : f32[4,5]",
            "%da shares storage with %h",
        ),
        (
            "aten.permute(%dh, [1,0]) : f32[5,4]{1,5}",
            "aten.permute(%dh, [1,0]) : f32[5,4]",
            "recorded",
        ),
    ],
)
def test_wrong_types_are_found(old, new, message):
    with pytest.raises(PlanError, match=message):
        check_types(changed(MLP, old, new))


def test_packing_and_unpacking_bits_take_a_byte_an_element_where_the_text_does_not_say():
    text = """magis 1
device cpu
batch %x "x" : f32[16,64]
%drawn = magis.bernoulli([16,64], [64,1], 0.5, dtype=torch.bool, device=device("cpu")) : bool[16,64]
%bits = magis.pack_bits(%drawn) : u8[16,8]
%mask = magis.unpack_bits(%bits, torch.float32) : f32[16,64]
output aux "" %mask
"""
    plan = _core.Plan.program_order(_core.Graph.parse(text))
    facts = verify_plan(plan.text(), device="cpu")
    assert facts.transient_peak_bytes == plan.simulate("cpu").transient_peak_bytes
    assert facts.transient_peak_bytes == 128 + 16 * 64 * 4 + 16 * 64
