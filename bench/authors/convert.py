"""The training graphs of the MAGIS paper's workloads, as its public implementation builds them, in
magis's own text.

python bench/authors/convert.py FOLDER [--out bench/authors/graphs]

FOLDER holds `NAME.graph.json.gz`: operator kinds, shapes, arguments and element counts, one node a
line of the step that the authors optimise (forward, a squared loss, backward, W += dW). Each node
becomes the ATen operators that compute it:

  einsums           mm and bmm on views (products.py): attention's heads are laid out so that few
                    copies are needed
  gradients of a    a transposed convolution for the input, which needs no activation; the weight's
  convolution       is convolution_backward with only that result
  relu's mask       sign of relu's result: 0 or 1 in float32, as the authors count it
  W += dW           the parameter's new value, as an output: it takes over the gradient's memory,
                    and the old value is there for whatever runs again

What else nothing reads is an output too, unless another result of its operator is read.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from arrays import Array, numbers
from products import flex_matmul, matmul
from writer import ConversionError, Graph, Node

import magis._core as core

# ---- one function per kind of node: appends statements, returns the node's results

Converter = Callable[[Graph, Node], list[Array]]


def simple(operator: str, arguments: str = "{}") -> Converter:
    """One statement; `arguments` may name the node's attributes: {const}."""

    def convert(graph: Graph, node: Node) -> list[Array]:
        operands = graph.operands(node)
        call = arguments.format(*(["{}"] * len(operands)), **node.attrs)
        result = Array.dense(f"{operator.split('.')[0].strip('_')}_{node.id}", node.shape)
        graph.emit(operator, operands, call, [result])
        return [result]

    return convert


def convolution_arguments(node: Node) -> str:
    if node.attrs["layout"] != "nchw":
        raise ConversionError(f"node {node.id}: layout {node.attrs['layout']}")
    lists = (numbers(node.pair(attr)) for attr in ("stride", "padding", "dilation"))
    return ", ".join(f"[{text}]" for text in lists)


def convolution(graph: Graph, node: Node) -> list[Array]:
    result = Array.dense(f"convolution_{node.id}", node.shape)
    arguments = "{}, {}, none, " + convolution_arguments(node) + ", false, [0,0], 1"
    graph.emit("convolution", graph.operands(node), arguments, [result])
    return [result]


def convolution_input_gradient(graph: Graph, node: Node) -> list[Array]:
    """The transposed convolution of the output's gradient with the same weight."""
    gradient, weight = graph.operands(node)
    result = Array.dense(f"convolution_{node.id}", node.shape)
    stride, padding, dilation = (node.pair(a) for a in ("stride", "padding", "dilation"))
    missing = tuple(
        node.shape[2 + d]
        - (
            (gradient.shape[2 + d] - 1) * stride[d]
            - 2 * padding[d]
            + dilation[d] * (weight.shape[2 + d] - 1)
            + 1
        )
        for d in range(2)
    )
    call = "{}, {}, none, " + convolution_arguments(node) + f", true, [{numbers(missing)}], 1"
    graph.emit("convolution", [gradient, weight], call, [result])
    return [result]


def convolution_weight_gradient(graph: Graph, node: Node) -> list[Array]:
    image, gradient = graph.operands(node)
    weight = weight_that_takes(graph, node)
    result = Array.dense(f"convolution_backward_{node.id}", node.shape)
    call = "{}, {}, {}, none, " + convolution_arguments(node)
    call += ", false, [0,0], 1, [false,true,false]"
    graph.emit("convolution_backward", [gradient, image, weight], call, [None, result, None])
    return [result]


def weight_that_takes(graph: Graph, node: Node) -> Array:
    """The parameter that a gradient is added to: convolution_backward wants its shape."""
    for reader in graph.readers[node.id]:
        if reader.kind == "ewise.bin.add_":
            return graph.arrays[reader.args[0]][0]
    raise ConversionError(f"node {node.id}: no parameter takes this gradient")


def pool_arguments(node: Node) -> str:
    lists = (numbers(node.pair(attr)) for attr in ("kernel_size", "stride", "padding"))
    return ", ".join(f"[{text}]" for text in lists) + ", false, true, none"


def average_pool(graph: Graph, node: Node) -> list[Array]:
    result = Array.dense(f"avg_pool2d_{node.id}", node.shape)
    graph.emit("avg_pool2d", graph.operands(node), "{}, " + pool_arguments(node), [result])
    return [result]


def average_pool_gradient(graph: Graph, node: Node) -> list[Array]:
    result = Array.dense(f"avg_pool2d_backward_{node.id}", node.shape)
    call = "{}, {}, " + pool_arguments(node)
    graph.emit("avg_pool2d_backward", graph.operands(node), call, [result])
    return [result]


def nearest(graph: Graph, node: Node) -> list[Array]:
    result = Array.dense(f"upsample_nearest2d_{node.id}", node.shape)
    call = f"{{}}, [{numbers(node.shape[2:])}]"
    graph.emit("upsample_nearest2d", graph.operands(node), call, [result])
    return [result]


def nearest_gradient(graph: Graph, node: Node) -> list[Array]:
    (gradient,) = graph.operands(node)
    result = Array.dense(f"upsample_nearest2d_backward_{node.id}", node.shape)
    call = f"{{}}, [{numbers(gradient.shape[2:])}], [{numbers(node.shape)}]"
    graph.emit("upsample_nearest2d_backward", [gradient], call, [result])
    return [result]


def layer_norm(graph: Graph, node: Node) -> list[Array]:
    kinds = ("layer_norm", "mean", "rstd")
    shapes = node.attrs["multi_out_shapes"]
    results = [
        Array.dense(f"{kind}_{node.id}", tuple(shape))
        for kind, shape in zip(kinds, shapes, strict=True)
    ]
    call = f"{{}}, [{numbers(tuple(node.attrs['norm_shape']))}], none, none, 1e-05"
    graph.emit("native_layer_norm", graph.operands(node), call, results)
    return results


def layer_norm_gradient(graph: Graph, node: Node) -> list[Array]:
    result = Array.dense(f"layer_norm_backward_{node.id}", node.shape)
    lengths = numbers(tuple(node.attrs["norm_shape"]))
    call = f"{{}}, {{}}, [{lengths}], {{}}, {{}}, none, none, [true,false,false]"
    operands = graph.operands(node)
    graph.emit("native_layer_norm_backward", operands, call, [result, None, None])
    return [result]


def mask(graph: Graph, node: Node) -> list[Array]:
    """relu(x) > 0 is sign(relu(x)), in the dtype of x."""
    if node.attrs["const"] != 0 or graph.nodes[node.args[0]].kind != "ewise.uni.relu":
        raise ConversionError(f"node {node.id}: only relu(x) > 0 is a mask")
    return simple("sign")(graph, node)


def update(graph: Graph, node: Node) -> list[Array]:
    parameter, gradient = graph.operands(node)
    updated = Array.dense(f"updated_{node.args[0]}", node.shape)
    graph.emit("add.Tensor", [parameter, gradient], "{}, {}", [updated])
    graph.updated[node.args[0]] = updated
    return [updated]


def concatenation(graph: Graph, node: Node) -> list[Array]:
    result = Array.dense(f"cat_{node.id}", node.shape)
    listed = ",".join(["{}"] * len(node.args))
    graph.emit("cat", graph.operands(node), f"[{listed}], {node.attrs['dim']}", [result])
    return [result]


def one_result(graph: Graph, node: Node) -> list[Array]:
    return [graph.arrays[node.args[0]][node.attrs["index"]]]


def slices(graph: Graph, node: Node) -> list[Array]:
    array = graph.operand(node, 0)
    bounds = zip(node.attrs["dims"], node.attrs["starts"], node.attrs["ends"], strict=True)
    for dim, start, end in bounds:
        array = graph.slice(array, dim, start, end)
    return [array]


def permutation(graph: Graph, node: Node) -> list[Array]:
    return [graph.permute(graph.operand(node, 0), tuple(node.attrs["dims"]))]


def reshaping(graph: Graph, node: Node) -> list[Array]:
    return [graph.reshape(graph.operand(node, 0), node.shape)]


CONVERTERS: dict[str, Converter] = {
    "ewise.bin.add": simple("add.Tensor", "{}, {}"),
    "ewise.bin.sub": simple("sub.Tensor", "{}, {}"),
    "ewise.bin.mul": simple("mul.Tensor", "{}, {}"),
    "ewise.bin.add_": update,
    "ewise.bin.sigmoid_backward": simple("sigmoid_backward", "{}, {}"),
    "ewise.uni.const.div": simple("div.Scalar", "{}, {const}"),
    "ewise.uni.const.mul": simple("mul.Scalar", "{}, {const}"),
    "ewise.uni.const.pow": simple("pow.Tensor_Scalar", "{}, {const}"),
    "ewise.uni.const.gt": mask,
    "ewise.uni.relu": simple("relu"),
    "ewise.uni.sigmoid": simple("sigmoid"),
    "softmax": simple("_softmax", "{}, {dim}, false"),
    "softmax_bwd": simple("_softmax_backward_data", "{}, {}, {dim}, torch.float32"),
    "layer_norm": layer_norm,
    "layer_norm_bwd": layer_norm_gradient,
    "matmul": matmul,
    "flex_matmul": flex_matmul,
    "conv2d": convolution,
    "conv2d_bwd_inp": convolution_input_gradient,
    "conv2d_bwd_wgt": convolution_weight_gradient,
    "pool2d.avg": average_pool,
    "pool2d_bwd.avg": average_pool_gradient,
    "interpolate": nearest,
    "interpolate_bwd": nearest_gradient,
    "concat": concatenation,
    "index_out": one_result,
    "slice": slices,
    "permute": permutation,
    "reshape": reshaping,
}


def placeholder(graph: Graph, node: Node) -> list[Array]:
    kind = "param" if node.is_weight else "batch"
    array = Array.dense(f"{'weight' if node.is_weight else 'batch'}_{node.id}", node.shape)
    path = f"w{node.id}" if node.is_weight else f"['x{node.id}']"
    graph.inputs.append(f'{kind} %{array.name} "{path}" : {array.type()}')
    return [array]


def convert(document: dict[str, Any]) -> str:
    """The canonical text of a document's graph. Throws ConversionError."""
    nodes = [Node.read(entry) for entry in document["nodes"]]
    graph = Graph({node.id: node for node in nodes})
    results: list[Array] = []
    for node in nodes:
        if node.kind == "placeholder":
            graph.arrays[node.id] = placeholder(graph, node)
        elif node.kind in CONVERTERS:
            graph.arrays[node.id] = CONVERTERS[node.kind](graph, node)
        else:
            raise ConversionError(f"node {node.id}: there is no operator for {node.kind}")
        if graph.arrays[node.id][0].shape != node.shape:
            raise ConversionError(f"node {node.id}: {node.kind} gives another shape")
        if not graph.readers[node.id] and node.kind not in ("ewise.bin.add_", "index_out"):
            results.append(graph.arrays[node.id][0])
        # The squared loss ends the forward pass. Masks that stand in it belong there, though only
        # the backward pass reads them.
        graph.backward |= node.kind == "ewise.uni.const.pow"
    name = document.get("workload", "authors")
    header = ["magis 1", "device cuda", f'meta model "{name}"', ""]
    lines = [*header, *graph.inputs, "", *graph.statements, "", *outputs(graph, results)]
    return core.Graph.parse("\n".join(lines), name).text()


def outputs(graph: Graph, results: list[Array]) -> list[str]:
    return [
        *(f'output aux "[{i}]" %{array.name}' for i, array in enumerate(results)),
        *(f'output param "w{weight}" %{new.name}' for weight, new in graph.updated.items()),
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "graphs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(options.folder.glob("*.graph.json.gz")):
        with gzip.open(path) as file:
            text = convert(json.load(file))
        out = options.out / (path.name.removesuffix(".graph.json.gz") + ".magis.gz")
        # No time of writing in it: the same graph is the same file.
        out.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{out}: {text.count(' = aten.')} statements")


if __name__ == "__main__":
    main()
