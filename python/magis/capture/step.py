"""capture(): one training step of an unmodified PyTorch model as graph text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from magis.capture.attributes import Attribute
from magis.capture.batch import BatchLeaf, OutLeaf, OutputScalar, TreeSpec
from magis.capture.canonical import CanonicalPass, remove_dead_code
from magis.capture.checks import check_batch, check_model, resolve_device
from magis.capture.ir import Site
from magis.capture.layout import add_outputs
from magis.capture.names import assign_names
from magis.capture.optimizers import WITHOUT, OptimizerForm, OptimizerView
from magis.capture.reads import Check, Guards
from magis.capture.sites import place
from magis.capture.text import DTYPE_WORDS, graph_text
from magis.capture.trace import Settings, Traced, trace_step
from magis.capture.updates import add_updates
from magis.errors import CaptureError


@dataclass(frozen=True)
class Capture:
    """A captured step: the graph, and how Python values map to its inputs and outputs."""

    text: str  # the graph, in the text language
    device: torch.device
    autocast: torch.dtype | None
    batch_spec: TreeSpec  # of magis.capture.batch.normalise_batch(batch)
    batch_leaves: tuple[BatchLeaf, ...]  # in the spec's order
    out_spec: TreeSpec  # of what loss_fn (without one: the model) returned
    out_leaves: tuple[
        OutLeaf, ...
    ]  # in the spec's order; tensors as positions in the text's outputs
    # The model looks at data, and was traced on the branch that is right for any data: its kernels
    # may differ from those that eager mode picks for this batch, in the last bits.
    as_if_compiled: bool
    # What the step's code read from tensors: to be computed anew before each call, and predicates
    # among the outputs that must come out as they did.
    guards: Guards | None = None
    checks: tuple[Check, ...] = ()
    folded: tuple[Site, ...] = ()  # where it read what is the same at every run
    attributes: tuple[Attribute, ...] = ()  # of modules, that it read
    optimizer: OptimizerForm | None = None  # whose updates are in the step
    # Parameters whose gradients are averaged over several processes in the step, in that order.
    averaged: tuple[str, ...] = ()


def capture(
    model: nn.Module,
    loss_fn: Callable[..., Any] | None,
    batch: Any,
    *,
    device: str | None = None,
    autocast: torch.dtype | None = None,
    optimizer: OptimizerView | torch.optim.Optimizer | None = None,
    meta: Mapping[str, str] | None = None,
) -> Capture:
    """Captures loss_fn(model, *batch), or loss_fn(model, **batch) for a dict, and its gradients.

    Nothing is computed and no memory of the model's size is taken: weights and batch may be on the
    meta device. The model is left exactly as it was.

    loss_fn returns a scalar tensor, or a tuple whose first item is one; the rest comes back
    detached. With None the model alone runs, as for inference, and all that it returns comes back.
    Floats in the batch stay variable; all other Python values, those that the code closes over
    included, are frozen into the graph.

    device: what to plan for; the device that model and batch are on if None. autocast: run forward
    and loss under torch.autocast of this dtype; if None, as the surrounding context says.
        Gradients are computed outside of it, as PyTorch recommends.
    optimizer: SGD, Adam or AdamW of torch.optim over parameters of the model. Its updates become
        part of the step, and the gradients that they use do not come out any more. Learning rates,
        betas, weight decays and step counts are runtime scalars.
    meta: recorded in the text's header.

    Raises CaptureError, which names the module and the source line.
    """
    check_model(model)
    check_batch(model, batch)
    chosen = resolve_device(model, batch, device)
    if autocast is None and torch.is_autocast_enabled(chosen.type):
        autocast = torch.get_autocast_dtype(chosen.type)
    settings = Settings(chosen, autocast)
    if optimizer is not None and not isinstance(optimizer, OptimizerView):
        optimizer = OptimizerView(optimizer, dict(model.named_parameters()))
    traced = trace_step(model, loss_fn, batch, settings)
    if optimizer is not None and traced.checks:
        raise CaptureError(_cannot_be_abandoned(traced))

    canonical = CanonicalPass(traced, settings.traced_on)
    returned, expressions = canonical.run()
    builder = canonical.builder
    add_outputs(builder, traced.outputs, returned, traced.gradient_targets)
    form, averaged = (None, ()) if optimizer is None else add_updates(builder, optimizer)
    remove_dead_code(builder.graph)
    assign_names(builder.graph)
    header = dict(meta or {})
    if settings.traced_on != chosen:
        header.setdefault("note", "captured without CUDA: fused attention is spelled out")
    if autocast is not None:
        header.setdefault("autocast", DTYPE_WORDS[autocast])
    if traced.guards is not None or traced.checks:
        header.setdefault("specialised", _specialised(traced))
    if optimizer is not None:
        header.setdefault("optimizer", optimizer.name)
    return Capture(
        text=graph_text(builder.graph, chosen, header),
        device=chosen,
        autocast=autocast,
        batch_spec=traced.batch_spec,
        batch_leaves=tuple(traced.batch_leaves),
        out_spec=traced.out_spec,
        out_leaves=_with_expressions(traced.out_leaves, expressions),
        as_if_compiled=traced.as_if_compiled,
        guards=traced.guards,
        checks=traced.checks,
        folded=traced.folded,
        attributes=traced.attributes,
        optimizer=form,
        averaged=averaged,
    )


def _cannot_be_abandoned(traced: Traced) -> str:
    return (
        f"{place(traced.checks[0].site)}: the step decides by a value that it computes, and must be"
        " able to stop before it has changed anything; with the optimizer in the step it cannot."
        f" {WITHOUT}"
    )


def _specialised(traced: Traced) -> str:
    """On what the graph was specialised, in words: it is right for data like the example's."""
    reads = len(traced.guards.reads) if traced.guards is not None else 0
    return f"{reads} values that were read, {len(traced.checks)} conditions"


def _with_expressions(leaves: list[OutLeaf], expressions: list[str]) -> tuple[OutLeaf, ...]:
    remaining = iter(expressions)
    return tuple(
        OutputScalar(leaf.path, next(remaining)) if isinstance(leaf, OutputScalar) else leaf
        for leaf in leaves
    )
