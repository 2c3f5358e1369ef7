"""Runs a step twice, in eager PyTorch and as captured text, and compares everything it leaves."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from magis import _core
from magis.capture import (
    Capture,
    OutputLeaf,
    OutputScalar,
    ScalarLeaf,
    capture,
    flatten_batch,
    normalise_batch,
)
from magis.capture.scalars import evaluate
from magis.verify.document import Document
from magis.verify.evaluator import evaluate_all
from magis.verify.text import parse


@dataclass
class Outcome:
    """What a step leaves behind."""

    results: list[Any]
    gradients: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    parameters: dict[str, torch.Tensor]
    generator: torch.Tensor
    states: dict[str, torch.Tensor] = field(default_factory=dict)


def call(function: Callable[..., Any], *before: Any, batch: Any) -> Any:
    batch = normalise_batch(batch)
    if isinstance(batch, dict):
        return function(*before, **batch)
    return function(*before, *batch)


def eager(model: nn.Module, loss_fn: Callable[..., Any] | None, batch: Any, seed: int) -> Outcome:
    """One eager step on a copy of the model and the batch."""
    model, batch = copy.deepcopy((model, batch))
    torch.manual_seed(seed)
    if loss_fn is None:
        with torch.no_grad():
            result = call(model, batch=batch)
    else:
        result = call(loss_fn, model, batch=batch)
        pytree.tree_leaves(result)[0].backward()
    generator = torch.get_rng_state()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    for path, leaf in flatten_batch(batch)[0]:
        if isinstance(leaf, torch.Tensor) and leaf.grad is not None:
            gradients[path] = leaf.grad
    leaves = pytree.tree_leaves(result)
    return Outcome(
        [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves],
        gradients,
        dict(model.named_buffers()),
        {n: p.detach() for n, p in model.named_parameters()},
        generator,
    )


def captured(
    captured_step: Capture,
    model: nn.Module,
    batch: Any,
    seed: int,
    states: Mapping[str, torch.Tensor] | None = None,
) -> Outcome:
    """Executes the captured text, statement by statement, on the model's tensors."""
    document = parse(captured_step.text)
    leaves = dict(flatten_batch(batch)[0])
    floats = {
        leaf.path: leaves[leaf.path]
        for leaf in captured_step.batch_leaves
        if isinstance(leaf, ScalarLeaf)
    }
    inputs = _inputs(document, model, leaves, floats, states or {})
    torch.manual_seed(seed)
    outputs = evaluate_all(captured_step.text, inputs, dtype=None).outputs
    generator = torch.get_rng_state()
    outcome = Outcome(
        [],
        {},
        {n: b.clone() for n, b in model.named_buffers()},
        {n: p.detach().clone() for n, p in model.named_parameters()},
        generator,
        dict(states or {}),
    )
    targets = {
        "grad": outcome.gradients,
        "buffer": outcome.buffers,
        "param": outcome.parameters,
        "state": outcome.states,
    }
    for declared, tensor in zip(document.outputs, outputs, strict=True):
        if declared.kind in targets:
            targets[declared.kind][declared.path] = tensor
    for leaf in captured_step.out_leaves:
        if isinstance(leaf, OutputLeaf):
            outcome.results.append(outputs[leaf.index])
        elif isinstance(leaf, OutputScalar):
            outcome.results.append(evaluate(leaf.expression, floats))
        else:
            outcome.results.append(leaf.value)
    return outcome


def _inputs(
    document: Document,
    model: nn.Module,
    leaves: Mapping[str, Any],
    floats: Mapping[str, float],
    states: Mapping[str, torch.Tensor],
) -> dict[str, Any]:
    sources: dict[str, Callable[[str], Any]] = {
        "param": lambda path: model.get_parameter(path).detach(),
        "buffer": model.get_buffer,
        "batch": lambda path: leaves[path].detach(),
        "state": lambda path: states[path],
        "scalar": lambda path: evaluate(path, floats),
    }
    return {i.name: sources[i.kind](i.path) for i in document.inputs if i.kind != "const"}


def assert_same_tensor(what: str, expected: torch.Tensor, actual: torch.Tensor) -> None:
    assert actual.dtype == expected.dtype, f"{what}: {actual.dtype}, eager {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: {actual.shape}, eager {expected.shape}"
    assert torch.allclose(actual, expected, rtol=0, atol=0, equal_nan=True), (
        f"{what} differs from eager by up to {(actual.double() - expected.double()).abs().max()}"
    )


def assert_same(expected: Outcome, actual: Outcome) -> None:
    """Bit for bit, and gradients in eager's strides too."""
    assert len(actual.results) == len(expected.results)
    for i, (e, a) in enumerate(zip(expected.results, actual.results, strict=True)):
        if isinstance(e, torch.Tensor):
            assert_same_tensor(f"result {i}", e, a)
        else:
            assert a == e, f"result {i} is {a!r}, eager's {e!r}"
    assert actual.gradients.keys() == expected.gradients.keys()
    for name, gradient in expected.gradients.items():
        assert_same_tensor(f"gradient of {name}", gradient, actual.gradients[name])
        assert significant_strides(gradient) == significant_strides(actual.gradients[name]), name
    for name, buffer in expected.buffers.items():
        assert_same_tensor(f"buffer {name}", buffer, actual.buffers[name])
    for name, parameter in expected.parameters.items():
        assert_same_tensor(f"parameter {name}", parameter, actual.parameters[name])
    assert torch.equal(actual.generator, expected.generator), "the generator stands elsewhere"


def significant_strides(tensor: torch.Tensor) -> list[int]:
    """Strides of the dimensions longer than 1: the others say nothing about the layout."""
    return [s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]


def check_step(
    model: nn.Module,
    loss_fn: Callable[..., Any] | None,
    batch: Any,
    *,
    seed: int = 7,
    **options: Any,
) -> Capture:
    """Captures the step, and asserts that its text does exactly what eager mode does."""
    step = capture(model, loss_fn, batch, **options)
    _core.Graph.parse(step.text, "captured").verify()
    assert_same(eager(model, loss_fn, batch, seed), captured(step, model, batch, seed))
    return step
