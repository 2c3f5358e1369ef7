"""The graphs that torch.compile hands over, as graphs in the text language.

Forward and backward come as one, which takes the gradients of what the forward pass returns among
its inputs. In ours they are results of an operator that reads all that the forward pass returns
(`magis_compile::outside`): so no order puts what needs them before what they come from, and no
region holds operators of both halves.
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from magis import _torch_dynamo as dynamo
from magis import _torch_internals as internals
from magis._torch_internals import OpOverload
from magis.capture import operators
from magis.capture.canonical import CanonicalPass, remove_dead_code
from magis.capture.fakes import make_fake_mode
from magis.capture.ir import InputKind, OutputKind, Site
from magis.capture.layout import add_outputs
from magis.capture.names import assign_names
from magis.capture.sites import CHECKS, NOWHERE, STAMP, is_user_file, short_path
from magis.capture.text import graph_text
from magis.capture.trace import StepInput, TracedGraph
from magis.errors import CaptureError

_aten = torch.ops.aten

_EMPTY = frozenset(
    {
        _aten.empty_like.default,
        _aten.empty.memory_format,
        _aten.new_empty.default,
        _aten.empty_strided.default,
    }
)


@dataclass(frozen=True)
class InputName:
    """What an input of dynamo's graph is called in ours."""

    kind: InputKind
    path: str


@dataclass(frozen=True)
class Joint:
    """A graph in the text language, and which of what fx returns its outputs are.

    The text's outputs are what the forward pass returns, but new values of overwritten inputs,
    which are gone between the halves; then the incoming gradients, then gradients.
    """

    text: str
    forward: list[int]  # positions among what the forward pass returns: tensors, not numbers
    gradients: list[int]  # positions of the inputs that get one


def joint_graph(
    module: torch.fx.GraphModule,
    names: Sequence[InputName],
    forward_count: int,
    device: torch.device,
    meta: Mapping[str, str],
) -> Joint:
    """`module` takes an input for each of `names`, then gradients, and returns `forward_count`
    results of the forward pass, then a gradient or None for each input. With no more inputs than
    `names` it is a forward pass alone.

    Raises CaptureError.
    """
    graph, results = _copied(module)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    primals, tangents = placeholders[: len(names)], placeholders[len(names) :]
    forward = [i for i, node in enumerate(results[:forward_count]) if _is_tensor(node)]
    returned = [results[i] for i in forward]
    gradients = [i for i, node in enumerate(results[forward_count:]) if _is_tensor(node)]
    written = dynamo.overwritten_inputs(module)
    overwritten = [node for node in primals if node.name in written]
    incoming = _cut_in(graph, tangents, returned, overwritten)
    _drop_as_eager(graph)
    _draw_in_memory_order(graph)
    gone = set(written.values()) if incoming else set()
    stays = [i for i in forward if i not in gone]
    labels: list[tuple[OutputKind, str]] = [("aux", f"[{i}]") for i in stays]
    labels += [("aux", f"gradient of [{i}]") for i in range(len(incoming))]
    labels += [("grad", names[i].path) for i in gradients]
    last = [results[forward_count + i] for i in gradients]
    graph.output([*(results[i] for i in stays), *incoming, *last])

    fake_mode = make_fake_mode()
    cut = internals.graph_module(module, graph)
    inputs = [
        StepInput(name.kind, name.path, internals.fake_like(fake_mode, node.meta["val"], device))
        for name, node in zip(names, primals, strict=True)
    ]
    like = [tangent.meta["val"] for tangent in tangents]
    _TrueFakes(cut, fake_mode, like, device).run(*(item.value for item in inputs))
    _stamp(graph)
    canonical = CanonicalPass(TracedGraph(cut, fake_mode, inputs, labels), device)
    values, _ = canonical.run()
    builder = canonical.builder
    targets = {item.path: item.value for item in inputs}
    add_outputs(builder, labels, values, targets)
    remove_dead_code(builder.graph)
    assign_names(builder.graph)
    return Joint(graph_text(builder.graph, device, meta), forward, gradients)


def _copied(module: torch.fx.GraphModule) -> tuple[torch.fx.Graph, list[Any]]:
    """The graph without its output, and what it returned."""
    graph = torch.fx.Graph()
    results = graph.graph_copy(module.graph, {})
    for node in graph.nodes:
        if node.target in CHECKS:
            graph.erase_node(node)
        elif node.op == "call_function" and not _is_planned(node.target):
            raise CaptureError(
                f"the graph runs {node.target}, which is not an operator with a schema: keep it "
                "out with torch.compiler.disable, or leave this function to another backend"
            )
    return graph, list(results) if isinstance(results, (list, tuple)) else [results]


def _is_planned(target: Any) -> bool:
    return isinstance(target, OpOverload) or target is operator.getitem


def _is_tensor(result: Any) -> bool:
    return isinstance(result, torch.fx.Node) and isinstance(result.meta.get("val"), torch.Tensor)


def _cut_in(
    graph: torch.fx.Graph,
    tangents: Sequence[torch.fx.Node],
    returned: Sequence[torch.fx.Node],
    overwritten: Sequence[torch.fx.Node],
) -> list[torch.fx.Node]:
    """Puts the operator that stands for all between the halves before the first reader of
    `tangents`, whose places its results take. What reads `overwritten` inputs runs before it.
    """
    if not tangents:
        return []
    for primal in overwritten:
        _keep_if_small(graph, primal)
    readers = {user for tangent in tangents for user in tangent.users}
    place = next((node for node in graph.nodes if node in readers), None)
    incoming = []
    with contextlib.nullcontext() if place is None else graph.inserting_before(place):
        if overwritten:
            graph.call_function(operators.overwrite, (list(overwritten),))
        outside = graph.call_function(operators.outside, (list(returned), list(overwritten)))
        outside.meta["val"] = [tangent.meta["val"] for tangent in tangents]
        for position, tangent in enumerate(tangents):
            item = graph.call_function(operator.getitem, (outside, position))
            tangent.replace_all_uses_with(item)
            incoming.append(item)
    for tangent in tangents:
        graph.erase_node(tangent)
    return incoming


# What reads an input that is overwritten cannot run again in the backward half, unless it reads a
# copy: worth it where this is so much smaller than what else is read.
_SMALL = 1 / 32


def _keep_if_small(graph: torch.fx.Graph, primal: torch.fx.Node) -> None:
    readers = list(primal.users)
    operands = [node for reader in readers for node in reader.all_input_nodes if _is_tensor(node)]
    largest = max((_bytes(node) for node in operands), default=0)
    if _bytes(primal) > _SMALL * largest:
        return
    first = next(node for node in graph.nodes if node in readers)
    with graph.inserting_before(first):
        copy = graph.call_function(_aten.clone.default, (primal,))
    for reader in readers:
        reader.replace_input_with(primal, copy)


def _bytes(node: torch.fx.Node) -> int:
    value = node.meta["val"]
    return int(value.numel()) * int(value.itemsize)


_SIXTEEN_BITS = (torch.float16, torch.bfloat16)


def _drop_as_eager(graph: torch.fx.Graph) -> None:
    """Dropout in 16 bits on a CPU, which eager mode spells out: its mask holds the scale, rounded.
    What stands for it here scales apart, with other last bits.
    """
    masks: set[torch.fx.Node] = set()
    for node in list(graph.nodes):
        if node.target is _aten.native_dropout.default and _is_short(node.args[0]):
            x, p, train = node.args
            if not train or not 0 < p < 1:
                continue
            with graph.inserting_before(node):
                drawn = graph.call_function(_aten.empty_like.default, (x,))
                drawn.meta["val"] = x.meta["val"]
                drawn = graph.call_function(_aten.bernoulli.p, (drawn, 1 - p))
                mask = graph.call_function(_aten.div.Scalar, (drawn, 1 - p))
                kept = graph.call_function(_aten.mul.Tensor, (x, mask))
            for item in list(node.users):
                item.replace_all_uses_with((kept, mask)[item.args[1]])
                graph.erase_node(item)
            graph.erase_node(node)
            masks.add(mask)
        elif node.target is _aten.native_dropout_backward.default and node.args[1] in masks:
            node.target, node.args = _aten.mul.Tensor, node.args[:2]


def _is_short(operand: torch.fx.Node) -> bool:
    value = operand.meta["val"]
    return value.dtype in _SIXTEEN_BITS and value.device.type == "cpu"


def _draw_in_memory_order(graph: torch.fx.Graph) -> None:
    """What dropout draws: it fills fresh memory in its own order, where the functional operator
    that stands for it here goes by dimensions.
    """
    for node in graph.nodes:
        if node.target is not _aten.bernoulli.p or node.args[0].target not in _EMPTY:
            continue
        like = node.args[0].meta["val"]
        kwargs: dict[str, Any] = {"dtype": like.dtype}
        if like.device.type != "cpu":
            kwargs["device"] = like.device
        node.target = operators.bernoulli
        node.args = (list(like.shape), list(like.stride()), node.args[1])
        node.kwargs = kwargs


class _TrueFakes(torch.fx.Interpreter):  # type: ignore[misc]  # PyTorch has no types
    """Gives each node a fake as magis's own captures have them."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        fake_mode: internals.FakeTensorMode,
        tangents: Sequence[torch.Tensor],
        device: torch.device,
    ) -> None:
        super().__init__(module)
        self._fake_mode = fake_mode
        self._tangents = [internals.fake_like(fake_mode, value, device) for value in tangents]

    def run(self, *inputs: torch.Tensor) -> Any:
        with torch.no_grad(), self._fake_mode:
            return super().run(*inputs, enable_io_processing=False)

    def run_node(self, n: torch.fx.Node) -> Any:
        result = self._tangents if n.target is operators.outside else super().run_node(n)
        n.meta["val"] = result
        return result


_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_TABLES_OF_MODULES = ("_modules", "_parameters", "_buffers")
_PART_OF_PATH = re.compile(r"\['([^']+)'\]|\.(\w+)")


def _stamp(graph: torch.fx.Graph) -> None:
    """Marks nodes with their sites, as the recorder of magis's own captures does."""
    backward = False
    for node in graph.nodes:
        backward = backward or node.target is operators.outside
        stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
        module = module_path(next(reversed(stack.values()))[0]) if stack else ""
        site = Site(module, _source_in(node.meta.get("stack_trace") or ""))
        node.meta[STAMP] = (site if site != Site("", "") else NOWHERE, backward)


def module_path(spelled: str) -> str:
    """ "encoder.0" of dynamo's `L['self']._modules['encoder']._modules['0']`."""
    parts = [quoted or plain for quoted, plain in _PART_OF_PATH.findall(spelled)]
    if parts[:1] == ["self"]:
        del parts[0]
    return ".".join(part for part in parts if part not in _TABLES_OF_MODULES)


def _source_in(trace: str) -> str:
    """ "file.py:12" of the innermost frame that is the user's; "" if there is none."""
    for path, line in reversed(_FRAME.findall(trace)):
        if is_user_file(path):
            return f"{short_path(path)}:{line}"
    return ""
