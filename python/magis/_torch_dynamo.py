"""Every private interface of torch.compile that magis uses, each with what it relies on.

Apart from magis._torch_internals, as importing these takes seconds. One test per promise stands in
tests/python/torch_compile/test_torch_dynamo.py.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from magis import _torch_internals as internals

# What is compiled holds options, and plans through them, until after the core is gone.
atexit.register(torch.compiler.reset)

Partition = Callable[..., tuple[torch.fx.GraphModule, torch.fx.GraphModule]]
Boxed = Callable[[list[Any]], list[Any]]
"""A function that takes one list, which it may empty to let go of what is in it."""


def compile_with_autograd(
    module: torch.fx.GraphModule,
    examples: Sequence[Any],
    *,
    partition: Partition,
    forward: Callable[..., Boxed],
    backward: Callable[..., Boxed],
    inference: Callable[..., Boxed],
) -> Callable[..., Any]:
    """`module`, dynamo's graph, as a function that autograd can differentiate.

    partition(joint, (primals, tangents), num_fwd_outputs=...) gets forward and backward as one
    functional graph of ATen operators and returns two modules; `forward` and `backward` make
    functions of these, `inference` of a functional graph that nobody differentiates.

    Relies on: what the first module returns beyond num_fwd_outputs is kept for the second, which
    gets it before the tangents and returns one gradient (or None) for each primal; the list that
    the backward function gets is all that holds tensors which were kept, unless the graph is
    retained.
    """
    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=inference,
        partition_fn=partition,
        decompositions={},
    )(module, examples)
    return compiled


def overwritten_inputs(joint: torch.fx.GraphModule) -> dict[str, int]:
    """Names of the placeholders whose tensors get new values once the forward function is through,
    and which of its results each is copied from, and then let go.

    Relies on: meta["desc"] of the output node says of each result what it is, among them the new
    value of an input, which placeholders are called by the same description.
    """
    output = next(node for node in reversed(joint.graph.nodes) if node.op == "output")
    written = [
        (description.mutated_input, position)
        for position, description in enumerate(output.meta["desc"])
        if hasattr(description, "mutated_input")
    ]
    nodes = [node for node in joint.graph.nodes if node.op == "placeholder"]
    return {
        node.name: position
        for node in nodes
        for described, position in written
        if node.meta["desc"] == described
    }


def boxed(function: Boxed) -> Boxed:
    """Marks `function` as one that takes a list. Relies on: the attribute _boxed_call."""
    marked: Any = function
    marked._boxed_call = True
    return function


def graph_is_retained() -> bool:
    """Whether the backward pass that runs on this thread keeps the graph for another one."""
    retained: bool = torch._C._autograd._get_current_graph_task_keep_graph()
    return retained


@contextlib.contextmanager
def outside_compilation() -> Iterator[None]:
    """Operators inside run for real, as they do where nothing is compiled.

    Relies on: besides dispatch modes, compilation turns on Python's dispatcher alone.
    """
    with internals.without_modes(), torch._C._DisablePythonDispatcher():
        yield
