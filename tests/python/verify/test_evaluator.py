"""The reference evaluator against eager PyTorch."""

import base64
import struct

import pytest
import torch
from torch import nn
from verify_support import MLP, MLP_PLAN, MLP_RECOMPUTE, changed, mlp_inputs

from magis.errors import PlanError
from magis.verify import evaluate, evaluate_all, inputs_from


def eager_mlp(dtype: torch.dtype) -> list[torch.Tensor]:
    values = {name: value.to(dtype) for name, value in mlp_inputs().items()}
    w1, w2 = values["w1"].requires_grad_(), values["w2"].requires_grad_()
    loss = ((torch.relu(values["x"] @ w1.T) @ w2.T - values["y"]) ** 2).sum()
    return [loss.detach(), *torch.autograd.grad(loss, [w1, w2])]


@pytest.mark.parametrize("text", [MLP, MLP_PLAN, MLP_RECOMPUTE], ids=["graph", "plan", "recompute"])
def test_float64_agrees_with_eager_in_float64(text):
    for value, reference in zip(
        evaluate(text, mlp_inputs()), eager_mlp(torch.float64), strict=True
    ):
        assert value.dtype == torch.float64
        torch.testing.assert_close(value, reference, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("text", [MLP_PLAN, MLP_RECOMPUTE], ids=["plan", "recompute"])
def test_a_program_gives_its_graphs_bits_in_the_recorded_dtypes(text):
    graph, program = (evaluate(t, mlp_inputs(), dtype=None) for t in (MLP, text))
    for value, reference in zip(program, graph, strict=True):
        assert value.dtype == torch.float32
        assert torch.equal(value, reference)


def test_inputs_come_from_model_and_batch():
    text = """magis 1
param %w "0.weight" : f32[2,3]
buffer %n "1.num_batches_tracked" : i64[]
grad %g "0.weight" : f32[2,3]
batch %x "['x'][0]" : f32[4,3]
scalar %s "['s']"
state %m "0.weight.momentum" : f32[2,3]
output aux "" %w
"""
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    model[0].weight.grad = torch.ones(2, 3)
    x, momentum = torch.ones(4, 3), torch.zeros(2, 3)
    found = inputs_from(text, model, {"x": [x], "s": 0.5}, state={"0.weight.momentum": momentum})
    assert found["w"] is model[0].weight
    assert found["n"] is model[1].num_batches_tracked
    assert found["g"] is model[0].weight.grad
    assert found["x"] is x
    assert found["s"] == 0.5
    assert found["m"] is momentum
    with pytest.raises(PlanError, match=r"line 5: batch %x is not found at \"\['x'\]\[0\]\""):
        inputs_from(text, model, {"s": 0.5}, state={"0.weight.momentum": momentum})


def test_mutations_stay_with_the_evaluation():
    text = """magis 1
grad %g "w" : f32[2]
batch %x "[0]" : f32[2]
scalar %s "[1]"
%y = aten.mul.Scalar(%x, %s) : f32[2]
%r = aten.add_.Tensor(%g, %y) : none
output aux "" %y
"""
    mine = torch.tensor([1.0, 2.0])
    end = evaluate_all(text, {"g": mine, "x": torch.tensor([3.0, 4.0]), "s": 0.5}, dtype=None)
    assert end.outputs[0].tolist() == [1.5, 2.0]
    assert end.inputs["g"].tolist() == [2.5, 4.0]
    assert mine.tolist() == [1.0, 2.0]


def test_constants_dtype_arguments_and_factories_follow_the_precision():
    data = base64.b64encode(struct.pack("<2f", 0.1, 0.2)).decode()
    text = f"""magis 1
const %c "{data}" : f32[2]
batch %x "[0]" : i64[2]
%f = aten._to_copy(%x, dtype=torch.float32) : f32[2]
%one = aten.scalar_tensor(1.0) : f32[]
%m = aten.mul.Tensor(%f, %c) : f32[2]
%y = aten.add.Tensor(%m, %one) : f32[2]
output aux "" %y
"""
    x = torch.tensor([3, 4])
    single = evaluate(text, {"x": x}, dtype=None)[0]
    double = evaluate(text, {"x": x})[0]
    assert torch.equal(single, x.float() * torch.tensor([0.1, 0.2]) + 1)
    assert double.dtype == torch.float64
    assert torch.equal(double, x.double() * torch.tensor([0.1, 0.2]).double() + 1)


def test_bernoulli_fills_the_recorded_layout_in_memory_order():
    text = """magis 1
%m = magis.bernoulli([3,5], [1,3], 0.5, dtype=torch.float32) : f32[3,5]{1,3}
output aux "" %m
"""
    drawn = evaluate(text, {}, dtype=None, seed=11)[0]
    torch.manual_seed(11)
    assert torch.equal(drawn, torch.empty(3, 5).T.contiguous().T.copy_(drawn))
    torch.manual_seed(11)
    assert torch.equal(drawn, torch.empty_strided((3, 5), (1, 3)).bernoulli_(0.5))
    assert not torch.equal(drawn, evaluate(text, {}, dtype=None, seed=12)[0])


def test_inputs_keep_their_layout():
    text = """magis 1
batch %x "[0]" : f32[2,3]{1,2}+1/32
%v = aten.as_strided(%x, [6], [1], 1) : f32[6]+1/32
%y = aten.clone(%v) : f32[6]
output aux "" %y
"""
    whole = torch.arange(8.0)
    x = whole.as_strided((2, 3), (1, 2), 1)
    for dtype in (None, torch.float64):
        assert evaluate(text, {"x": x}, dtype=dtype)[0].tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(PlanError, match=r"line 2: input %x is recorded as f32\[2,3\]\{1,2\}\+1/32"):
        evaluate(text, {"x": x.contiguous()})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("run %d over %o", "run %d over %o\nfree %d", r"run %sq reads %d, which was freed"),
        (
            "run %o\n",
            "run %o\nrun %d over %a\n",
            r"reads %a, which was overwritten by run %d over %a",
        ),
        ("run %o\n", "", r"run %d over %o reads %o, which is not made yet"),
        ("run %dw2", "run %dw2 reading %a.1", r"reads %a\.1, which is not made yet"),
        ("free %sq", "free %sq, %sq", r"%sq is not live, which was freed"),
        ("run %loss", "free %dh", r"%dh is not live, it was not made"),
    ],
)
def test_reading_what_is_gone_is_an_error(old, new, message):
    with pytest.raises(PlanError, match=message):
        evaluate(changed(MLP_PLAN, old, new), mlp_inputs())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%loss = aten.sum(%sq)", "%loss = aten.summ(%sq)", "no operator aten.summ"),
        ("%dw2 = aten.mm(%dot, %a)", "%dw2 = aten.mm(%dot, %da0)", "%da0 is not defined"),
        ("%o = aten.mm(%a, %w2t) : f32[4,2]", "%o = aten.mm(%a, %w2t) : f32[4,3]", "recorded as"),
        ("%o = aten.mm(%a, %w2t)", "%o = aten.mm(%w2t, %a)", "aten.mm fails"),
    ],
)
def test_a_wrong_graph_is_an_error(old, new, message):
    with pytest.raises(PlanError, match=message):
        evaluate(changed(MLP, old, new), mlp_inputs())


def test_a_missing_input_is_named():
    inputs = mlp_inputs()
    del inputs["w2"]
    with pytest.raises(PlanError, match="line 5: no value for input %w2"):
        evaluate(MLP, inputs)
