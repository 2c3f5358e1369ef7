"""The part of a trace that makes the values a step reads: run on the example while tracing, and
again before each call as a small program of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from magis import _torch_internals as internals
from magis._torch_internals import OpOverload

# What is larger than this, in elements, is made again for the next read rather than kept.
_MOST_KEPT = 1 << 14


def ancestors(node: torch.fx.Node, known: Mapping[torch.fx.Node, Any]) -> list[torch.fx.Node]:
    """`node` and all that it is made from, in program order, but for what is in `known` and what
    that alone is made from.
    """
    found: set[torch.fx.Node] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current not in found and current not in known:
            found.add(current)
            waiting += current.all_input_nodes
    return sorted(found)


def is_random(node: torch.fx.Node) -> bool:
    return (
        isinstance(node.target, OpOverload)
        and torch.Tag.nondeterministic_seeded in node.target.tags
    )


def is_computable(node: torch.fx.Node) -> bool:
    """Whether the node can be run on its own: it writes nowhere, and its target is a function."""
    if node.op in ("placeholder", "get_attr"):
        return True
    return node.op == "call_function" and not (
        isinstance(node.target, OpOverload) and node.target._schema.is_mutable
    )


class Computation:
    """Runs nodes of the graph being recorded on real data.

    `given` holds the data of placeholders. Random operators draw from `generator`'s state at the
    step's beginning, all of them in program order, as the step does.
    """

    def __init__(
        self, given: Mapping[str, Any], device: torch.device, generator: torch.Tensor
    ) -> None:
        self._given = given  # by the placeholder's name
        self._device = device
        self._generator = generator
        self._kept: dict[torch.fx.Node, Any] = {}

    def value(self, node: torch.fx.Node) -> Any:
        if node in self._kept:
            return self._kept[node]
        needed = ancestors(node, self._kept)
        if any(map(is_random, needed)):
            # What the step drew earlier decides where the generator stands.
            drawn = [n for n in node.graph.nodes if is_random(n) and n < node]
            found = set(needed).union(*(ancestors(n, self._kept) for n in drawn))
            needed = sorted(found)
        constants = {n: internals.traced_constant(n) for n in needed if n.op == "get_attr"}
        with (
            internals.without_modes(),
            torch.no_grad(),
            torch.autocast("cpu", enabled=False),
            torch.random.fork_rng(devices=[]),
        ):
            torch.set_rng_state(self._generator)
            return self._run(node, needed, constants)

    def _run(
        self,
        wanted: torch.fx.Node,
        needed: list[torch.fx.Node],
        constants: Mapping[torch.fx.Node, Any],
    ) -> Any:
        readers = dict.fromkeys(needed, 0)
        for node in needed:
            for operand in node.all_input_nodes:
                if operand in readers:
                    readers[operand] += 1
        values: dict[torch.fx.Node, Any] = {}
        chance = any(map(is_random, needed))
        for node in needed:
            if node in constants:
                held = constants[node]
                value = held.to(self._device) if isinstance(held, torch.Tensor) else held
            else:
                value = self._one(node, values)
            values[node] = value
            if not chance and _is_small(value):
                self._kept[node] = value
            for operand in node.all_input_nodes:
                if operand in readers:
                    readers[operand] -= 1
                    if not readers[operand] and operand is not wanted:
                        del values[operand]
        return values[wanted]

    def _one(self, node: torch.fx.Node, values: Mapping[torch.fx.Node, Any]) -> Any:
        if node.op == "placeholder":
            return self._given[node.name]

        def real(arg: Any) -> Any:
            if isinstance(arg, torch.fx.Node):
                return values[arg] if arg in values else self._kept[arg]
            if isinstance(arg, torch.device):
                return self._device
            return [real(item) for item in arg] if isinstance(arg, (list, tuple)) else arg

        function: Any = node.target
        return function(*map(real, node.args), **{k: real(v) for k, v in node.kwargs.items()})


def _is_small(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_small, value))
    return not isinstance(value, torch.Tensor) or value.numel() <= _MOST_KEPT


class PrefixProgram:
    """A program over some inputs of the step, made of nodes of its trace.

    Grows by `add` while the step is traced; `compile` makes a function of it.
    """

    def __init__(self, device: torch.device) -> None:
        self._graph = torch.fx.Graph()
        self._device = device
        self._copies: dict[torch.fx.Node, torch.fx.Node] = {}
        self._constants: dict[str, Any] = {}
        self._results: list[torch.fx.Node] = []
        self.inputs: list[str] = []  # names of the trace's placeholders, in the order of use

    def add(self, node: torch.fx.Node) -> None:
        """One more result: what `node` makes."""
        for ancestor in ancestors(node, self._copies):
            self._copies[ancestor] = self._copy(ancestor)
        self._results.append(self._copies[node])

    def __len__(self) -> int:
        return len(self._copies)

    def _copy(self, node: torch.fx.Node) -> torch.fx.Node:
        if node.op == "placeholder":
            self.inputs.append(node.name)
            with self._graph.inserting_before(_first_computed(self._graph)):
                return self._graph.placeholder(node.name)
        if node.op == "get_attr":
            self._constants[str(node.target)] = internals.traced_constant(node).to(self._device)
            return self._graph.get_attr(str(node.target))

        def on_device(arg: Any) -> Any:
            if isinstance(arg, torch.fx.Node):
                return self._copies[arg]
            if isinstance(arg, torch.device):
                return self._device
            if isinstance(arg, (list, tuple)):
                return type(arg)(map(on_device, arg))
            return arg

        return self._graph.call_function(
            node.target,
            tuple(map(on_device, node.args)),
            {key: on_device(value) for key, value in node.kwargs.items()},
        )

    def compile(self) -> Callable[..., Any]:
        """`f(*inputs)`, one tensor for each `add`, in that order."""
        self._graph.output(tuple(self._results))
        root = torch.nn.Module()
        for name, value in self._constants.items():
            setattr(root, name, value)
        module = internals.graph_module(root, self._graph)
        function: Callable[..., Any] = module.forward
        return function


def _first_computed(graph: torch.fx.Graph) -> torch.fx.Node:
    """The node before which one more placeholder belongs."""
    nodes: Iterable[torch.fx.Node] = graph.nodes
    return next((node for node in nodes if node.op != "placeholder"), graph._root)
