"""Programs that swap: bytes small enough to count by hand, one refusal per rule, and what the
reference evaluator reads of what is on its way."""

import re

import pytest
import torch
from swap_texts import LOOP_GRAPH, LOOP_SWAP, MLP_SWAP, TWICE
from verify_support import MLP, changed, mlp_inputs

from magis.errors import PlanError
from magis.verify import check_types, evaluate, verify_plan
from magis.verify.document import Await, Copy, Load, Store
from magis.verify.text import parse


def test_statements_are_read_and_printed():
    program = parse(changed(MLP_SWAP, "await %a.1", "await %a.1, %w1")).program
    moves = [s for s in program if isinstance(s, Store | Load | Await)]
    assert moves == [
        Store(Copy("a"), 32),
        Await((Copy("a"),), 34),
        Load(Copy("a", 1), 41),
        Await((Copy("a", 1), Copy("w1")), 42),
    ]
    assert [str(s) for s in moves] == [
        "store %a",
        "await %a",
        "load %a as .1",
        "await %a.1, %w1",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("store", "expected a ref, found 'the end'"),
        ("store %a, %o", "',' is left over"),
        ("load %a", "expected 'as', found 'the end'"),
        ("load %a.1 as .2", "%a.1 names a copy, which only a program may do"),
        ("load %a as 1", "expected '.', found '1'"),
        ("load %a as .0", "copies are numbered from 1"),
        ("await", "expected a ref, found 'the end'"),
    ],
)
def test_malformed_statements(line, message):
    with pytest.raises(PlanError, match=f"^line 32: {re.escape(message)}$"):
        parse(changed(MLP_SWAP, "store %a\n", f"{line}\n"))


# ---- bytes


def test_bytes_of_the_mlp():
    # While %da runs %a is back: the peak is what it was.
    facts = verify_plan(MLP_SWAP)
    assert facts.transient_peak_bytes == 32 + 80 + 4 + 40 + 80
    assert facts.host_peak_bytes == 128  # 80, rounded up
    assert facts.statements == 20
    assert facts.recomputed == []


def test_bytes_of_a_loop():
    # %m, %r, %t, %a and %b; then %r alone is on the host, in one piece.
    facts = verify_plan(LOOP_SWAP)
    assert facts.transient_peak_bytes == 128 + 128 + 4 + 48 + 48
    assert facts.host_peak_bytes == 128
    assert facts.peak_statement == "run %b (line 24)"


# Without the swapping of %r.
LOOP_INSIDE = changed(
    LOOP_SWAP,
    "store %r\nrun %u\nawait %r\nfree %r\nload %r as .1\nawait %r.1\nrun %v reading %r.1 over %u\n"
    "free %r.1\n",
    "run %u\nrun %v over %u\nfree %r\n",
)


def test_bytes_of_a_body():
    facts = verify_plan(LOOP_INSIDE)
    assert facts.transient_peak_bytes == 128 + 128 + 4 + 48 + 48
    assert facts.host_peak_bytes == 64  # 48, rounded up


def test_a_tensor_that_leaves_twice_is_on_the_host_all_the_time():
    # %c or %g beside the outputs, and %a or %e once; never three of them.
    facts = verify_plan(TWICE)
    assert facts.transient_peak_bytes == 16 + 16 + 4 + 128 + 128
    assert facts.host_peak_bytes == 128
    assert facts.peak_statement == "run %f (line 28)"


def test_a_load_takes_its_bytes_before_anything_runs():
    text = changed(
        TWICE,
        "run %f\nfree %e\nawait %a.1\nfree %a.1\nrun %g\nload %a as .2\n",
        "run %g\nload %a as .2\nawait %a.1\nfree %a.1\nrun %f\nfree %e\n",
    )
    facts = verify_plan(text)  # two copies of %a, %e and %g
    assert facts.transient_peak_bytes == 16 + 16 + 4 * 128
    assert facts.peak_statement == "load %a as .2 (line 29)"


def test_host_space_is_given_back_with_the_last_load():
    # %e could follow %a on the host once %a.2 has arrived, not after %a.1.
    plan = TWICE.replace("run %f\nfree %e\n", "store %e\nrun %f\nawait %e\nfree %e\n")
    assert verify_plan(plan).host_peak_bytes == 2 * 128
    ended = plan.replace("load %a as .2\nawait %a.2\nrun %h reading %a.2 over %g\nfree %a.2\n", "")
    ended = ended.replace("await %a.1\nfree %a.1\nrun %g\n", "run %g\n")
    ended = ended + "run %h reading %a.1 over %g\nfree %a.1\n"
    assert verify_plan(ended).host_peak_bytes == 128


def test_bytes_on_a_gpu_are_rounded_on_the_device_alone():
    facts = verify_plan(MLP_SWAP, device="a100")
    assert facts.transient_peak_bytes == 5 * 512
    assert facts.host_peak_bytes == 128


# ---- rules

LATER_LOAD = "load %a as .1\nawait %a.1\nrun %dw2 reading %a.1\n"
AWAY = "store %a\nrun %o\nawait %a\nfree %a\n"

REFUSED = {
    # what may leave
    "an input": (MLP_SWAP, "run %sq\n", "store %w1\nrun %sq\n", "%w1 is not a tensor that an"),
    "a view": (MLP_SWAP, "run %sq\n", "store %w1t\nrun %sq\n", "%w1t is not live, it is not made"),
    "an output": (MLP_SWAP, "free %sq\n", "free %sq\nstore %loss\n", "%loss is an output"),
    "what is loaded but is no tensor": (
        MLP_SWAP,
        "run %sq\n",
        "load %w1t as .1\nrun %sq\n",
        "%w1t was never stored",
    ),
    "holes": (
        TWICE.replace("%a = aten.neg(%x) : f32[4,8]", "%a = aten.neg(%x) : f32[4,8]{9,1}"),
        "store %a\n",
        "store %a\n",
        "%a is f32[4,8]{9,1}, which does not fill its storage densely",
    ),
    "an offset": (
        TWICE.replace("%a = aten.neg(%x) : f32[4,8]", "%a = aten.neg(%x) : f32[4,8]+1"),
        "store %a\n",
        "store %a\n",
        "%a is f32[4,8]+1, which does not fill",
    ),
    "a larger storage": (
        TWICE.replace("%a = aten.neg(%x) : f32[4,8]", "%a = aten.neg(%x) : f32[4,8]/256"),
        "store %a\n",
        "store %a\n",
        "%a is f32[4,8]/256, which does not fill",
    ),
    "the same element twice": (
        TWICE.replace("%a = aten.neg(%x) : f32[4,8]", "%a = aten.neg(%x) : f32[4,8]{0,1}"),
        "store %a\n",
        "store %a\n",
        "%a is f32[4,8]{0,1}, which does not fill",
    ),
    # stores
    "before it is made": (
        MLP_SWAP,
        "run %a over %h\nstore %a\n",
        "store %a\nrun %a over %h\n",
        "store %a: %a is not live, it is not made",
    ),
    "twice": (
        TWICE,
        "await %a.1\nrun %e",
        "await %a.1\nstore %a.1\nrun %e",
        "the host has it already, since store %a (line 18)",
    ),
    "gone before the store is through": (
        MLP_SWAP,
        "await %a\nfree %a\n",
        "free %a\n",
        "free %a: %a is still on its way: store %a (line 32) is not awaited",
    ),
    "overwritten before the store is through": (
        MLP_SWAP,
        "run %sq\nrun %loss\nfree %sq\nrun %do over %d\n",
        "run %sq\nrun %loss\nfree %sq\nstore %d\nrun %do over %d\n",
        "run %do over %d: %d is still on its way: store %d (line 40) is not awaited",
    ),
    # loads
    "never stored": (MLP_SWAP, AWAY, "run %o\nfree %a\n", "load %a as .1: %a was never stored"),
    "loaded before the store": (
        MLP_SWAP,
        "store %a\nrun %o\nawait %a\n",
        "load %a as .2\nstore %a\nrun %o\nawait %a, %a.2\n",
        "load %a as .2: %a was never stored",
    ),
    "a number that is loaded": (
        TWICE,
        "load %a as .1\n",
        "load %a as .1\nload %a as .1\n",
        "there is a copy .1 of what is made with %a already",
    ),
    "a number that ran": (
        MLP_SWAP,
        "run %sq\n",
        "run %h as .1\nrun %a as .1 reading %h.1 over %h.1\nrun %sq\n",
        "load %a as .1: there is a copy .1",
    ),
    "a run of a number that is loaded": (
        MLP_SWAP,
        "run %da\n",
        "run %h as .1\nrun %a as .1 reading %h.1 over %h.1\nrun %da\n",
        "run %a as .1 reading %h.1 over %h.1: makes copies .1, as did load %a as .1 (line 41)",
    ),
    # what is on its way
    "read before it is there": (
        MLP_SWAP,
        "await %a.1\n",
        "",
        "run %dw2 reading %a.1: reads %a.1, which is still on its way: load %a as .1 (line 41)",
    ),
    "read in place before it is there": (
        TWICE,
        "await %a.2\nrun %h reading %a.2 over %g\nfree %a.2\n",
        "run %h reading %a.2 over %a.2\nfree %g\n",
        "reads %a.2, which is still on its way",
    ),
    "gone before it is there": (
        TWICE,
        "load %a as .2\n",
        "load %a as .3\nfree %a.3\nload %a as .2\n",
        "free %a.3: %a.3 is still on its way: load %a as .3 (line 33) is not awaited",
    ),
    "never there": (
        TWICE,
        "load %a as .2\n",
        "load %a as .3\nload %a as .2\n",
        "%a.3 is never freed, load %a as .3 (line 33) is its last use",
    ),
    # awaits
    "a wait for what is gone": (
        MLP_SWAP,
        "run %sq\n",
        "await %a\nrun %sq\n",
        "free %a: %a is still read by await %a (line 37)",
    ),
    "a wait for a copy that is not there": (
        MLP_SWAP,
        "run %sq\n",
        "await %a.7\nrun %sq\n",
        "await %a.7: %a.7 is not live, it is not made",
    ),
    "a wait for an input": (
        MLP_SWAP,
        "run %sq\n",
        "await %w1\nrun %sq\n",
        "await %w1: %w1 is an input, which stays where it is",
    ),
    "held longer than the wait": (
        MLP_SWAP,
        "free %a\nrun %d over %o\n",
        "run %d over %o\nfree %a\n",
        "%a is held too long, await %a (line 34) is the last use",
    ),
    "held longer than its use, by a wait for another": (
        TWICE,
        "run %f\nfree %e\nawait %a.1\nfree %a.1\n",
        "run %f\nawait %a.1\nfree %a.1, %e\n",
        "%e is held too long, run %f (line 28) is the last use",
    ),
    "freed by the wait but read later": (
        MLP_SWAP,
        LATER_LOAD,
        "load %a as .1\nawait %a.1\nfree %a.1\nrun %dw2 reading %a.1\n",
        "free %a.1: %a.1 is still read by run %dh",
    ),
    "the original after it left": (
        MLP_SWAP,
        "run %dh reading %a.1 over %da",
        "run %dh over %da",
        "free %a: %a is still read by run %dh over %da",
    ),
    # bodies
    "stored in another body": (
        LOOP_SWAP,
        "run %a\n",
        "store %m\nrun %a\n",
        "store %m: %m is made outside all loops and stays there",
    ),
    "a wait in another body": (
        LOOP_SWAP,
        "run %m\nrun %r\n",
        "run %m\nstore %m\nrun %r\nawait %m\n",
        "await %m: %m is made outside all loops and stays there",
    ),
    "loaded in another body": (
        LOOP_SWAP,
        "run %m\nrun %r\n",
        "run %m\nstore %m\nawait %m\nrun %r\nload %m as .1\n",
        "load %m as .1: %m is made outside all loops and stays there",
    ),
    "a result before the loop ends": (
        LOOP_SWAP,
        "run %n1\n",
        "run %n1\nstore %r\n",
        "store %r: %r is made outside all loops and stays there",
    ),
    "a part after the loop": (
        LOOP_SWAP,
        "store %r\n",
        "load %a as .2\nstore %r\n",
        "load %a as .2: %a is made inside the loop r1 and stays there",
    ),
    "left behind in a body": (
        LOOP_SWAP,
        "run %n2\nfree %s\n",
        "load %a as .2\nawait %a.2\nrun %n2\nfree %s\n",
        "run %end: %a.2 was made in the loop r1 and is not freed there",
    ),
    "a loop that begins with another copy than its body reads": (
        LOOP_SWAP,
        "run %m\nrun %r\n",
        "run %m\nstore %m\nawait %m\nload %m as .1\nawait %m.1\nrun %r reading %m.1\n",
        "run %a: reads %m, but the loop r1 began with %m.1",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    text, old, new, message = REFUSED[what]
    with pytest.raises(PlanError, match=rf"^(line \d+: )?.*{re.escape(message)}"):
        verify_plan(changed(text, old, new))


def test_errors_quote_line_and_statement():
    message = "line 33: store %a: the host has it already, since store %a (line 32)"
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        verify_plan(changed(MLP_SWAP, "store %a\n", "store %a\nstore %a\n"))


ACCEPTED = {
    "stored late": (MLP_SWAP, "store %a\nrun %o\nawait %a\n", "run %o\nstore %a\nawait %a\n"),
    "awaited before its last use": (
        MLP_SWAP,
        "store %a\nrun %o\nawait %a\n",
        "store %a\nawait %a\nrun %o\n",
    ),
    "waiting for nothing": (MLP_SWAP, "await %a.1\n", "await %a.1\nawait %a.1\n"),
    "loaded while the store is on its way": (
        MLP_SWAP,
        "await %a\nfree %a\nrun %d over %o\nrun %sq\nrun %loss\nfree %sq\nrun %do over %d\n"
        "load %a as .1\n",
        "load %a as .1\nawait %a\nfree %a\nrun %d over %o\nrun %sq\nrun %loss\nfree %sq\n"
        "run %do over %d\n",
    ),
    "freed at its last use": (TWICE, "await %a.1\nfree %a.1\nrun %g\n", "run %g\n"),
    "loaded around a loop": (
        LOOP_SWAP,
        "run %m\nrun %r\n",
        "run %m\nstore %m\nawait %m\nfree %m\nload %m as .1\nawait %m.1\nrun %r reading %m.1\n",
    ),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_accepted(what):
    text, old, new = ACCEPTED[what]
    text = changed(text, old, new)
    if what == "freed at its last use":
        text = changed(text, "run %e reading %a.1\n", "run %e reading %a.1\nfree %a.1\n")
    if what == "loaded around a loop":
        text = changed(text, "run %a\n", "run %a reading %m.1\n")
        text = changed(text, "run %end\nfree %m\n", "run %end reading %m.1\nfree %m.1\n")
    verify_plan(text)
    check_types(text)


# ---- execution


def x_of(shape: tuple[int, ...]) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(shape, generator=torch.Generator().manual_seed(3))}


@pytest.mark.parametrize(
    ("graph", "plan", "inputs"),
    [
        (MLP, MLP_SWAP, mlp_inputs()),
        (TWICE.partition("program\n")[0], TWICE, x_of((4, 8))),
        (LOOP_GRAPH, LOOP_SWAP, x_of((8, 4))),
    ],
    ids=["mlp", "twice", "loop"],
)
@pytest.mark.parametrize("dtype", [None, torch.float64], ids=str)
def test_what_comes_back_is_what_left(graph, plan, inputs, dtype):
    expected, found = (evaluate(text, inputs, dtype=dtype) for text in (graph, plan))
    assert all(map(torch.equal, expected, found))
    check_types(plan)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("await %a.1\nrun %dw2 reading %a.1\n", "run %dw2 reading %a.1\nawait %a.1\n"),
        ("run %o\nawait %a\nfree %a\n", "run %o\nfree %a\n"),
    ],
    ids=["read too early", "let go too early"],
)
def test_what_is_not_awaited_reads_as_poison(old, new):
    loss, dw1, dw2 = evaluate(changed(MLP_SWAP, old, new), mlp_inputs())
    assert loss.isfinite()
    assert not dw2.isfinite().any() or not dw1.isfinite().any()


def test_each_iteration_stores_anew():
    # A store that every iteration but the first would find done.
    with pytest.raises(PlanError, match="the host does not have it"):
        evaluate(changed(LOOP_SWAP, "store %a\n", ""), x_of((8, 4)))
    with pytest.raises(PlanError, match="the host has it already"):
        evaluate(changed(LOOP_SWAP, "store %a\n", "store %a\nawait %a\nstore %a\n"), x_of((8, 4)))


def test_who_is_there_twice():
    with pytest.raises(PlanError, match=r"load %a as \.1: %a\.1 is there already"):
        evaluate(changed(MLP_SWAP, "await %a.1\n", "load %a as .1\nawait %a.1\n"), mlp_inputs())
    with pytest.raises(PlanError, match=r"store %a: moves %a, which was freed before"):
        evaluate(changed(MLP_SWAP, "run %sq\n", "store %a\nrun %sq\n"), mlp_inputs())
