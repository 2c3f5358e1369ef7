"""The comparison of a captured step with eager PyTorch: loss, other results, gradients, buffers,
parameters and the optimizer's state, random generator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch

from magis import _core
from magis.capture.text import DTYPE_WORDS
from magis.errors import ReplayError
from magis.runtime.guards import leaf_words
from magis.runtime.model_view import ModelView
from magis.runtime.replay import Trace
from magis.runtime.sandbox import same_bits

_LOOKS_AT_DATA = (
    "The model looks at data (a mask, for instance) and chooses other kernels by it; the capture "
    "holds the choice that is right for any data, which may differ in the last bits: "
    "tolerance=1e-6 is usual then."
)
_UNSEEN = (
    "The model may do something at run time that capture cannot see (Python state, "
    "data-dependent choices), or this is a bug in magis."
)


@dataclass(frozen=True)
class Allowance:
    """How far a tensor may be from eager's."""

    tolerance: float | None  # relative to the larger of 1 and the largest absolute value
    least_scale: float | None  # sums may be rounded part by part, relative to at least this
    least: float = 0.0  # in any case
    epsilon: float = 0.0  # at least, of what sums are rounded to

    def of(self, dtype: torch.dtype, largest: float) -> float:
        """For a tensor whose largest absolute value is `largest`; 0: equal bits."""
        allowed = 0.0
        if self.tolerance is not None:
            allowed = self.tolerance * max(1.0, largest)
        if self.least_scale is not None and (dtype.is_floating_point or dtype.is_complex):
            relative = math.sqrt(max(self.epsilon, torch.finfo(dtype).eps))
            allowed = max(allowed, relative * max(self.least_scale, largest))
        return max(allowed, self.least)

    def __str__(self) -> str:
        words = (
            "bit for bit" if self.tolerance is None else f"within a tolerance of {self.tolerance:g}"
        )
        return words if self.least_scale is None else f"{words}, sums over parts apart"


class Allowances:
    """The allowance for each tensor that a step leaves behind."""

    def __init__(
        self, eager: Trace, view: ModelView, tolerance: float | None, epsilon: float | None
    ) -> None:
        self._view = view
        self.usual = Allowance(tolerance, None)
        self._changes: dict[str, float] = {}  # of parameters that the optimizer updated
        self._adaptive: set[str] = set()
        self._optimizer: dict[str, Allowance] = {}
        if epsilon is None:
            return
        # This share of the largest tensor of a kind: others may cancel to noise.
        self._noise = max(1e-3, 3 * math.sqrt(epsilon))
        self.usual = self._rounded(tolerance, eager.gradients.values(), epsilon)
        for path in eager.optimizer:
            parameter, _, name = path.rpartition(".")
            if name == "exp_avg_sq":
                self._adaptive.add(parameter)
        for name in {path.rpartition(".")[2] for path in eager.optimizer}:
            kept = [t for path, t in eager.optimizer.items() if path.endswith(f".{name}")]
            self._optimizer[name] = Allowance(tolerance, _largest_of(kept) / 1000, epsilon=epsilon)
        for path in eager.updated:
            change = eager.state[path].detach() - view.parameters[path].detach()
            self._changes[path] = _largest(change)

    def _rounded(
        self, tolerance: float | None, kind: Iterable[torch.Tensor | None], epsilon: float
    ) -> Allowance:
        return Allowance(tolerance, self._noise * _largest_of(kind), epsilon=epsilon)

    def of_state(self, path: str) -> Allowance:
        """Of a buffer, or a parameter that the step writes to."""
        change = self._changes.get(path)
        if change is None:
            return self.usual
        if path in self._adaptive:
            return replace(self.usual, least=2 * change)
        scale = max(change, self._noise * max(self._changes.values()))
        own = torch.finfo(self._view.parameters[path].dtype).eps
        rounding = 2 * own * _largest(self._view.parameters[path])
        relative = math.sqrt(max(self.usual.epsilon, own))
        return Allowance(self.usual.tolerance, None, relative * scale + rounding)

    def of_optimizer(self, name: str) -> Allowance:
        return self._optimizer.get(name, self.usual)


def compare(
    eager: Trace,
    planned: Trace,
    view: ModelView,
    tolerance: float | None,
    *,
    as_if_compiled: bool,
    epsilon: float | None = None,
) -> None:
    """Raises ReplayError that names the first tensor in which the two differ.

    Bit by bit, or up to `tolerance` times the larger of 1 and the tensor's largest absolute value.
    Layouts of gradients and the generator's state must be equal in any case.

    epsilon: the plan adds up sums part by part or computes with other operators, so that each
    result may be rounded another way, and what it was made of to this precision: by the square root
    of that (or of the dtype's own, if it is coarser), relative to the tensor's largest absolute
    value, or to a share of the largest gradient where that is more (a gradient that cancels to
    noise): a thousandth in float32, a quarter in bfloat16, where noise is three roundings of the
    largest.
    Optimizers' state likewise; an update of a parameter relative to what eager's update changed, or
    to that share of the largest change. Adam's updates are of one size, however small a gradient,
    which may be noise: they may differ by twice what eager's update changed.
    """
    allowances = Allowances(eager, view, tolerance, epsilon)
    differences = list(_differences(eager, planned, view, allowances))
    if not differences:
        return
    more = f" {len(differences) - 1} more differ." if len(differences) > 1 else ""
    allowed = str(allowances.usual)
    cause = _LOOKS_AT_DATA if as_if_compiled else _UNSEEN
    raise ReplayError(
        f"the captured step does not reproduce eager PyTorch {allowed}: {differences[0]}.{more} "
        f"{cause} If such a difference is acceptable, allow it with tolerance=..."
    )


def coarsest_epsilon(graph: _core.Graph) -> float:
    """Of the floating dtypes that the graph computes in: under autocast, gradients of float32 are
    made of products in 16 bits.
    """
    words = {tensor.type.partition("[")[0] for tensor in graph.tensors if not tensor.is_input}
    dtypes = [dtype for dtype, word in DTYPE_WORDS.items() if word in words]
    return max((torch.finfo(d).eps for d in dtypes if d.is_floating_point), default=0.0)


def _differences(
    eager: Trace, planned: Trace, view: ModelView, allowances: Allowances
) -> Iterator[str]:
    usual = allowances.usual
    for number, ((path, before), (_, after)) in enumerate(
        zip(eager.results, planned.results, strict=True)
    ):
        name = "the loss" if number == 0 and path in {"", "[0]"} else f"result{path}"
        if isinstance(before, torch.Tensor):
            yield from _tensor_difference(name, before, after, usual)
        elif before != after and before == before:
            yield f"{name} is {after!r}, eager's is {before!r}"
    for path, value in eager.state.items():
        kind = "parameter" if path in view.parameters else "buffer"
        name = f"{kind} {path} of {view.module_of(path)}"
        allowance = allowances.of_state(path)
        yield from _tensor_difference(name, value, planned.state[path], allowance)
    for path, value in eager.optimizer.items():
        parameter, _, kept = path.rpartition(".")
        allowance = allowances.of_optimizer(kept)
        name = f"the optimizer's {kept} of {parameter}"
        yield from _tensor_difference(name, value, planned.optimizer[path], allowance)
    for path, grad in eager.gradients.items():
        name = _gradient_name(path, view)
        yield from _gradient_difference(name, grad, planned.gradients[path], usual)
    if eager.generators != planned.generators:
        yield "the state of the random generator after the step"


def _largest(tensor: torch.Tensor) -> float:
    """The largest absolute value that is finite."""
    if not tensor.numel():
        return 0.0
    magnitudes = tensor.detach().abs()
    largest = float(magnitudes.max())
    if math.isfinite(largest):  # picking the finite ones out takes ten times as long
        return largest
    finite = magnitudes[magnitudes.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def _largest_of(tensors: Iterable[torch.Tensor | None]) -> float:
    return max((_largest(t) for t in tensors if t is not None), default=0.0)


def _gradient_name(path: str, view: ModelView) -> str:
    if path in view.parameters:
        return f"the gradient of {path} in {view.module_of(path)}"
    return f"the gradient of {leaf_words(path)}"


def _gradient_difference(
    name: str, eager: torch.Tensor | None, planned: torch.Tensor | None, tolerance: Allowance
) -> Iterator[str]:
    if eager is None or planned is None:
        if eager is not planned:
            yield f"{name} is {_presence(planned)}, eager's is {_presence(eager)}"
        return
    yield from _tensor_difference(name, eager, planned, tolerance)
    if eager.stride() != planned.stride():
        yield f"{name} has strides {planned.stride()}, eager's has {eager.stride()}"


def _presence(grad: torch.Tensor | None) -> str:
    return "None" if grad is None else "a tensor"


def _tensor_difference(
    name: str, eager: torch.Tensor, planned: torch.Tensor, tolerance: Allowance
) -> Iterator[str]:
    if eager.dtype != planned.dtype or eager.shape != planned.shape:
        yield (
            f"{name} is {planned.dtype} {list(planned.shape)}, "
            f"eager's is {eager.dtype} {list(eager.shape)}"
        )
        return
    if same_bits(eager, planned):
        return
    wide = torch.complex128 if eager.dtype.is_complex else torch.float64
    a, b = eager.to(wide), planned.to(wide)
    # Equal infinities and nans in the same places are no difference.
    distance = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
    largest = float(distance.nan_to_num(nan=float("inf")).max())
    allowed = tolerance.of(eager.dtype, _largest(a))
    if allowed > 0 and largest <= allowed:
        return
    yield f"{name} differs by up to {largest:.3g}"
