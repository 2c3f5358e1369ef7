"""Traces one training step of a model on fake tensors: forward, loss, gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from magis import _torch_internals as internals
from magis._torch_internals import pytree
from magis.capture.attributes import Attribute, AttributeReads
from magis.capture.batch import (
    BatchLeaf,
    OutLeaf,
    ScalarLeaf,
    StaticLeaf,
    TensorLeaf,
    TreeSpec,
    classify_leaf,
    flatten_batch,
)
from magis.capture.checks import (
    check_draws,
    check_read_state,
    check_written_storage,
    draws_now,
)
from magis.capture.explain import data_dependent, explain
from magis.capture.fakes import DropoutOfGpus, device_to_trace_on, make_fake_mode
from magis.capture.ir import InputKind, OutputKind, Site
from magis.capture.isolate import isolated, swap_tensors
from magis.capture.outputs import (
    Outputs,
    checked_loss,
    plain_tensors,
    reassigned_buffers,
    refuse_replaced_attributes,
    shared_buffers,
)
from magis.capture.reads import Check, Guards, Reader
from magis.capture.sites import ModulePaths, SiteRecorder
from magis.capture.whole_reads import whole_reads
from magis.errors import CaptureError

# No float that a program would compare with or treat apart (0, 1, 2), so that a trace does not take
# a special case.
_SCALAR_HINT = 0.7390851332151607


@dataclass(frozen=True)
class Settings:
    device: torch.device
    autocast: torch.dtype | None

    @property
    def traced_on(self) -> torch.device:
        return device_to_trace_on(self.device)


@dataclass(frozen=True)
class StepInput:
    kind: InputKind
    path: str
    value: Any  # fake tensor, or SymFloat


@dataclass
class TracedGraph:
    """An fx graph of fakes whose placeholders match `inputs` and that returns tensors, one for each
    of `outputs`.
    """

    module: torch.fx.GraphModule
    fake_mode: internals.FakeTensorMode
    inputs: list[StepInput]
    outputs: list[tuple[OutputKind, str]]


@dataclass
class Traced(TracedGraph):
    """A step's, which returns, after the tensors, those floats among the step's results that depend
    on floats of the batch, one for each OutputScalar of `out_leaves`, whose expressions are still
    to be filled in.
    """

    batch_spec: TreeSpec
    batch_leaves: list[BatchLeaf]
    out_spec: TreeSpec
    out_leaves: list[OutLeaf]
    gradient_targets: dict[str, torch.Tensor]  # path -> fake of the parameter or batch tensor
    as_if_compiled: bool
    guards: Guards | None
    checks: tuple[Check, ...]
    folded: tuple[Site, ...]
    attributes: tuple[Attribute, ...]


def trace_step(
    model: nn.Module, loss_fn: Callable[..., Any] | None, batch: Any, settings: Settings
) -> Traced:
    """Raises CaptureError; the model and the process are left as they were either way.

    The model's Python code first runs as in eager mode; what it reads from tensors is guarded or
    speculated on (magis.capture.reads). If it needs what can be neither, it runs again believing
    that it is being compiled, which makes some models take a branch that is right for any data.
    """
    paths = ModulePaths(model)
    try:
        return _Step(model, loss_fn, batch, settings, paths).trace(as_if_compiled=False)
    except CaptureError:
        raise
    except Exception as error:
        if not data_dependent(error):
            raise explain(error, paths) from error
        first = error
    try:
        return _Step(model, loss_fn, batch, settings, paths).trace(as_if_compiled=True)
    except CaptureError:
        raise
    except Exception:
        raise explain(first, paths) from first


class _Step:
    """One try at tracing one step."""

    def __init__(
        self,
        model: nn.Module,
        loss_fn: Callable[..., Any] | None,
        batch: Any,
        settings: Settings,
        paths: ModulePaths,
    ) -> None:
        self.model = model
        self.loss_fn = loss_fn
        self.settings = settings
        self.fake_mode = make_fake_mode()
        self.scalars = internals.RuntimeScalars()
        self.parameters = dict(model.named_parameters())
        self.buffers = dict(model.named_buffers())
        self.shared_buffers = shared_buffers(model)
        leaves, self.batch_spec = flatten_batch(batch)
        self.batch_leaves = [classify_leaf(path, value) for path, value in leaves]
        self.inputs: list[StepInput] = []
        self.differentiated: dict[
            str, bool
        ] = {}  # path of a batch tensor or parameter -> requires_grad
        self._collect_inputs(dict(leaves))
        self.outputs = Outputs()
        self.reader = self._make_reader(dict(leaves))
        self.recorder = SiteRecorder(paths, self.reader, self.fake_mode)
        self.attributes = AttributeReads(model)

    def _make_reader(self, batch: Mapping[str, Any]) -> Reader:
        """Answers reads with what the model and the batch hold now."""
        tables: dict[str, Mapping[str, Any]] = {
            "param": self.parameters,
            "buffer": self.buffers,
            "batch": batch,
            "scalar": batch,
        }
        inputs: list[tuple[str, str, Any]] = []
        device: torch.device | None = None
        for item in self.inputs:
            trained = item.kind == "param" and self.parameters[item.path].requires_grad
            updated = self.loss_fn is not None and trained
            kind = "frozen" if item.kind == "param" and not updated else item.kind
            value = tables.get(item.kind, {}).get(item.path)
            if isinstance(value, torch.Tensor):
                value = value.detach()
                if device is None and not value.is_meta:  # what is made from literals has data
                    device = value.device
            inputs.append((kind, item.path, value))
        return Reader(inputs, device or torch.device("cpu"), torch.get_rng_state())

    def _collect_inputs(self, batch: Mapping[str, Any]) -> None:
        def fake(tensor: torch.Tensor) -> torch.Tensor:
            return internals.fake_like(self.fake_mode, tensor, self.settings.traced_on)

        for name, parameter in self.parameters.items():
            self.inputs.append(StepInput("param", name, fake(parameter)))
            self.differentiated[name] = parameter.requires_grad
        for name, buffer in self.buffers.items():
            self.inputs.append(StepInput("buffer", name, fake(buffer)))
        for leaf in self.batch_leaves:
            if isinstance(leaf, TensorLeaf):
                self.inputs.append(StepInput("batch", leaf.path, fake(batch[leaf.path])))
                self.differentiated[leaf.path] = batch[leaf.path].requires_grad
        for leaf in self.batch_leaves:
            if isinstance(leaf, ScalarLeaf):
                self.inputs.append(
                    StepInput("scalar", leaf.path, self.scalars.make(leaf.path, _SCALAR_HINT))
                )

    def trace(self, as_if_compiled: bool) -> Traced:
        with (
            isolated(self.model),
            self.fake_mode,
            _stand_in_for(self.settings),
            internals.pretend_compiling() if as_if_compiled else contextlib.nullcontext(),
            torch.set_grad_enabled(self.loss_fn is not None),
        ):
            flat = [item.value for item in self.inputs]
            try:
                module = internals.trace(lambda flat: self._function(flat), flat)
            finally:
                torch.clear_autocast_cache()  # holds casts of tensors of the trace
        fixed = self.scalars.fixed()
        if fixed:
            raise CaptureError(
                f"the step needs the value of batch{fixed[0]}, a float, to decide something or"
                " where only a fixed number will do (a dropout probability, an int). Floats in the"
                " batch stay variable: use them in sums, products and quotients only, pass what is"
                " to be computed from them instead, or freeze them by closing over them."
            )
        return Traced(
            module=module,
            fake_mode=self.fake_mode,
            inputs=self.inputs,
            outputs=self.outputs.labels,
            batch_spec=self.batch_spec,
            batch_leaves=self.batch_leaves,
            out_spec=self.outputs.spec,
            out_leaves=self.outputs.leaves,
            gradient_targets={i.path: i.value for i in self.inputs if i.kind in ("param", "batch")},
            as_if_compiled=as_if_compiled,
            guards=self.reader.guards(),
            checks=tuple(self.reader.checks),
            folded=tuple(self.reader.folded),
            attributes=self.attributes.found(),
        )

    # Everything below runs under the tracer.

    def _function(self, flat: list[Any]) -> list[Any]:
        with internals.FunctionalTensorMode(), self.recorder:
            wrapped = [
                internals.to_functional(value) if isinstance(value, torch.Tensor) else value
                for value in flat
            ]
            live = {(i.kind, i.path): v for i, v in zip(self.inputs, wrapped, strict=True)}
            if self.loss_fn is not None:
                for (kind, path), value in live.items():
                    if kind in ("param", "batch") and self.differentiated[path]:
                        value.requires_grad_()
            with whole_reads(self.recorder):
                self._run(live)
            self._collect_writes(live)
            check_read_state(self.reader.reads, self.outputs.labels)
            for check, tensor in zip(self.reader.checks, self.reader.speculated, strict=True):
                self.outputs.add("aux", check.path, tensor)
            tensors = [internals.unwrap_functional(tensor) for tensor in self.outputs.tensors]
            return [*tensors, *self.outputs.scalars]

    def _run(self, live: Mapping[tuple[InputKind, str], Any]) -> None:
        swap_tensors(
            self.model,
            {id(tensor): live["param", name] for name, tensor in self.parameters.items()},
            {id(tensor): live["buffer", name] for name, tensor in self.buffers.items()},
        )
        attributes = plain_tensors(self.model)
        draws = draws_now()
        self.recorder.on_leave = lambda path: check_draws(
            draws, draws_now(), f"module {path!r}" if path else "the model"
        )
        loss = self._forward(live)
        check_draws(draws, draws_now(), "the step")
        refuse_replaced_attributes(self.model, attributes, self.recorder.outside)
        if loss is None:
            return
        targets = {
            path: live[kind, path]
            for kind, path in live
            if kind in ("param", "batch") and self.differentiated[path]
        }
        self.recorder.backward = True
        with _autocast(self.settings.device, None):
            gradients = torch.autograd.grad(loss, list(targets.values()), allow_unused=True)
        with torch.no_grad():
            self._collect_gradients(dict(zip(targets, gradients, strict=True)))

    def _forward(self, live: Mapping[tuple[InputKind, str], Any]) -> torch.Tensor | None:
        """Runs model and loss, records what they return, and gives back the loss; None when there
        is no loss_fn.
        """
        values = [
            leaf.value
            if isinstance(leaf, StaticLeaf)
            else live["batch" if isinstance(leaf, TensorLeaf) else "scalar", leaf.path]
            for leaf in self.batch_leaves
        ]
        batch = pytree.tree_unflatten(values, self.batch_spec)
        args, kwargs = (batch, {}) if isinstance(batch, tuple) else ((), batch)
        function = self.model if self.loss_fn is None else self.loss_fn
        if self.loss_fn is not None:
            args = (self.model, *args)
        with (
            self.recorder.following_modules(),
            self.attributes.recording(),
            _autocast(self.settings.device, self.settings.autocast),
        ):
            result = function(*args, **kwargs)
        loss = None
        if self.loss_fn is not None:
            loss = checked_loss(result[0] if isinstance(result, tuple) and result else result)
        self.outputs.add_result(result, has_loss=loss is not None)
        return loss

    def _collect_gradients(self, gradients: Mapping[str, torch.Tensor | None]) -> None:
        for path, gradient in gradients.items():
            if gradient is None:
                continue
            if gradient.layout is not torch.strided:
                raise CaptureError(
                    f"the gradient of {path} is {gradient.layout}; only dense gradients are"
                    " supported. Build the embedding with sparse=False."
                )
            self.outputs.add("grad", path, gradient.detach())

    def _collect_writes(self, live: Mapping[tuple[InputKind, str], Any]) -> None:
        """Buffers (and, under no_grad, parameters) that the step wrote to or put another tensor in
        the place of.
        """
        reassigned = reassigned_buffers(self.model, self.buffers, self.shared_buffers, live)
        owned = {
            **{f"the parameter {path}": tensor for path, tensor in self.parameters.items()},
            **{f"the buffer {path}": tensor for path, tensor in self.buffers.items()},
        }
        for (kind, path), value in live.items():
            if kind == "buffer" and path in reassigned:
                self.outputs.add("buffer", path, reassigned[path])
            elif isinstance(value, torch.Tensor) and internals.has_data_mutation(value):
                if kind == "batch":
                    raise CaptureError(
                        f"the step writes in place to batch{path}, which belongs to the caller;"
                        " clone it first"
                    )
                place = f"the {'buffer' if kind == 'buffer' else 'parameter'} {path}"
                check_written_storage(place, owned)
                self.outputs.add("buffer" if kind == "buffer" else "param", path, value.detach())


@contextlib.contextmanager
def _autocast(device: torch.device, dtype: torch.dtype | None) -> Iterator[None]:
    """Autocast to `dtype`; none at all for None, whatever surrounds the capture."""
    enabled = dtype is not None
    if not enabled and not torch.is_autocast_enabled(device.type):
        yield
        return
    with torch.autocast(device.type, dtype=dtype, enabled=enabled, cache_enabled=True):
        yield


def _stand_in_for(settings: Settings) -> contextlib.AbstractContextManager[Any]:
    """What has to be arranged where another device is traced on than the one captured for."""
    if settings.traced_on == settings.device:
        return contextlib.nullcontext()
    if settings.autocast is not None:
        raise CaptureError(
            f"this PyTorch was built without CUDA, and autocast for {settings.device.type} cannot"
            " be traced without it. Plan for the CPU, or convert the model (model.bfloat16())."
        )
    dropout: contextlib.AbstractContextManager[Any] = DropoutOfGpus()
    return dropout
