"""Holds a split graph to the graph that it was made of: the same outputs, up to rounding."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from magis.errors import PlanError
from magis.verify.document import Document
from magis.verify.evaluator import Value, evaluate_document
from magis.verify.inputs import random_inputs
from magis.verify.text import parse

# In float64, of the largest element: what summing in another order may change.
TOLERANCE = 1e-10
# A gradient that is zero but for rounding (of a key's bias, say) is noise in either order: of the
# largest output.
NOISE = 1e-16


class FissionCheck:
    """What graph or plan text `source` computes in float64 on `inputs`, random ones if none are
    given, for the graphs that were split from it or rewritten. `tolerance` is relative to a
    tensor's largest element, `noise` to the largest output's."""

    def __init__(
        self,
        source: str,
        inputs: Mapping[str, Value] | None = None,
        *,
        seed: int = 0,
        tolerance: float = TOLERANCE,
        noise: float = NOISE,
    ) -> None:
        document = parse(source)
        self.outputs = _outputs(document)
        self.seed = seed
        self.inputs = random_inputs(source, seed=seed) if inputs is None else inputs
        self.expected = evaluate_document(document, self.inputs, seed=seed)
        self.generator = torch.get_rng_state()
        self.tolerance = tolerance
        self.noise = noise * max(map(_largest, self.expected.outputs), default=0.0)

    def check(self, split: str) -> None:
        """Evaluates `split`, which has loops or other operators, on the same inputs with the same
        random numbers.

        Raises PlanError naming the first output, or the first input as the step leaves it, that
        differs by more than `tolerance` of its largest element, or is infinite or undefined
        elsewhere; if the random generator is left in another state; and what `evaluate` raises
        for a text that cannot be executed.
        """
        document = parse(split)
        if self.outputs != _outputs(document):
            raise PlanError("the split graph has other outputs")
        found = evaluate_document(document, self.inputs, seed=self.seed)
        if not torch.equal(torch.get_rng_state(), self.generator):
            raise PlanError("the split graph leaves the random generator in another state")
        rows = zip(self.outputs, found.outputs, self.expected.outputs, strict=True)
        for (kind, path), value, wanted in rows:
            _compare(f"output {kind} {path!r}", value, wanted, self.tolerance, self.noise)
        for name, wanted in self.expected.inputs.items():
            if isinstance(wanted, Tensor):
                left = found.inputs[name]
                assert isinstance(left, Tensor)
                _compare(f"input %{name}", left, wanted, self.tolerance)


def check_fission(
    source: str, split: str, inputs: Mapping[str, Value] | None = None, *, seed: int = 0
) -> None:
    """Holds one split graph to its source; see `FissionCheck`."""
    FissionCheck(source, inputs, seed=seed).check(split)


def _outputs(document: Document) -> list[tuple[str, str]]:
    return [(output.kind, output.path) for output in document.outputs]


def _largest(tensor: Tensor) -> float:
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        return 0.0  # compared exactly
    finite = tensor[tensor.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def _compare(
    what: str, value: Tensor, wanted: Tensor, tolerance: float, noise: float = 0.0
) -> None:
    if value.shape != wanted.shape or value.dtype != wanted.dtype:
        types = f"{list(value.shape)} of {value.dtype}, not {list(wanted.shape)} of {wanted.dtype}"
        raise PlanError(f"{what} differs: it is {types}")
    exact = not (value.dtype.is_floating_point or value.dtype.is_complex)
    if exact:
        differs = value != wanted
    else:
        finite = wanted.isfinite()
        near = (value - wanted).abs() <= max(tolerance * _largest(wanted), noise)
        same = (value == wanted) | (value.isnan() & wanted.isnan())
        differs = ~torch.where(finite, near, same)
    if differs.any():
        at = [int(i) for i in differs.nonzero()[0]]
        first = f"{value[tuple(at)].item()!r}, not {wanted[tuple(at)].item()!r}, at {at}"
        share = f"{int(differs.sum())} of {value.numel()} elements"
        raise PlanError(f"{what} differs in {share}: {first}")
