"""What magis relies on in torch.compile: one test per promise of magis._torch_dynamo."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch._functorch.partitioners import default_partition
from torch._subclasses.fake_tensor import FakeTensorMode

from magis import _torch_dynamo as dynamo


def test_what_is_kept_comes_before_the_tangents_in_a_list_that_alone_holds_it() -> None:
    alive: list[bool] = []
    joints: list[Any] = []

    def partition(joint: Any, inputs: Any, *, num_fwd_outputs: int, **more: Any) -> Any:
        primals, tangents = inputs
        joints.append((len(primals), len(tangents), num_fwd_outputs))
        return default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **more)

    def forward(module: Any, _inputs: Any) -> Any:
        return dynamo.boxed(lambda inputs: list(module(*inputs)))

    def backward(module: Any, _inputs: Any) -> Any:
        def run(inputs: list[Any]) -> list[Any]:
            results = list(module(*inputs))
            kept = [weakref.ref(tensor) for tensor in inputs[:-1]]
            inputs.clear()
            alive.extend(ref() is not None for ref in kept)
            return results

        return dynamo.boxed(run)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin().exp().sum()

    def backend(module: Any, examples: Any) -> Any:
        return dynamo.compile_with_autograd(
            module,
            examples,
            partition=partition,
            forward=forward,
            backward=backward,
            inference=forward,
        )

    torch._dynamo.reset()
    x = torch.randn(5, requires_grad=True)
    torch.compile(function, backend=backend)(x).backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, x.sin().exp().detach() * x.detach().cos())
    assert joints == [(1, 1, 1)]
    assert False in alive  # what the forward pass made is gone once it is let go
    with torch.no_grad():
        assert torch.equal(torch.compile(function, backend=backend)(x), function(x))


def test_which_inputs_are_overwritten() -> None:
    found: list[Any] = []

    def partition(joint: Any, inputs: Any, **more: Any) -> Any:
        names = [node.name for node in joint.graph.nodes if node.op == "placeholder"]
        overwritten = dynamo.overwritten_inputs(joint)
        found.append({names.index(name): position for name, position in overwritten.items()})
        return default_partition(joint, inputs, **more)

    def run(module: Any, _inputs: Any) -> Any:
        return dynamo.boxed(lambda inputs: list(module(*inputs)))

    def backend(module: Any, examples: Any) -> Any:
        return dynamo.compile_with_autograd(
            module, examples, partition=partition, forward=run, backward=run, inference=run
        )

    def function(x: torch.Tensor, state: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        result = (x * other).sum()
        state.add_(x.detach())
        return result

    torch._dynamo.reset()
    x, state = torch.ones(3, requires_grad=True), torch.zeros(3)
    torch.compile(function, backend=backend)(x, state, torch.ones(3)).backward()
    # x, other, state, in the order of their first use; the new value comes before the result.
    assert found == [{2: 0}]
    assert torch.equal(state, torch.ones(3))


def test_whether_the_graph_is_retained() -> None:
    seen: list[bool] = []

    class Asking(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            seen.append(dynamo.graph_is_retained())
            return grad

    out = Asking.apply(torch.ones(1, requires_grad=True))
    out.backward(retain_graph=True)
    out.backward()
    assert seen == [True, False]


def test_outside_compilation_operators_run_for_real() -> None:
    with FakeTensorMode():
        assert torch.ones(2).sum().__class__ is not torch.Tensor
        with dynamo.outside_compilation():
            assert torch.ones(2).sum().item() == 2.0
