"""Holds a split graph to the graph that it was made of: the same outputs, up to rounding."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from magis.errors import PlanError
from magis.verify.evaluator import Value, evaluate_all
from magis.verify.inputs import random_inputs
from magis.verify.text import parse

# In float64, of the largest element: what summing in another order may change.
TOLERANCE = 1e-10
# A gradient that is zero but for rounding (of a key's bias, say) is noise in either order: of the
# largest output.
NOISE = 1e-16


def check_fission(
    source: str, split: str, inputs: Mapping[str, Value] | None = None, *, seed: int = 0
) -> None:
    """Evaluates graph or plan text `source` and `split`, which has loops, in float64 on the same
    inputs, random ones if none are given, and with the same random numbers.

    Raises PlanError naming the first output, or the first input as the step leaves it, that differs
    by more than 1e-10 of its largest element, or is infinite or undefined elsewhere; and what
    `evaluate` raises for a text that cannot be executed.
    """
    outputs = [(output.kind, output.path) for output in parse(source).outputs]
    if outputs != [(output.kind, output.path) for output in parse(split).outputs]:
        raise PlanError("the split graph has other outputs")
    given = random_inputs(source, seed=seed) if inputs is None else inputs
    expected, found = (evaluate_all(text, given, seed=seed) for text in (source, split))
    noise = NOISE * max(map(_largest, expected.outputs), default=0.0)
    for (kind, path), value, wanted in zip(outputs, found.outputs, expected.outputs, strict=True):
        _compare(f"output {kind} {path!r}", value, wanted, noise)
    for name, wanted in expected.inputs.items():
        if isinstance(wanted, Tensor):
            value = found.inputs[name]
            assert isinstance(value, Tensor)
            _compare(f"input %{name}", value, wanted)


def _largest(tensor: Tensor) -> float:
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        return 0.0  # compared exactly
    finite = tensor[tensor.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def _compare(what: str, value: Tensor, wanted: Tensor, noise: float = 0.0) -> None:
    if value.shape != wanted.shape or value.dtype != wanted.dtype:
        types = f"{list(value.shape)} of {value.dtype}, not {list(wanted.shape)} of {wanted.dtype}"
        raise PlanError(f"{what} differs: it is {types}")
    exact = not (value.dtype.is_floating_point or value.dtype.is_complex)
    if exact:
        differs = value != wanted
    else:
        finite = wanted.isfinite()
        near = (value - wanted).abs() <= max(TOLERANCE * _largest(wanted), noise)
        same = (value == wanted) | (value.isnan() & wanted.isnan())
        differs = ~torch.where(finite, near, same)
    if differs.any():
        at = [int(i) for i in differs.nonzero()[0]]
        first = f"{value[tuple(at)].item()!r}, not {wanted[tuple(at)].item()!r}, at {at}"
        share = f"{int(differs.sum())} of {value.numel()} elements"
        raise PlanError(f"{what} differs in {share}: {first}")
