"""Rewrites a traced fx graph into the canonical form that the core expects (ARCHITECTURE.md).

One pass in program order. A rule takes an operator's node and its arguments, in our values, and
appends what is to stand for it; an operator without a rule is taken over as it is. Dead code is
removed at the end.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from magis._torch_internals import OpOverload
from magis.capture import scalars
from magis.capture.builder import Builder
from magis.capture.constants import Constants
from magis.capture.embedding_bags import EMBEDDING_BAG_RULES
from magis.capture.factories import FACTORY_RULES
from magis.capture.ir import Graph, Value
from magis.capture.losses import LOSS_RULES
from magis.capture.rules import Rule
from magis.capture.scalars import Scalar
from magis.capture.sites import NOWHERE, STAMP, place
from magis.capture.trace import TracedGraph
from magis.capture.views import VIEW_RULES, strided_view
from magis.errors import CaptureError

RULES: dict[OpOverload, Rule] = {
    **VIEW_RULES,
    **FACTORY_RULES,
    **LOSS_RULES,
    **EMBEDDING_BAG_RULES,
}


class CanonicalPass:
    """Fills `builder` with the canonical statements of `traced`."""

    def __init__(self, traced: TracedGraph, device: torch.device) -> None:
        self.traced = traced
        self.builder = Builder(traced.fake_mode, device)
        self.constants = Constants(self.builder)
        # What stands for an fx node: a Value, a Scalar, a plain number, or a list of these.
        self.stands_for: dict[torch.fx.Node, Any] = {}
        self.scalar_inputs: dict[str, Value] = {}

    def run(self) -> tuple[list[Value], list[str]]:
        """Returns what is to become outputs, in the order of `traced.outputs`, and expressions of
        returned scalars.
        """
        graph = self.traced.module.graph
        self._add_inputs([node for node in graph.nodes if node.op == "placeholder"])
        returned: tuple[list[Value], list[str]] = ([], [])
        for node in graph.nodes:
            if node.op == "get_attr":
                data = getattr(self.traced.module, node.target)
                user = next((n.meta[STAMP][0] for n in node.users if STAMP in n.meta), NOWHERE)
                self.stands_for[node] = self.constants.add(data, place(user))
            elif node.op == "call_function":
                self.stands_for[node] = self._call(node)
            elif node.op == "output":
                items = self._translate(node.args[0])
                count = len(self.traced.outputs)
                returned = items[:count], [Scalar.of(number) for number in items[count:]]
        return returned

    def _add_inputs(self, placeholders: list[torch.fx.Node]) -> None:
        for item, node in zip(self.traced.inputs, placeholders, strict=True):
            if item.kind == "scalar":
                self.stands_for[node] = Scalar(item.path)
            else:
                positional = item.kind == "batch" and item.path[1].isdigit()
                name = f"batch{item.path}" if positional else item.path
                self.stands_for[node] = self.builder.input(item.kind, item.path, name, item.value)

    def _call(self, node: torch.fx.Node) -> Any:
        function = node.target
        if function is operator.getitem:
            source, index = node.args
            return self.stands_for[source][index]
        args = [self._translate(arg) for arg in node.args]
        if scalars.is_scalar_node(node):
            return scalars.apply(function, tuple(args))
        if not isinstance(function, OpOverload):
            raise CaptureError(
                f"the step runs {function}, which is not an operator with a schema and cannot be"
                " written into a graph"
            )
        site, backward = node.meta.get(STAMP, (None, False))
        args = [self._as_value(arg) for arg in args]
        kwargs = {k: self._as_value(self._translate(v)) for k, v in node.kwargs.items()}
        with self.builder.at(site if site is not NOWHERE else None, backward):
            rule = RULES.get(function)
            if rule is not None:
                made = rule(self.builder, node, args, kwargs)
                if made is not None:
                    return made
            return self._take_over(node, function, args, kwargs)

    def _take_over(
        self,
        node: torch.fx.Node,
        function: OpOverload,
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        traced = node.meta.get("val")
        if isinstance(traced, torch.Tensor):
            aliased = self._aliased_operand(node, traced)
            if aliased is not None:
                return strided_view(self.builder, aliased, traced)
        kwargs = {k: v for k, v in kwargs.items() if not _default_layout(k, v)}
        values = self.builder.run(function, args, kwargs, traced)
        if not isinstance(traced, (list, tuple)):
            return values[0]
        # Numbers among the results are the same at every run: their readers get them as literals.
        return [
            value if isinstance(result, torch.Tensor) else result
            for value, result in zip(values, traced, strict=True)
        ]

    def _aliased_operand(self, node: torch.fx.Node, result: torch.Tensor) -> Value | None:
        """The operand that a view without a rule of its own looks into, found by its storage.

        Such a view is respelled as as_strided, so that whatever is not a view of the language owns
        its memory.
        """
        storage = result.untyped_storage()._cdata
        for operand in node.all_input_nodes:
            seen = operand.meta.get("val")
            if isinstance(seen, torch.Tensor) and seen.untyped_storage()._cdata == storage:
                value = self.stands_for[operand]
                return value if isinstance(value, Value) and seen.dtype == result.dtype else None
        return None

    def _translate(self, arg: Any) -> Any:
        if isinstance(arg, torch.fx.Node):
            return self.stands_for[arg]
        if isinstance(arg, (list, tuple)):
            return [self._translate(item) for item in arg]
        return arg

    def _as_value(self, arg: Any) -> Any:
        """Scalars become inputs of the graph, one per expression, once a tensor operator reads
        them.
        """
        if isinstance(arg, list):
            return [self._as_value(item) for item in arg]
        if not isinstance(arg, Scalar):
            return arg
        if arg.expression not in self.scalar_inputs:
            self.scalar_inputs[arg.expression] = self.builder.input(
                "scalar", arg.expression, f"scalar_{arg.expression}", None
            )
        return self.scalar_inputs[arg.expression]


def _default_layout(name: str, value: Any) -> bool:
    return (name == "layout" and value in (None, torch.strided)) or (
        name == "pin_memory" and not value
    )


def remove_dead_code(graph: Graph) -> None:
    """Drops statements that no output needs; what draws random numbers or may have another effect
    stays.
    """
    needed: set[Value] = {output.value for output in graph.outputs}
    kept = []
    for statement in reversed(graph.statements):
        if _has_effect(statement.operator) or not needed.isdisjoint(statement.results):
            kept.append(statement)
            needed.update(statement.reads())
    graph.statements = kept[::-1]
    graph.inputs = [
        i for i in graph.inputs if i.kind not in ("const", "scalar") or i.value in needed
    ]


def _has_effect(function: OpOverload) -> bool:
    return (
        function._schema.is_mutable
        or torch.Tag.nondeterministic_seeded in function.tags
        or function.namespace not in ("aten", "prims", "magis")
    )
