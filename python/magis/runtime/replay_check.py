"""A captured step is replayed beside eager once, on the batch or on a smaller one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from magis import _core
from magis.capture import Capture, capture
from magis.errors import CaptureError
from magis.runtime import replay
from magis.runtime.batch import Arguments
from magis.runtime.comparison import coarsest_epsilon, compare
from magis.runtime.compiled import CompiledPlan
from magis.runtime.free_memory import free_bytes
from magis.runtime.host_pool import HostPool
from magis.runtime.in_step import InStepOptimizer
from magis.runtime.model_view import ModelView
from magis.runtime.planned import PlannedStep
from magis.runtime.planner import baseline_of
from magis.runtime.scratch import with_measured_scratch
from magis.verify.text import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Verify = Literal["auto", "off"]


class Capturer:
    """Captures one model's step on any batch, always in the same way."""

    def __init__(
        self,
        model: nn.Module,
        loss_fn: Callable[..., Any] | None,
        device: torch.device,
        profile: str,
        optimizer: InStepOptimizer | None,
        meta: Mapping[str, str],
    ) -> None:
        self.model = model
        self.loss_fn = loss_fn
        self.device = device
        self.profile = profile
        self.optimizer = optimizer
        self.meta = meta  # recorded in every graph's header

    @property
    def runs_here(self) -> bool:
        """Whether there is anything to run: weights on the meta device have no values."""
        return bool(self.device.type != "meta")

    def capture(self, arguments: Arguments) -> Capture:
        batch = arguments.cut_off().batch
        optimizer = None
        if self.optimizer is not None:
            optimizer = self.optimizer.view(ModelView(self.model))
        return capture(
            *(self.model, self.loss_fn, batch),
            device=self._planned_for(),
            optimizer=optimizer,
            meta=self.meta,
        )

    def graph(self, captured: Capture) -> _core.Graph:
        """With what its kernels take for themselves measured on CPU."""
        text = captured.text
        if self.device.type == "cpu":
            text = with_measured_scratch(text)
        return _core.Graph.parse(text, "captured graph")

    def _planned_for(self) -> str | None:
        """Weights on the meta device can be planned for a machine that is not this one."""
        on_gpu = self.profile not in {"cpu", "reference", "reference-h2"}
        return "cuda" if self.device.type == "meta" and on_gpu else None


class ReplayCheck:
    """Compares planned steps with eager as far as memory allows."""

    def __init__(
        self,
        capturer: Capturer,
        host: HostPool,
        *,
        verify: Verify,
        tolerance: float | None,
        exact: bool,
    ) -> None:
        self._capturer = capturer
        self._host = host
        self._verify = verify
        self._tolerance = tolerance
        self._exact = exact
        self._device = capturer.device

    def trace_eager(
        self, graph: _core.Graph, arguments: Arguments, view: ModelView, baseline: _core.Simulation
    ) -> replay.Trace | None:
        """Eager's run on this batch, if it is wanted and fits into the memory that is free."""
        if self._verify == "off" or not self._capturer.runs_here or not self.fits(baseline, view):
            return None
        written = replay.written_parameters(graph)
        return self._run_eager(written, arguments, view)

    def fits(self, baseline: _core.Simulation, view: ModelView) -> bool:
        copies = sum(buffer.untyped_storage().nbytes() for buffer in view.buffers().values())
        # Eager differs from the captured order by some percent, and its gradients stay while the
        # plan runs.
        gradients = sum(
            p.untyped_storage().nbytes() for p in view.parameters.values() if p.requires_grad
        )
        if (
            self._capturer.optimizer is not None
        ):  # put back after each of the two runs, and compared
            state = self._capturer.optimizer.tensors(view).values()
            copies += gradients + sum(tensor.untyped_storage().nbytes() for tensor in state)
        needed = int(1.1 * baseline.transient_peak_bytes) + 2 * copies + gradients
        return bool(needed <= free_bytes(self._device))

    def __call__(
        self,
        step: PlannedStep,
        graph: _core.Graph,
        arguments: Arguments,
        view: ModelView,
        eager: replay.Trace | None,
    ) -> str:
        """Compares the plan with eager as far as possible; returns how, in words. Raises
        ReplayError.
        """
        if self._verify == "off":
            return 'not replayed: verify="off"'
        if not self._capturer.runs_here:
            return "not replayed: weights on the meta device have no values"
        if eager is not None:
            steps = [step]
            if step.base.plan.graph.rounds_otherwise:
                # What the plan's rounding may hide shows in the graph as it was captured.
                steps.insert(0, self._unplanned(step, graph, arguments))
            for compared in steps:
                planned = replay.trace_planned(compared, arguments, view, self._device)
                self._compare(eager, planned, compared, view)
            return f"on the batch: {self._agreement(step)}"
        return self._replay_smaller(step, arguments, view)

    def compare_with_eager(self, step: PlannedStep, arguments: Arguments, view: ModelView) -> None:
        """Runs the step and eager from the same state; nothing of either remains. Raises
        ReplayError.
        """
        written = replay.written_parameters(step.base.plan.graph)
        eager = self._run_eager(written, arguments, view)
        planned = replay.trace_planned(step, arguments, view, self._device)
        self._compare(eager, planned, step, view)

    def _run_eager(self, written: list[str], arguments: Arguments, view: ModelView) -> replay.Trace:
        subject = self._capturer
        return replay.trace_eager(
            *(subject.model, subject.loss_fn, arguments, view, self._device, written),
            subject.optimizer,
        )

    def _compare(
        self, eager: replay.Trace, planned: replay.Trace, step: PlannedStep, view: ModelView
    ) -> None:
        graph = step.base.plan.graph
        otherwise = graph.rounds_otherwise and not self._exact
        compare(
            eager,
            planned,
            view,
            self._tolerance,
            as_if_compiled=step.capture.as_if_compiled,
            epsilon=coarsest_epsilon(graph) if otherwise else None,
        )

    def _step_of(self, captured: Capture, plan: CompiledPlan, arguments: Arguments) -> PlannedStep:
        """One that is only replayed."""
        return PlannedStep(
            *(captured, plan, arguments.paths, self._device, _never_accumulates),
            self._capturer.optimizer,
        )

    def _unplanned(
        self, step: PlannedStep, graph: _core.Graph, arguments: Arguments
    ) -> PlannedStep:
        """The captured graph in program order."""
        plan = CompiledPlan(_core.Plan.program_order(graph), self._device)
        return self._step_of(step.capture, plan, arguments)

    def _replay_smaller(self, step: PlannedStep, arguments: Arguments, view: ModelView) -> str:
        operators = _operator_names(step.capture.text)
        for length in (2, 1):
            smaller = cut_batch(arguments, length)
            if smaller is None:
                continue
            try:
                captured = self._capturer.capture(smaller)
            except CaptureError:  # batch norm, for one, does not train on a single sample
                continue
            if _operator_names(captured.text) != operators:
                continue
            graph = self._capturer.graph(captured)
            if not self.fits(baseline_of(graph, self._capturer.profile), view):
                continue
            base = CompiledPlan(transplant(step.base.plan, graph), self._device, host=self._host)
            small = self._step_of(captured, base, smaller)
            self.compare_with_eager(small, smaller, view)
            return f"on the batch cut to {length}, as eager does not fit: {self._agreement(small)}"
        return (
            "not replayed: eager does not fit into the free memory, "
            "and a smaller batch gives another graph"
        )

    def _agreement(self, step: PlannedStep) -> str:
        words = "bitwise equal to eager"
        if self._tolerance is not None:
            words = f"equal to eager within {self._tolerance:g}"
        graph = step.base.plan.graph
        if graph.rounds_otherwise and not self._exact:
            why = "sums over parts" if graph.loop_count else "rewritten operators"
            if graph.loop_count and graph.rewrites:
                why = "sums over parts and of rewritten operators"
            return f"the capture {words}; the plan too, but for the rounding of {why}"
        return words


def _never_accumulates(paths: frozenset[str]) -> CompiledPlan:
    raise AssertionError(f"gradients of {sorted(paths)} are set aside while a step is replayed")


def cut_batch(arguments: Arguments, length: int) -> Arguments | None:
    """The batch with its leading dimension cut to `length`, for all tensors that share it; None if
    there is none to cut.
    """
    lengths = [
        leaf.shape[0] for leaf in arguments.leaves if isinstance(leaf, torch.Tensor) and leaf.dim()
    ]
    if not lengths:
        return None
    shared = max(sorted(set(lengths)), key=lengths.count)
    if shared <= length:
        return None

    def cut(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.dim() or leaf.shape[0] != shared:
            return leaf
        part = leaf.detach()[:length].clone(memory_format=torch.preserve_format)
        return part.requires_grad_(leaf.requires_grad)

    return arguments.with_leaves([cut(leaf) for leaf in arguments.leaves])


def transplant(plan: _core.Plan, graph: _core.Graph) -> _core.Plan:
    """`plan`'s program on a graph that is equal up to lengths; program order if it does not hold
    there.
    """
    _, _, program = plan.text().partition("\nprogram\n")
    try:
        moved = _core.Plan.parse(
            f"{graph.text().rstrip()}\n\nprogram\n{program}", "plan for a smaller batch"
        )
        moved.verify()
    except _core.UserError:
        return _core.Plan.program_order(graph)
    return moved


def _operator_names(text: str) -> list[str]:
    return [op.operator for op in parse(text).operations]
