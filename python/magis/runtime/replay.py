"""The comparison of a captured step with eager PyTorch: loss, other results, gradients, buffers,
random generator.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from magis import _torch_internals as internals
from magis.capture.records import opened
from magis.errors import ReplayError
from magis.runtime.batch import Arguments
from magis.runtime.call import without_autocast
from magis.runtime.generator import GeneratorState
from magis.runtime.guards import leaf_words
from magis.runtime.in_step import InStepOptimizer
from magis.runtime.model_view import ModelView
from magis.runtime.planned import PlannedStep
from magis.runtime.sandbox import same_bits, sandbox

if TYPE_CHECKING:
    from magis import _core

LossFunction = Callable[..., Any]

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

    def of(self, dtype: torch.dtype, largest: float) -> float:
        """For a tensor whose largest absolute value is `largest`; 0: equal bits."""
        allowed = 0.0
        if self.tolerance is not None:
            allowed = self.tolerance * max(1.0, largest)
        if self.least_scale is not None and (dtype.is_floating_point or dtype.is_complex):
            relative = math.sqrt(torch.finfo(dtype).eps)
            allowed = max(allowed, relative * max(self.least_scale, largest))
        return allowed

    def __str__(self) -> str:
        words = (
            "bit for bit" if self.tolerance is None else f"within a tolerance of {self.tolerance:g}"
        )
        return words if self.least_scale is None else f"{words}, sums over parts apart"


@dataclass
class Trace:
    """What one run of a step left behind."""

    results: list[tuple[str, Any]]  # path, leaf of what the loss function returned
    gradients: dict[str, torch.Tensor | None]
    state: dict[str, torch.Tensor]  # buffers, and parameters that the step writes to
    optimizer: dict[str, torch.Tensor]  # its state
    generators: GeneratorState
    peak_bytes: int | None = None  # above what was allocated on entry; None: not measured


def run_eager(
    model: torch.nn.Module,
    loss_fn: LossFunction | None,
    arguments: Arguments,
    optimizer: InStepOptimizer | None = None,
) -> Any:
    """One ordinary step: gradients are added, or used up by the optimizer if there is one, and the
    result comes back detached.

    Forward pass and loss run under the caller's autocast, backward without it, as PyTorch
    recommends. Without a loss function the model alone runs, without autograd.
    """
    if loss_fn is None:
        with torch.no_grad():
            return arguments.call(model)
    with torch.inference_mode(False), torch.enable_grad():
        result = arguments.call(loss_fn, model)
        loss = pytree.tree_leaves(result)[0]
        with without_autocast(loss.device.type):
            loss.backward()
    if optimizer is not None:
        optimizer.step_eagerly(model)
    return pytree.tree_map_only(torch.Tensor, lambda t: t.detach(), opened(result))


def trace_eager(
    model: torch.nn.Module,
    loss_fn: LossFunction | None,
    arguments: Arguments,
    view: ModelView,
    device: torch.device,
    written: Collection[str] = (),
    optimizer: InStepOptimizer | None = None,
) -> Trace:
    """What eager PyTorch leaves behind for this batch, and its peak.

    The model and the optimizer are afterwards as before. `written` names the parameters that the
    step writes to.
    """
    arguments = arguments.cut_off()
    with sandbox(view, written, optimizer):
        with measured_peak(device) as peak:
            result = run_eager(model, loss_fn, arguments, optimizer)
        trace = _trace(result, arguments, view, device, written, optimizer)
    trace.peak_bytes = peak[0]
    return trace


def trace_planned(
    step: PlannedStep, arguments: Arguments, view: ModelView, device: torch.device
) -> Trace:
    """What the planned step leaves behind for this batch. The model is afterwards as before."""
    arguments = arguments.cut_off()
    written = written_parameters(step.base.plan.graph)
    with sandbox(view, written, step.optimizer):
        result = step.run(view, arguments.leaves)
        return _trace(result, arguments, view, device, written, step.optimizer)


def written_parameters(graph: _core.Graph) -> list[str]:
    """Parameters that the step writes to: the optimizer, or the forward pass (under no_grad)."""
    return [output.path for output in graph.outputs if output.kind == "param"]


def _trace(
    result: Any,
    arguments: Arguments,
    view: ModelView,
    device: torch.device,
    written: Collection[str],
    optimizer: InStepOptimizer | None,
) -> Trace:
    leaves = pytree.tree_flatten_with_path(opened(result))[0]
    gradients: dict[str, torch.Tensor | None] = {
        name: parameter.grad for name, parameter in view.parameters.items()
    }
    for path, leaf in zip(arguments.paths, arguments.leaves, strict=True):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            gradients[path] = leaf.grad
    state = {**view.buffers(), **{name: view.parameters[name] for name in written}}
    kept = {} if optimizer is None else optimizer.tensors(view)
    return Trace(
        [(pytree.keystr(path), leaf) for path, leaf in leaves],
        gradients,
        {name: tensor.detach().clone() for name, tensor in state.items()},
        {name: tensor.clone() for name, tensor in kept.items()},
        GeneratorState([device]),
    )


@contextlib.contextmanager
def measured_peak(device: torch.device) -> Iterator[list[int | None]]:
    """The most that the block allocates above what was allocated on entry, in the list's one
    element.
    """
    peak: list[int | None] = [None]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield peak
        peak[0] = torch.cuda.max_memory_allocated(device) - before
    elif device.type == "cpu":
        recorder = internals.AllocationRecorder()
        with recorder:
            yield peak
        held = most = 0
        for change in recorder.changes():
            held += change
            most = max(most, held)
        peak[0] = most
    else:
        yield peak


def compare(
    eager: Trace,
    planned: Trace,
    view: ModelView,
    tolerance: float | None,
    *,
    as_if_compiled: bool,
    rounds_otherwise: bool = False,
) -> None:
    """Raises ReplayError that names the first tensor in which the two differ.

    Bit by bit, or up to `tolerance` times the larger of 1 and the tensor's largest absolute value.
    Layouts of gradients and the generator's state must be equal in any case.

    rounds_otherwise: the plan adds up sums part by part or computes with other operators, so that
    each result may be rounded another way: by the
    square root of the dtype's precision, relative to the tensor's largest absolute value, or to a
    thousandth of the largest gradient where that is more (a gradient that cancels to noise).
    """
    allowance = Allowance(tolerance, _largest_gradient(eager) / 1000 if rounds_otherwise else None)
    differences = list(_differences(eager, planned, view, allowance))
    if not differences:
        return
    more = f" {len(differences) - 1} more differ." if len(differences) > 1 else ""
    allowed = str(allowance)
    cause = _LOOKS_AT_DATA if as_if_compiled else _UNSEEN
    raise ReplayError(
        f"the captured step does not reproduce eager PyTorch {allowed}: {differences[0]}.{more} "
        f"{cause} If such a difference is acceptable, allow it with tolerance=..."
    )


def _differences(
    eager: Trace, planned: Trace, view: ModelView, tolerance: Allowance
) -> Iterator[str]:
    for number, ((path, before), (_, after)) in enumerate(
        zip(eager.results, planned.results, strict=True)
    ):
        name = "the loss" if number == 0 and path in {"", "[0]"} else f"result{path}"
        if isinstance(before, torch.Tensor):
            yield from _tensor_difference(name, before, after, tolerance)
        elif before != after and before == before:
            yield f"{name} is {after!r}, eager's is {before!r}"
    for path, value in eager.state.items():
        kind = "parameter" if path in view.parameters else "buffer"
        name = f"{kind} {path} of {view.module_of(path)}"
        yield from _tensor_difference(name, value, planned.state[path], tolerance)
    for path, value in eager.optimizer.items():
        name = f"the optimizer's {path.rpartition('.')[2]} of {path.rpartition('.')[0]}"
        yield from _tensor_difference(name, value, planned.optimizer[path], tolerance)
    for path, grad in eager.gradients.items():
        name = _gradient_name(path, view)
        yield from _gradient_difference(name, grad, planned.gradients[path], tolerance)
    if eager.generators != planned.generators:
        yield "the state of the random generator after the step"


def _largest(tensor: torch.Tensor) -> float:
    finite = tensor.detach().abs()[tensor.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def _largest_gradient(trace: Trace) -> float:
    return max((_largest(g) for g in trace.gradients.values() if g is not None), default=0.0)


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
