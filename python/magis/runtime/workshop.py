"""Makes planned steps: captures, measures, searches, compares with eager."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from magis import _core
from magis.capture import Capture, capture, check_differentiated_once
from magis.errors import CaptureError, HostMemoryError, ReplayError
from magis.limits import MemoryLimit
from magis.report import Report
from magis.report.found import Found
from magis.runtime import replay
from magis.runtime.auto_limit import is_auto, kept_bytes, room_now
from magis.runtime.batch import Arguments
from magis.runtime.comparison import compare
from magis.runtime.compiled import CompiledPlan
from magis.runtime.free_memory import free_bytes
from magis.runtime.host_pool import HostPool
from magis.runtime.in_step import InStepOptimizer, written_states
from magis.runtime.lower_bound import check_lower_bound
from magis.runtime.model_view import ModelView
from magis.runtime.parts import what_stays_whole
from magis.runtime.planned import PlanAccumulation, PlannedStep
from magis.runtime.planner import (
    Bound,
    SearchSettings,
    baseline_of,
    bound_for,
    bound_for_accumulation,
    search,
    tell_not_met,
    tell_nothing_gained,
)
from magis.runtime.replicas import Replicas
from magis.runtime.scratch import with_measured_scratch
from magis.runtime.step_times import StepTimer
from magis.runtime.validation import Contest
from magis.runtime.variants import GuardProgram
from magis.verify.text import parse

if TYPE_CHECKING:
    from collections.abc import Callable

Verify = Literal["auto", "off"]

logger = logging.getLogger("magis")

# Plans that are kept although the host has no room for them.
_MOST_WITHOUT_ROOM = 4
_OTHER_FRONTIER = (
    "the frontier is not one of this step on this batch (another shape, another number of threads, "
    "other code): a plan is searched for"
)


@dataclass
class Planned:
    """A planned step with its report, and what is needed to plan it again."""

    step: PlannedStep
    report: Report
    reports: dict[CompiledPlan, Report]
    guards: GuardProgram | None = None
    runs: int = 0
    abandoned: int = 0  # because a speculation failed


class Workshop:
    """Turns a batch into a planned step, always in the same way: one for each `magis.optimize`."""

    def __init__(
        self,
        model: nn.Module,
        loss_fn: Callable[..., Any] | None,
        settings: SearchSettings,
        *,
        device: torch.device,
        verify: Verify,
        tolerance: float | None,
        host: HostPool,
        optimizer: InStepOptimizer | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        self.model = model
        self.loss_fn = loss_fn
        self.settings = settings
        self.device = device
        self.verify = verify
        self.tolerance = tolerance
        self.host = host
        self.optimizer = optimizer
        self.replicas = replicas
        self._without_room: dict[tuple[str, Bound, bool], Found] = {}

    @property
    def runs_here(self) -> bool:
        """Whether there is anything to run: weights on the meta device have no values."""
        return bool(self.device.type != "meta")

    def capture(self, arguments: Arguments) -> tuple[Capture, _core.Graph]:
        """The step on this batch, with what its kernels take for themselves measured on CPU."""
        # The capture itself sees tensors cut off from the batch's.
        check_differentiated_once(self.model, arguments.paths, arguments.leaves)
        captured = self._capture(arguments)
        return captured, self._graph(captured)

    def make(self, arguments: Arguments, view: ModelView, *, first: bool) -> Planned:
        """Captures the step on this batch and plans it.

        `first`: a memory limit below the lower bound is an error only then; later batches of other
        shapes get the best plan there is, and a warning.
        """
        room = self._room()  # before eager runs here: what it leaves behind is gone again later
        captured, graph = self.capture(arguments)
        if self.optimizer is not None:
            self.optimizer.create_state(written_states(graph), view)
        settings = self._settings_for(graph, room)
        if first and settings.frontier and not settings.has_plans_for(graph):
            warnings.warn(_OTHER_FRONTIER, stacklevel=4)
        if settings.refinement is not None:
            settings.refinement.begin(graph, parts=True)
        baseline = baseline_of(graph, settings.device)
        eager = self._trace_eager(graph, arguments, view, baseline)
        measured = None
        if eager is not None and eager.peak_bytes is not None:
            measured = graph.persistent_bytes + eager.peak_bytes
        # Shares refer to the frontier's baseline, where there is one.
        eager_peak, seconds = measured, None
        if settings.frontier is not None and settings.has_plans_for(graph):
            eager_peak, seconds = None, settings.frontier.figures.baseline_seconds
        bound = bound_for(settings.limit, baseline, eager_peak, seconds)
        if first and bound.memory_bytes is not None:
            check_lower_bound(
                graph,
                settings.profile,
                str(settings.limit),
                bound.memory_bytes,
                host_memory=settings.host_memory,
            )
        planned: Planned

        def plan_accumulation(paths: frozenset[str]) -> CompiledPlan:
            return self._plan_accumulation(planned, graph, bound, paths)

        def step_of(base: CompiledPlan) -> PlannedStep:
            return self._step_of(captured, base, arguments, plan_accumulation)

        contest = None
        if first and settings.validate and self.runs_here:
            contest = Contest(
                lambda plan: StepTimer(
                    step_of(CompiledPlan(plan, self.device, host=self.host)), arguments, view
                ),
                captured_fits=self._fits(baseline, view),
            )
        # All processes make their first plan together; later ones each for itself.
        replicas = self.replicas if first else None
        result, base = self._search(graph, settings, bound, replicas, contest=contest)
        step = step_of(base)
        try:
            replayed = self._replay(step, graph, arguments, view, eager)
        except ReplayError:
            if not settings.exact or not result.plan.graph.altered:
                raise
            logger.info("regions or rewrites do not replay bit for bit here: planning without them")
            result, base = self._search(graph, settings, bound, alter=False)
            step, contest = step_of(base), None
            replayed = self._replay(step, graph, arguments, view, eager)
        # The user's own line is four calls up, one more where a call of the step plans anew.
        tell_not_met(result, settings, bound, stacklevel=4 if first else 5)
        if first and settings.batch_parts:
            self._tell_what_stays_whole(graph)
        if first:
            before = measured or result.baseline_peak_bytes
            tell_nothing_gained(result, settings, before, stacklevel=4)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # eager's run has left blocks behind that the plan never needs
        report = self._report(result, settings, replayed, measured, contest)
        planned = Planned(step, report, {step.base: report})
        if captured.guards is not None:
            planned.guards = GuardProgram(captured.guards, arguments.paths, self.device)
        return planned

    def compare_with_eager(self, step: PlannedStep, arguments: Arguments, view: ModelView) -> None:
        """Runs the step and eager from the same state; nothing of either remains. Raises
        ReplayError.
        """
        written = replay.written_parameters(step.base.plan.graph)
        eager = replay.trace_eager(
            *(self.model, self.loss_fn, arguments, view, self.device, written, self.optimizer)
        )
        planned = replay.trace_planned(step, arguments, view, self.device)
        self._compare(eager, planned, step, view)

    def _compare(
        self, eager: replay.Trace, planned: replay.Trace, step: PlannedStep, view: ModelView
    ) -> None:
        as_if_compiled = step.capture.as_if_compiled
        rounds_otherwise = not self.settings.exact and step.base.plan.graph.rounds_otherwise
        compare(
            eager,
            planned,
            view,
            self.tolerance,
            as_if_compiled=as_if_compiled,
            rounds_otherwise=rounds_otherwise,
        )

    def _room(self) -> int | None:
        """Bytes that are free now beyond what is there; None if the user named another limit."""
        if not is_auto(self.settings.limit):
            return None
        in_memory = 0 if self.host.on_disk else self.settings.host_memory
        return room_now(self.device, self.settings.profile, in_memory)

    def _settings_for(self, graph: _core.Graph, room: int | None) -> SearchSettings:
        """The user's, for one graph: with `room` and what is there already in place of "auto"."""
        limit = self.settings.limit
        if room is None or not isinstance(limit, MemoryLimit):
            return self.settings
        kept = kept_bytes(graph) if self.runs_here else 0
        return replace(self.settings, limit=limit.known(room + kept))

    def _search(
        self,
        graph: _core.Graph,
        settings: SearchSettings,
        bound: Bound,
        replicas: Replicas | None = None,
        *,
        alter: bool = True,
        contest: Contest | None = None,
    ) -> tuple[Found, CompiledPlan]:
        """What was found, ready to run. A plan for which the host has no room is kept for the next
        call like this one, which then only asks for the room again.
        """
        key = (graph.text(), bound, alter)
        result = self._without_room.pop(key, None)
        if result is None:
            if contest is not None:
                result = contest.search(graph, settings, bound, measured_on=self.device)
            else:
                result = search(
                    *(graph, settings, bound),
                    measured_on=self.device,
                    alter=alter,
                    replicas=replicas,
                )
        try:
            plan = CompiledPlan(result.plan, self.device, self._heading(result), self.host)
        except HostMemoryError:
            if len(self._without_room) >= _MOST_WITHOUT_ROOM:
                self._without_room.clear()
            self._without_room[key] = result
            raise
        return result, plan

    def _step_of(
        self,
        captured: Capture,
        plan: CompiledPlan,
        arguments: Arguments,
        plan_accumulation: PlanAccumulation | None = None,
    ) -> PlannedStep:
        """Without `plan_accumulation`: one that is only replayed."""
        return PlannedStep(
            captured,
            plan,
            arguments.paths,
            self.device,
            plan_accumulation or _never_accumulates,
            self.optimizer,
        )

    def _tell_what_stays_whole(self, graph: _core.Graph) -> None:
        obstacles = what_stays_whole(graph, self.settings.profile)
        if obstacles:
            warnings.warn(obstacles, stacklevel=5)

    def _capture(self, arguments: Arguments) -> Capture:
        batch = arguments.cut_off().batch
        optimizer = None
        if self.optimizer is not None:
            optimizer = self.optimizer.view(ModelView(self.model))
        return capture(
            *(self.model, self.loss_fn, batch), device=self._capture_device(), optimizer=optimizer
        )

    def _capture_device(self) -> str | None:
        """Weights on the meta device can be planned for a machine that is not this one."""
        on_gpu = self.settings.profile not in {"cpu", "reference", "reference-h2"}
        return "cuda" if self.device.type == "meta" and on_gpu else None

    def _graph(self, captured: Capture) -> _core.Graph:
        text = captured.text
        if self.device.type == "cpu":
            text = with_measured_scratch(text)
        return _core.Graph.parse(text, "captured graph")

    def _plan_accumulation(
        self, planned: Planned, graph: _core.Graph, bound: Bound, paths: frozenset[str]
    ) -> CompiledPlan:
        logger.info("planning the step that adds into %d gradients already there", len(paths))
        # In the order of the graph's outputs, so that the plan does not depend on how a set is laid
        # out.
        ordered = [
            output.path
            for output in graph.outputs
            if output.kind == "grad" and output.path in paths
        ]
        adding = graph.accumulate_gradients(ordered)
        settings = self._settings_for(adding, self._room())
        bound = bound_for_accumulation(settings, bound, adding)
        result, plan = self._search(adding, settings, bound)
        tell_not_met(result, settings, bound, stacklevel=6)
        planned.reports[plan] = self._report(result, settings, planned.report.replayed, None)
        return plan

    def _report(
        self,
        result: Found,
        settings: SearchSettings,
        replayed: str,
        measured: int | None,
        contest: Contest | None = None,
    ) -> Report:
        times = [] if settings.refinement is None else [settings.refinement.words(result.plan)]
        outcome = None if contest is None else contest.outcome
        if outcome is not None:
            times.append(outcome.words)
        return Report.build(
            result,
            device=settings.device,
            limit_text=str(settings.limit),
            replayed=replayed,
            times="; ".join(times),
            promised_times=None if outcome is None else outcome.times,
            measured_baseline_bytes=measured,
        )

    def _heading(self, result: Found) -> str:
        name = type(self.model).__name__
        return (
            f"A training step of {name}, planned by magis.\n\n"
            f"Promised peak {result.peak_bytes:,} bytes, {result.persistent_bytes:,} of them there "
            "before the step; "
            f"the captured order takes {result.baseline_peak_bytes:,}.\n"
        )

    # ---- replay

    def _trace_eager(
        self, graph: _core.Graph, arguments: Arguments, view: ModelView, baseline: _core.Simulation
    ) -> replay.Trace | None:
        """Eager's run on this batch, if it is wanted and fits into the memory that is free."""
        if self.verify == "off" or not self.runs_here or not self._fits(baseline, view):
            return None
        written = replay.written_parameters(graph)
        return replay.trace_eager(
            *(self.model, self.loss_fn, arguments, view, self.device, written, self.optimizer)
        )

    def _fits(self, baseline: _core.Simulation, view: ModelView) -> bool:
        copies = sum(buffer.untyped_storage().nbytes() for buffer in view.buffers().values())
        # Eager differs from the captured order by some percent, and its gradients stay while the
        # plan runs.
        gradients = sum(
            p.untyped_storage().nbytes() for p in view.parameters.values() if p.requires_grad
        )
        if self.optimizer is not None:  # put back after each of the two runs, and compared
            state = self.optimizer.tensors(view).values()
            copies += gradients + sum(tensor.untyped_storage().nbytes() for tensor in state)
        needed = int(1.1 * baseline.transient_peak_bytes) + 2 * copies + gradients
        return bool(needed <= free_bytes(self.device))

    def _replay(
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
        if self.verify == "off":
            return 'not replayed: verify="off"'
        if not self.runs_here:
            return "not replayed: weights on the meta device have no values"
        if eager is not None:
            steps = [step]
            if step.base.plan.graph.rounds_otherwise:
                # What the plan's rounding may hide shows in the graph as it was captured.
                steps.insert(0, self._unplanned(step, graph, arguments))
            for compared in steps:
                planned = replay.trace_planned(compared, arguments, view, self.device)
                self._compare(eager, planned, compared, view)
            return f"on the batch: {self._agreement(step)}"
        return self._replay_smaller(step, arguments, view)

    def _unplanned(
        self, step: PlannedStep, graph: _core.Graph, arguments: Arguments
    ) -> PlannedStep:
        """The captured graph in program order."""
        plan = CompiledPlan(_core.Plan.program_order(graph), self.device)
        return self._step_of(step.capture, plan, arguments)

    def _replay_smaller(self, step: PlannedStep, arguments: Arguments, view: ModelView) -> str:
        operators = _operator_names(step.capture.text)
        for length in (2, 1):
            smaller = cut_batch(arguments, length)
            if smaller is None:
                continue
            try:
                captured = self._capture(smaller)
            except CaptureError:  # batch norm, for one, does not train on a single sample
                continue
            if _operator_names(captured.text) != operators:
                continue
            graph = self._graph(captured)
            if not self._fits(baseline_of(graph, self.settings.profile), view):
                continue
            base = CompiledPlan(transplant(step.base.plan, graph), self.device, host=self.host)
            small = self._step_of(captured, base, smaller)
            self.compare_with_eager(small, smaller, view)
            return f"on the batch cut to {length}, as eager does not fit: {self._agreement(small)}"
        return (
            "not replayed: eager does not fit into the free memory, "
            "and a smaller batch gives another graph"
        )

    def _agreement(self, step: PlannedStep) -> str:
        words = "bitwise equal to eager"
        if self.tolerance is not None:
            words = f"equal to eager within {self.tolerance:g}"
        graph = step.base.plan.graph
        if graph.rounds_otherwise and not self.settings.exact:
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
