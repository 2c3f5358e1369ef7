"""The verifiers' own reading of graph and plan text."""

import re

import pytest
from fission_texts import MERGED, SAME_AXIS, TWO_AXES

from magis.errors import PlanError
from magis.verify.document import Copy, DeviceWord, Free, PartLength, Ref, Run, Symbol, Type
from magis.verify.loops import sliced_dimension
from magis.verify.text import parse

HEAD = 'magis 1\ndevice cpu\nparam %w "w" : f32[2,3]\n'


def argument(text: str) -> object:
    return parse(f"{HEAD}%r = aten.op({text}) : none\n").operations[0].args[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("%w", Ref("w")),
        ("-3", -3),
        ("1e-05", 1e-05),
        ("1.0", 1.0),
        ("inf", float("inf")),
        ("-inf", float("-inf")),
        ("true", True),
        ("false", False),
        ("none", None),
        ('"a \\"b\\" # c"', 'a "b" # c'),
        ("torch.float32", Symbol("float32")),
        ('device("cuda")', DeviceWord("cuda")),
        ("[%w, [1, none], []]", [Ref("w"), [1, None], []]),
    ],
)
def test_every_kind_of_argument(text, value):
    read = argument(text)
    assert read == value
    assert type(read) is type(value)


def test_nan_is_a_float():
    read = argument("nan")
    assert isinstance(read, float)
    assert read != read


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("f32[]", Type("f32", (), (), 0, 4)),
        ("i64[8,128]", Type("i64", (8, 128), (128, 1), 0, 8192)),
        ("f32[3,5]{1,3}", Type("f32", (3, 5), (1, 3), 0, 60)),
        ("bf16[4]{0}+2", Type("bf16", (4,), (0,), 2, 6)),
        ("f32[2]+1/64", Type("f32", (2,), (1,), 1, 64)),
        ("bool[0,7]", Type("bool", (0, 7), (7, 1), 0, 0)),
    ],
)
def test_types_print_as_they_were_written(text, type_):
    read = parse(f'magis 1\nparam %w "w" : {text}\n').inputs[0].type
    assert read == type_
    assert str(read) == text


def test_a_whole_plan():
    text = (
        HEAD
        + """
meta model "tiny"
site @1 "block.0" "model.py:7"
scalar %s "[2]"
%a, %b = aten.f.x(%w, 1, dim=[0], p=%s) : f32[2], none @1 backward scratch 64   # a comment
%v = aten.view(%a, [1,2]) : f32[1,2]
%c = aten.g(%v) : f32[1,2]
output loss "" %c
program
run %a
run %a as .1
run %c reading %a.1 over %a.1
free %a
"""
    )
    document = parse(text)
    assert document.meta == {"model": "tiny"}
    assert document.sites == {1: ("block.0", "model.py:7")}
    first = document.operations[0]
    assert first.results == ("a", "b")
    assert first.types[1] is None
    assert first.kwargs == {"dim": [0], "p": Ref("s")}
    assert (first.site, first.backward, first.scratch) == (1, True, 64)
    assert first.reads() == ["w", "s"]
    assert list(document.operators) == ["a", "c"]
    assert document.read_tensors(document.operators["c"]) == ["a"]
    assert document.program == [
        Run("a", 13),
        Run("a", 14, copy=1),
        Run("c", 15, reading=(Copy("a", 1),), over=Copy("a", 1)),
        Free((Copy("a"),), 16),
    ]
    assert [str(s) for s in document.program] == [
        "run %a",
        "run %a as .1",
        "run %c reading %a.1 over %a.1",
        "free %a",
    ]


def test_loops_of_a_graph():
    document = parse(TWO_AXES)
    outer, inner = document.loops["r1"], document.loops["r2"]
    assert (outer.part, outer.length, outer.parent) == (3, 8, None)
    assert (inner.part, inner.length, inner.parent) == (4, 10, outer)
    assert (outer.results, inner.results) == (["y", "z"], ["yr", "rows"])
    assert (outer.begin.line, outer.end.line) == (6, 20)
    assert {n: op.results[0] for n, op in inner.writers.items()} == {"yr": "n1", "rows": "n2"}
    around = {name: document.loops_around(name) for name in document.operators}
    assert around["x2"] == around["y"] == around["e1"] == []
    assert around["x3"] == around["yr"] == around["e2"] == around["n3"] == ["r1"]
    assert around["mm"] == around["n2"] == ["r1", "r2"]


def test_part_lengths():
    document = parse(SAME_AXIS)
    length = document.loops["r2"].length
    assert length == PartLength(1, ("r1",))
    assert (str(length), document.full(length)) == ("1*r1", 5)
    assert sliced_dimension(parse(MERGED).operators["n1"]) == (0, PartLength(6, ("r1",)))
    assert parse(MERGED).views["flat"].args[1] == [PartLength(5, ("r1", "r2"))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%r = aten.op(%x) : none", "line 4: %x is not defined"),
        ("%w = aten.op() : none", "line 4: %w is defined twice"),
        ("%r = op(%w) : none", "line 4: op is not <namespace>.<operator>[.<overload>]"),
        ("%r = aten.op(%w : none", "line 4: expected ',', found ':'"),
        ("%r = aten.op(%w", "line 4: expected ',', found 'the end'"),
        ("%r = aten.op(%w) : f33[2]", "line 4: f33 is not a dtype"),
        ("%r = aten.op(%w) : f32[2]/4", "line 4: a storage of 4 bytes cannot hold 8"),
        ("%r, %q = aten.op(%w) : none", "line 4: 2 results but 1 types"),
        ("%r = aten.op(%w) : none 7", "line 4: '7' is left over"),
        ('output thing "" %w', "line 4: thing is not a kind of output"),
        ('output loss "" %w.1', "line 4: %w.1 names a copy, which only a program may do"),
        ('scalar %s "[1]" : f32[]', "line 4: a scalar has no type"),
        ("whatever", "line 4: 'whatever' begins no line"),
        ("$", "line 4: cannot read '$'"),
        ("%r = aten.op(3*) : none", "line 4: cannot read '*) : none'"),
        ("%r = aten.op(r1*3) : none", "line 4: cannot read '*3) : none'"),
        ("%r = aten.op([3*r1]) : none", "line 4: aten.op: 3*r1 names no loop before it: r1"),
    ],
)
def test_errors_name_the_line(line, message):
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        parse(HEAD + line)


def test_foreign_text_is_refused():
    with pytest.raises(PlanError, match="line 1: expected 'magis 1'"):
        parse("digraph {}")
