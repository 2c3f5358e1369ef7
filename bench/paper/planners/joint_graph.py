"""The graph that PyTorch's partitioner is given, and what it saves of it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch._functorch import config
from torch._functorch.partitioners import NodeInfo, choose_saved_values_set
from torch._inductor.custom_graph_pass import CustomRuntimeEstimator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._ordered_set import OrderedSet

from magis.verify.document import Arg, DeviceWord, Document, Operation, Ref, Symbol, Type
from magis.verify.kernels import find_operator
from magis.verify.tensors import DTYPES
from magis.verify.text import parse
from planners.phases import Phases, phases_of
from planners.problem import Problem

FAR = int(1e9)  # as the partitioner has it: never read on the way back


class JointGraph:
    """The problem as the graph that PyTorch partitions, views and all."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.phases: Phases = phases_of(problem)
        self.document: Document = parse(problem.graph.text())
        self.graph = fx.Graph()
        self.nodes: dict[str, fx.Node] = {}
        self.seconds: dict[fx.Node, float] = {}
        self.tensor_of: dict[fx.Node, int] = {}
        self.operator_of = {op.name: i for i, op in enumerate(problem.operators)}
        self.number_of = {tensor.name: i for i, tensor in enumerate(problem.tensors)}
        self.forward: list[fx.Node] = []
        self.backward: list[fx.Node] = []
        with FakeTensorMode() as mode:
            self.mode = mode
            self._build()
        self.info = self._node_info()

    def saved(self, budget: float, estimator: str = "profile") -> set[int]:
        """Tensors that a saved node is, or is a view of. Operators take as long as the profile
        says, or one of PyTorch's own estimators ("flops": what it uses unless told otherwise).
        """
        times = _ProfileSeconds(self.seconds) if estimator == "profile" else estimator
        with self.mode, config.patch(activation_memory_budget_runtime_estimator=times):
            nodes = choose_saved_values_set(self.graph, self.info, budget)
        return {self.tensor_of[node] for node in nodes if node in self.tensor_of}

    # ---- the graph

    def _build(self) -> None:
        for declared in self.document.inputs:
            node = self.graph.placeholder(f"primals_{declared.name}")
            scalar = torch.empty((), dtype=torch.float64)
            node.meta["val"] = scalar if declared.type is None else _fake(declared.type)
            self.nodes[declared.name] = node
        forward = set(self.phases.forward)
        for operation in self.document.operations:
            made = self._view(operation) if operation.is_view else self._operator(operation)
            number = self.operator_of.get(operation.results[0])
            if operation.is_view:
                base = self.tensor_of.get(made[0].args[0])
                number = None if base is None else self.problem.producer[base]
                if base is not None:
                    self.tensor_of.update(dict.fromkeys(made, base))
            phase = self.forward if number is None or number in forward else self.backward
            phase += made
        names = [out.name for out in self.document.outputs]
        self.graph.output(tuple(self.nodes[name] for name in names))

    def _view(self, operation: Operation) -> list[fx.Node]:
        node = self._call(operation)
        base = node.args[0].meta["val"]
        arguments = [self._value(arg, by_meta=True) for arg in operation.args[1:]]
        node.meta["val"] = find_operator(operation.operator)(base, *arguments)
        self.nodes[operation.results[0]] = node
        return [node]

    def _operator(self, operation: Operation) -> list[fx.Node]:
        """A call, and one node for each result if there are several."""
        node = self._call(operation)
        number = self.operator_of[operation.results[0]]
        self.seconds[node] = self.problem.seconds[number]
        values = [_fake(type_) for type_ in operation.types]
        single = len(values) == 1
        node.meta["val"] = values[0] if single else tuple(values)
        made = [node]
        for place, name in enumerate(operation.results):
            result = node if single else self.graph.call_function(operator.getitem, (node, place))
            if not single:
                result.meta["val"] = values[place]
                made.append(result)
            self.nodes[name] = result
            if name in self.number_of:
                self.tensor_of[result] = self.number_of[name]
        return made

    def _call(self, operation: Operation) -> fx.Node:
        arguments = tuple(self._value(arg) for arg in operation.args)
        keywords = {key: self._value(arg) for key, arg in operation.kwargs.items()}
        return self.graph.call_function(find_operator(operation.operator), arguments, keywords)

    def _value(self, arg: Arg, by_meta: bool = False) -> Any:
        if isinstance(arg, list):
            return [self._value(item, by_meta) for item in arg]
        if isinstance(arg, Ref):
            node = self.nodes[arg.name]
            return node.meta["val"] if by_meta else node
        if isinstance(arg, Symbol):
            return getattr(torch, arg.word)
        return torch.device(arg.name) if isinstance(arg, DeviceWord) else arg

    # ---- what the partitioner asks about it

    def _node_info(self) -> NodeInfo:
        """What carries a gradient belongs to the backward pass; what is made of the forward pass
        alone, for the backward pass, to neither, as PyTorch has it."""
        inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        neither = {self.problem.operators[op].name for op in self.phases.free_to_wait}
        free = {node for name in neither for node in self._with_results(self.nodes[name])}
        required = OrderedSet([*inputs, *self.forward])
        gradients = OrderedSet(node for node in self.backward if node not in free)
        for node in reversed(self.graph.nodes):
            near = (user.dist_from_bw + 1 for user in node.users)
            node.dist_from_bw = FAR if node.op == "output" else min([FAR, *near])
            if node.op != "output" and node not in required:
                node.dist_from_bw = 0
        return NodeInfo(
            inputs=inputs,
            _required_fw_nodes=required,
            required_bw_nodes=gradients,
            tangents_closure=gradients.copy(),
            unclaimed_nodes=OrderedSet(free),
            fw_order={node: place for place, node in enumerate(required)},
            static_lifetime_input_nodes=OrderedSet(inputs),
        )

    def _with_results(self, node: fx.Node) -> list[fx.Node]:
        whole = node.args[0] if node.target is operator.getitem else node
        return [whole, *whole.users]


class _ProfileSeconds(CustomRuntimeEstimator):
    """PyTorch's hook for whoever knows times."""

    def __init__(self, seconds: Mapping[fx.Node, float]) -> None:
        self.seconds = seconds

    def __call__(self, node: fx.Node) -> float:
        whole = node.args[0] if node.target is operator.getitem else node
        return self.seconds.get(whole, 0.0)

    def uuid(self) -> None:
        return None


def _fake(recorded: Type | None) -> torch.Tensor:
    """On the fake mode that is on; with no data. What is undefined has no elements."""
    if recorded is None:
        return torch.empty(0)
    dtype = DTYPES[recorded.dtype]
    storage = torch.empty(recorded.storage // dtype.itemsize, dtype=dtype)
    return storage.as_strided(recorded.shape, recorded.strides, recorded.offset)
