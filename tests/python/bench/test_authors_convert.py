"""The importer of the paper authors' graphs: what its statements compute, and what is committed."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import magis._core as core
from magis.verify import check_types, evaluate, random_inputs

AUTHORS = Path(__file__).parents[3] / "bench" / "authors"
sys.path.insert(0, str(AUTHORS))

from convert import ConversionError, convert  # noqa: E402


def node(number: int, kind: str, shape: list[int], args: list[int], **attrs: Any) -> dict[str, Any]:
    weight = attrs.pop("weight", False)
    return {
        "id": number,
        "op": kind,
        "shape": shape,
        "args": args,
        "attrs": attrs,
        "weight": weight,
    }


def matmul(number: int, shape: list[int], args: list[int], **flags: Any) -> dict[str, Any]:
    trans = {f"trans_{x}": flags.pop(x, False) for x in "abc"}
    kind = "flex_matmul" if flags else "matmul"
    return node(number, kind, shape, args, **trans, **flags)


def flex(
    number: int, shape: list[int], args: list[int], summed: int, **flags: Any
) -> dict[str, Any]:
    return matmul(number, shape, args, n_batch_dims=0, n_reduce_dims=summed, **flags)


def attention() -> dict[str, Any]:
    """x [2,3,8] in four heads of 2: scores, mixed values, the output's projection and gradients of
    the value projection, all with the axes where the authors have them."""
    heads = [2, 3, 4, 2]
    nodes = [
        node(0, "placeholder", [2, 3, 8], []),
        *(node(n, "placeholder", [8, 4, 2], [], weight=True) for n in (1, 2, 3)),
        node(4, "placeholder", [4, 2, 8], [], weight=True),
        *(flex(4 + n, heads, [0, n], 1) for n in (1, 2, 3)),
        *(node(7 + n, "permute", [2, 4, 3, 2], [4 + n], dims=[0, 2, 1, 3]) for n in (1, 2, 3)),
        matmul(11, [2, 4, 3, 3], [8, 9], b=True),
        node(12, "ewise.uni.const.div", [2, 4, 3, 3], [11], const=1.5),
        node(13, "softmax", [2, 4, 3, 3], [12], dim=3),
        matmul(14, [2, 4, 3, 2], [13, 10]),
        node(15, "permute", heads, [14], dims=[0, 2, 1, 3]),
        flex(16, [2, 3, 8], [15, 4], 2),
        # of the output's gradient, here the output itself
        flex(17, heads, [16, 4], 1, b=True),
        node(18, "permute", [2, 4, 3, 2], [17], dims=[0, 2, 1, 3]),
        matmul(19, [2, 4, 3, 2], [13, 18], a=True),
        node(20, "permute", heads, [19], dims=[0, 2, 1, 3]),
        flex(21, [8, 4, 2], [0, 20], 2, a=True),
        # the same product written the other way round
        matmul(22, [2, 4, 3, 2], [18, 13], a=True, c=True),
        node(23, "ewise.bin.add_", [8, 4, 2], [3, 21]),
    ]
    return {"workload": "attention", "nodes": nodes}


def test_attention_is_what_its_einsums_say():
    text = convert(attention())
    inputs = random_inputs(text, seed=1)
    check_types(text)
    assert text.count("aten.clone") == 1  # for the weight's gradient
    swapped, updated = evaluate(text, inputs)
    x, q, k, v, o = (inputs[n].double() for n in ("batch_0", *(f"weight_{i}" for i in range(1, 5))))
    queries, keys, values = (torch.einsum("ntc,chd->nhtd", x, w) for w in (q, k, v))
    attended = (torch.einsum("nhtd,nhsd->nhts", queries, keys) / 1.5).softmax(-1)
    y = torch.einsum("nhtd,hdc->ntc", attended @ values, o)
    # The values' gradient, where the output's is y.
    dv = torch.einsum("nhts,nhtd->nhsd", attended, torch.einsum("ntc,hdc->nhtd", y, o))
    torch.testing.assert_close(swapped, dv)
    torch.testing.assert_close(updated, v + torch.einsum("ntc,nhtd->chd", x, dv))


IMAGE = {"layout": "nchw"}
STRIDED = {**IMAGE, "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1]}
ALIKE = {**IMAGE, "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1]}
POOL = {**IMAGE, "kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0]}
TWICE = {**IMAGE, "mode": "nearest"}


def convolutions() -> dict[str, Any]:
    """A small U: a strided convolution, relu, down and up again, both joined; a squared loss and
    its gradients."""
    nodes = [
        node(0, "placeholder", [2, 3, 8, 8], []),  # image
        node(1, "placeholder", [4, 3, 3, 3], [], weight=True),
        node(2, "placeholder", [5, 8, 3, 3], [], weight=True),
        node(3, "placeholder", [2, 5, 4, 4], []),  # gradient of the loss
        node(4, "conv2d", [2, 4, 4, 4], [0, 1], **STRIDED),
        node(5, "ewise.uni.relu", [2, 4, 4, 4], [4]),
        node(6, "pool2d.avg", [2, 4, 2, 2], [5], **POOL),
        node(7, "interpolate", [2, 4, 4, 4], [6], scale=[2, 2], size=None, **TWICE),
        node(8, "concat", [2, 8, 4, 4], [5, 7], dim=1),
        node(9, "conv2d", [2, 5, 4, 4], [8, 2], **ALIKE),
        node(10, "ewise.uni.sigmoid", [2, 5, 4, 4], [9]),
        node(11, "ewise.uni.const.pow", [2, 5, 4, 4], [10], const=2),
        node(12, "ewise.bin.mul", [2, 5, 4, 4], [3, 10]),
        node(13, "ewise.uni.const.mul", [2, 5, 4, 4], [12], const=2),
        node(14, "ewise.bin.sigmoid_backward", [2, 5, 4, 4], [13, 10]),
        node(15, "conv2d_bwd_inp", [2, 8, 4, 4], [14, 2], **ALIKE),
        node(16, "conv2d_bwd_wgt", [5, 8, 3, 3], [8, 14], **ALIKE),
        node(17, "ewise.bin.add_", [5, 8, 3, 3], [2, 16]),
        node(18, "slice", [2, 4, 4, 4], [15], dims=[1], starts=[0], ends=[4]),
        node(19, "slice", [2, 4, 4, 4], [15], dims=[1], starts=[4], ends=[8]),
        node(20, "interpolate_bwd", [2, 4, 2, 2], [19], out_size=[4, 4], **TWICE),
        node(21, "pool2d_bwd.avg", [2, 4, 4, 4], [20, 5], **POOL),
        node(22, "ewise.bin.add", [2, 4, 4, 4], [18, 21]),
        node(23, "ewise.uni.const.gt", [2, 4, 4, 4], [5], const=0),
        node(24, "ewise.bin.mul", [2, 4, 4, 4], [22, 23]),
        node(25, "conv2d_bwd_inp", [2, 3, 8, 8], [24, 1], **STRIDED),
        node(26, "conv2d_bwd_wgt", [4, 3, 3, 3], [0, 24], **STRIDED),
        node(27, "ewise.bin.add_", [4, 3, 3, 3], [1, 26]),
    ]
    return {"workload": "u", "nodes": nodes}


def test_convolutions_are_autograds():
    text = convert(convolutions())
    check_types(text)
    outputs = evaluate(text, random_inputs(text))
    inputs = {name: value.double() for name, value in random_inputs(text).items()}
    x, w1, w2 = (inputs[n].requires_grad_() for n in ("batch_0", "weight_1", "weight_2"))
    down = F.conv2d(x, w1, stride=2, padding=1).relu()
    up = F.interpolate(F.avg_pool2d(down, 2), scale_factor=2)
    loss = F.conv2d(torch.cat([down, up], 1), w2, padding=1).sigmoid() ** 2
    dx, dw1, dw2 = torch.autograd.grad(loss, [x, w1, w2], inputs["batch_3"])
    updated = [(w2 + dw2).detach(), (w1 + dw1).detach()]
    torch.testing.assert_close(outputs, [loss.detach(), dx, *updated])


def test_types_and_outputs_of_a_normed_slice():
    document = {
        "nodes": [
            node(0, "placeholder", [2, 6], []),
            node(
                1,
                "layer_norm",
                [2, 6],
                [0],
                norm_shape=[6],
                multi_out_shapes=[[2, 6], *[[2, 1]] * 2],
            ),
            node(2, "index_out", [2, 6], [1], index=0),
            node(3, "index_out", [2, 1], [1], index=1),
            node(4, "index_out", [2, 1], [1], index=2),
            node(5, "layer_norm_bwd", [2, 6], [2, 0, 3, 4], norm_shape=[6]),
            node(6, "slice", [2, 4], [5], dims=[1], starts=[2], ends=[6]),
            node(7, "softmax_bwd", [2, 4], [6, 6], dim=1),
            node(8, "reshape", [8], [6]),
            node(9, "ewise.bin.sub", [8], [8, 8]),
        ]
    }
    text = convert(document)
    check_types(text)
    assert (
        text.partition("\n\n")[2]
        == """\
batch %batch_0 "['x0']" : f32[2,6]

%layer_norm_1, %mean_1, %rstd_1 = aten.native_layer_norm(%batch_0, [6], none, none, 1e-05) : \
f32[2,6], f32[2,1], f32[2,1]
%layer_norm_backward_5, %nothing_1, %nothing_2 = aten.native_layer_norm_backward(%layer_norm_1, \
%batch_0, [6], %mean_1, %rstd_1, none, none, [true,false,false]) : f32[2,6], none, none
%slice_1 = aten.slice.Tensor(%layer_norm_backward_5, 1, 2, 6) : f32[2,4]{6,1}+2
%softmax_backward_data_7 = aten._softmax_backward_data(%slice_1, %slice_1, 1, torch.float32) : \
f32[2,4]
%clone_1 = aten.clone(%slice_1, memory_format=torch.contiguous_format) : f32[2,4]
%view_1 = aten.view(%clone_1, [8]) : f32[8]
%sub_9 = aten.sub.Tensor(%view_1, %view_1) : f32[8]

output aux "[0]" %softmax_backward_data_7
output aux "[1]" %sub_9
"""
    )
    assert evaluate(text, random_inputs(text))[1].eq(0).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (node(1, "fold", [2], [0]), "node 1: there is no operator for fold"),
        (node(1, "ewise.uni.const.gt", [2], [0], const=0), r"node 1: only relu\(x\) > 0 is a mask"),
        (node(1, "ewise.uni.relu", [2], [0], const=0) | {"op": "permute", "attrs": {"dims": [0]},
         "shape": [3]}, "node 1: permute gives another shape"),
    ],
    ids=["unknown", "mask", "shape"],
)  # fmt: skip
def test_what_has_no_translation_is_named(wrong, message):
    with pytest.raises(ConversionError, match=message):
        convert({"nodes": [node(0, "placeholder", [2], []), wrong]})


# Program order, with masks in float32: gigabytes.
COMMITTED = {
    "bert-base-b32-s512": (609, 15.360),
    "gptneo-b32-s512": (1221, 70.336),
    "resnet50-b64": (402, 3.537),
    "unet-b32": (166, 11.534),
    "unetpp-b16": (173, 13.079),
    "vit-base-b64": (614, 9.592),
}


def test_every_committed_graph_is_known():
    files = {path.name.removesuffix(".magis.gz") for path in (AUTHORS / "graphs").iterdir()}
    assert files == set(COMMITTED)


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_graphs(name):
    text = gzip.decompress((AUTHORS / "graphs" / f"{name}.magis.gz").read_bytes()).decode()
    graph = core.Graph.parse(text, name)
    graph.verify()
    assert graph.text() == text
    check_types(text)
    assert not graph.opaque_operators()
    operators, gigabytes = COMMITTED[name]
    assert graph.operator_count == operators
    peak = core.Plan.program_order(graph).simulate("reference").peak_bytes
    assert peak / 1e9 == pytest.approx(gigabytes, abs=5e-4)
    regions = core.fission_regions(graph, device="reference")
    assert not regions.whole_operators()
