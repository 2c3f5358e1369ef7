"""The halves of a plan as torch.compile's autograd layer sees them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from magis import _torch_dynamo as dynamo
from magis.errors import MagisError
from magis.runtime.call import plain_modes
from magis.torch_compile.halves import Halves
from magis.torch_compile.joint import Joint


def results_of(module: torch.fx.GraphModule) -> list[Any]:
    """What the module returns: nodes, or literals."""
    output = next(node for node in reversed(module.graph.nodes) if node.op == "output")
    returned = output.args[0]
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def with_literals(
    returned: Sequence[Any], positions: Sequence[int], tensors: Sequence[Any]
) -> list[Any]:
    """Of what a graph returns, literals as they are and `tensors` at their positions."""
    result = [None if isinstance(item, torch.fx.Node) else item for item in returned]
    for position, tensor in zip(positions, tensors, strict=True):
        result[position] = tensor
    return result


class Shells:
    """Modules that say what the two halves take and return, and the functions that run them."""

    def __init__(
        self, joint: torch.fx.GraphModule, graph: Joint, halves: Halves, forward_count: int
    ) -> None:
        self._graph = graph
        self._halves = halves
        placeholders = [node for node in joint.graph.nodes if node.op == "placeholder"]
        results = results_of(joint)
        self._primals = placeholders[: len(halves.inputs)]
        self._tangents = placeholders[len(halves.inputs) :]
        self._returned, self._gradients = results[:forward_count], results[forward_count:]
        for item in results:
            if isinstance(item, torch.fx.Node) and not isinstance(item.meta["val"], torch.Tensor):
                raise MagisError(
                    f"a graph that returns a {type(item.meta['val']).__name__} beside tensors "
                    "cannot be planned"
                )

    def forward(self) -> torch.fx.GraphModule:
        """Takes the graph's inputs; returns what it returns, then what is kept."""
        graph = torch.fx.Graph()
        inputs = [_placeholder(graph, node.name, node.meta["val"]) for node in self._primals]
        made = graph.call_function(_half, (inputs,))
        known = dict(zip(self._halves.inputs, inputs, strict=True))
        tensors = [_item(graph, made, i) for i in range(len(self._graph.forward))]
        for node, position in zip(tensors, self._graph.forward, strict=True):
            node.meta["val"] = self._returned[position].meta["val"]
        results = with_literals(self._returned, self._graph.forward, tensors)
        for name in self._halves.saved:
            results.append(known.get(name) or _item(graph, made, len(results)))
        graph.output(tuple(results))
        return torch.fx.GraphModule(torch.nn.Module(), graph)

    def backward(self) -> torch.fx.GraphModule:
        """Takes what is kept, then gradients; returns a gradient or None for each input."""
        graph = torch.fx.Graph()
        values = dict(zip(self._halves.inputs, self._primals, strict=True))
        kept = [
            _placeholder(graph, f"kept_{i}", values[name].meta["val"] if name in values else None)
            for i, name in enumerate(self._halves.saved)
        ]
        tangents = [_placeholder(graph, node.name, node.meta["val"]) for node in self._tangents]
        made = graph.call_function(_half, ([*kept, *tangents],))
        results: list[Any] = [None] * len(self._gradients)
        for i, position in enumerate(self._graph.gradients):
            results[position] = _item(graph, made, i)
            results[position].meta["val"] = self._gradients[position].meta["val"]
        graph.output(tuple(results))
        return torch.fx.GraphModule(torch.nn.Module(), graph)

    def forward_function(self, file_name: str, device: torch.device) -> dynamo.Boxed:
        half = self._halves.forward.compiled(self._halves.constants, file_name)
        returned, positions = self._returned, self._graph.forward

        def run(inputs: list[Any]) -> list[Any]:
            with plain_modes(device.type):
                made = half(inputs)
            tensors, kept = made[: len(positions)], made[len(positions) :]
            return [*with_literals(returned, positions, tensors), *kept]

        return dynamo.boxed(run)

    def backward_function(self, file_name: str, device: torch.device) -> dynamo.Boxed:
        half = self._halves.backward.compiled(self._halves.constants, file_name)
        count, positions = len(self._gradients), self._graph.gradients
        own = [i for i, name in enumerate(self._halves.saved) if name not in self._halves.inputs]

        def run(inputs: list[Any]) -> list[Any]:
            if dynamo.graph_is_retained():  # the plan writes over what is kept where it dies
                for position in own:
                    inputs[position] = inputs[position].clone()
            with plain_modes(device.type):
                return with_literals([None] * count, positions, half(inputs))

        return dynamo.boxed(run)


def _half(_inputs: list[Any]) -> list[Any]:
    raise AssertionError("a shell says what a half takes and returns; it does not run")


def _placeholder(graph: torch.fx.Graph, name: str, value: Any) -> torch.fx.Node:
    node = graph.placeholder(name)
    node.meta["val"] = value
    return node


def _item(graph: torch.fx.Graph, made: torch.fx.Node, position: int) -> torch.fx.Node:
    return graph.call_function(operator.getitem, (made, position))
