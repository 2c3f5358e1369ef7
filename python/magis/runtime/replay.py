"""Runs of a step, eager and planned, from the same state: what each leaves behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from magis import _torch_internals as internals
from magis.capture.records import opened
from magis.runtime.averaging import Averaging
from magis.runtime.batch import Arguments
from magis.runtime.call import without_autocast
from magis.runtime.generator import GeneratorState
from magis.runtime.in_step import InStepOptimizer
from magis.runtime.model_view import ModelView
from magis.runtime.planned import PlannedStep
from magis.runtime.sandbox import sandbox

if TYPE_CHECKING:
    from magis import _core

LossFunction = Callable[..., Any]


@dataclass
class Trace:
    """What one run of a step left behind."""

    results: list[tuple[str, Any]]  # path, leaf of what the loss function returned
    gradients: dict[str, torch.Tensor | None]
    state: dict[str, torch.Tensor]  # buffers, and parameters that the step writes to
    generators: GeneratorState
    optimizer: dict[str, torch.Tensor] = field(default_factory=dict)  # its state
    updated: list[str] = field(default_factory=list)  # parameters that the optimizer updates
    peak_bytes: int | None = None  # above what was allocated on entry; None: not measured


def run_eager(
    model: torch.nn.Module,
    loss_fn: LossFunction | None,
    arguments: Arguments,
    optimizer: InStepOptimizer | None = None,
    averaging: Averaging | None = None,
) -> Any:
    """One ordinary step: gradients are added, or used up by the optimizer if there is one (by then
    they are averaged over the processes of `averaging`), and the result comes back detached.

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
        if averaging is not None:
            averaging.finish_before(optimizer.optimizer)
        optimizer.step_eagerly()
    return pytree.tree_map_only(torch.Tensor, lambda t: t.detach(), opened(result))


def trace_eager(
    model: torch.nn.Module,
    loss_fn: LossFunction | None,
    arguments: Arguments,
    view: ModelView,
    device: torch.device,
    written: Collection[str] = (),
    optimizer: InStepOptimizer | None = None,
    gradients: Collection[str] = (),
) -> Trace:
    """What eager PyTorch leaves behind for this batch, and its peak.

    The model and the optimizer are afterwards as before. `written` names the parameters that the
    step writes to, `gradients` those that have one before, which the step adds into.
    """
    arguments = arguments.cut_off()
    with sandbox(view, written, optimizer, gradients):
        with measured_peak(device) as peak:
            result = run_eager(model, loss_fn, arguments, optimizer)
        trace = _trace(result, arguments, view, device, written, optimizer)
    trace.peak_bytes = peak[0]
    return trace


def trace_planned(
    step: PlannedStep,
    arguments: Arguments,
    view: ModelView,
    device: torch.device,
    gradients: Collection[str] = (),
) -> Trace:
    """What the planned step leaves behind for this batch, as `trace_eager` has it."""
    arguments = arguments.cut_off()
    written = written_parameters(step.base.plan.graph)
    with sandbox(view, written, step.optimizer, gradients):
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
        GeneratorState([device]),
        {name: tensor.clone() for name, tensor in kept.items()},
        [] if optimizer is None else [n for n in written if n in optimizer.view(view).parameters],
    )


@contextlib.contextmanager
def measured_peak(device: torch.device) -> Iterator[list[int | None]]:
    """The most that the block allocates above what was allocated on entry, in the list's one
    element; None where that cannot be measured, on a CPU under a profiler.
    """
    peak: list[int | None] = [None]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield peak
        peak[0] = torch.cuda.max_memory_allocated(device) - before
    elif device.type == "cpu" and not internals.profiled():
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
