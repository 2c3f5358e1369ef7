"""Random inputs suit the graph that they are for."""

import torch

from magis.verify import evaluate, random_inputs

LOOKUPS = """magis 1
param %table "table" : f32[7,3]
buffer %variance "variance" : f32[3]
batch %ids "ids" : i64[40]
batch %labels "labels" : i64[40]
batch %columns "columns" : i64[2,3]
batch %order "order" : i64[5]
batch %rows "rows" : i64[6]
batch %mask "mask" : bool[40]
batch %flags "flags" : i64[64]
scalar %s "s"
%narrow = aten.view(%ids, [5,8]) : i64[5,8]
%e = aten.embedding(%table, %narrow) : f32[5,8,3]
%f = aten.view(%e, [40,3]) : f32[40,3]
%loss, %count = aten.nll_loss_forward(%f, %labels, none, 1, -100) : f32[], f32[]
%g = aten.gather(%table, 1, %columns) : f32[2,3]
%o = aten.index_select(%table, 0, %order) : f32[5,3]
%r = aten.index.Tensor(%table, [%rows]) : f32[6,3]
%d = aten.rsqrt(%variance) : f32[3]
%n = aten.mul.Scalar(%d, %s) : f32[3]
%m = aten.logical_not(%mask) : bool[40]
%z = aten.add.Tensor(%flags, %flags) : i64[64]
output loss "" %loss
output aux "g" %g
output aux "o" %o
output aux "r" %r
output aux "n" %n
output aux "m" %m
output aux "z" %z
"""


def test_they_can_be_looked_up():
    drawn = random_inputs(LOOKUPS)
    assert all(torch.isfinite(value).all() for value in evaluate(LOOKUPS, drawn))
    highest = {n: int(v.max()) for n, v in drawn.items() if v is not None and n != "s"}
    assert 2 < highest["ids"] < 7
    assert highest["labels"] == 2
    assert highest["columns"] < 3
    assert highest["flags"] == 1
    assert drawn["variance"].min() > 0
    assert 0.5 <= drawn["s"] <= 1.5
    assert drawn["mask"].any()
    assert not drawn["mask"].all()


def test_a_seed_gives_the_same_inputs():
    first, again, other = (random_inputs(LOOKUPS, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first["table"], again["table"])
    assert not torch.equal(first["table"], other["table"])


def test_layouts_are_the_recorded_ones():
    text = 'magis 1\nbatch %x "x" : f32[2,3]{1,2}+1/32\noutput aux "" %x\n'
    value = random_inputs(text)["x"]
    assert (value.stride(), value.storage_offset()) == ((1, 2), 1)
    evaluate(text, {"x": value})
