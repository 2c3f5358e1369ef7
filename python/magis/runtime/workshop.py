"""Makes planned steps: captures, measures, searches, compares with eager."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from magis import _core
from magis.bounds.time_bound import time_bound
from magis.capture import Capture, check_differentiated_once
from magis.errors import HostMemoryError, ReplayError
from magis.limits import MemoryLimit
from magis.report import Report
from magis.report.found import Found
from magis.runtime.auto_limit import is_auto, kept_bytes, room_now
from magis.runtime.batch import Arguments
from magis.runtime.compiled import CompiledPlan
from magis.runtime.gradients import added_to
from magis.runtime.host_pool import HostPool
from magis.runtime.in_step import InStepOptimizer, written_states
from magis.runtime.lower_bound import check_lower_bound
from magis.runtime.model_view import ModelView
from magis.runtime.parts import what_stays_whole
from magis.runtime.planned import PlannedStep
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
from magis.runtime.replay_check import Capturer, ReplayCheck, Verify
from magis.runtime.replicas import Replicas
from magis.runtime.scaling import ACCUMULATE
from magis.runtime.step_times import StepTimer
from magis.runtime.validation import Contest
from magis.runtime.variants import GuardProgram

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

logger = logging.getLogger("magis")

# Plans that are kept although the host has no room for them.
_MOST_WITHOUT_ROOM = 4
_OTHER_FRONTIER = (
    "the frontier is not one of this step on this batch (another shape, another number of threads, "
    "other code): a plan is searched for"
)

# Which of a step's two plans a message is about.
_FIRST = "the plan for the first call"
_ADDING = "the plan for calls that add into gradients"


@dataclass
class Planned:
    """A planned step with its report, and what is needed to plan it again."""

    step: PlannedStep
    report: Report
    reports: dict[CompiledPlan, Report]
    guards: GuardProgram
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
        meta: Mapping[str, str] | None = None,
    ) -> None:
        self.model = model
        self.loss_fn = loss_fn
        self.settings = settings
        self.device = device
        self.host = host
        self.optimizer = optimizer
        self.replicas = replicas
        meta = meta or {}
        self.accumulates = ACCUMULATE in meta  # calls that add into gradients are planned at once
        self._capturer = Capturer(model, loss_fn, device, settings.profile, optimizer, meta)
        self._check = ReplayCheck(
            self._capturer, host, verify=verify, tolerance=tolerance, exact=settings.exact
        )
        self._without_room: dict[tuple[str, Bound, bool], Found] = {}

    @property
    def runs_here(self) -> bool:
        """Whether there is anything to run: weights on the meta device have no values."""
        return self._capturer.runs_here

    def capture(self, arguments: Arguments) -> tuple[Capture, _core.Graph]:
        """The step on this batch, with what its kernels take for themselves measured on CPU."""
        # The capture itself sees tensors cut off from the batch's.
        check_differentiated_once(self.model, arguments.paths, arguments.leaves)
        captured = self._capturer.capture(arguments)
        return captured, self._capturer.graph(captured)

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
        eager = self._check.trace_eager(graph, arguments, view, baseline)
        measured = None
        if eager is not None and eager.peak_bytes is not None:
            measured = graph.persistent_bytes + eager.peak_bytes
        # Shares refer to the frontier's baseline, where there is one.
        eager_peak, seconds = measured, None
        if settings.frontier is not None and settings.has_plans_for(graph):
            eager_peak, seconds = None, settings.frontier.figures.baseline_seconds
        bound = bound_for(settings.limit, baseline, eager_peak, seconds)
        which = _FIRST if self.accumulates else ""
        added = added_to(captured, graph, view.parameters) if self.accumulates else []
        if added and bound.memory_bytes is not None:  # one limit for all calls
            adding = graph.accumulate_gradients(added)
            bound = bound_for_accumulation(settings, bound, adding)
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
            return PlannedStep(
                *(captured, base, arguments.paths, self.device, plan_accumulation, self.optimizer)
            )

        contest = None
        if first and settings.validate and self.runs_here:
            contest = Contest(
                lambda plan: StepTimer(
                    step_of(CompiledPlan(plan, self.device, host=self.host)), arguments, view
                ),
                captured_fits=self._check.fits(baseline, view),
            )
        # All processes make their first plan together; later ones each for itself.
        replicas = self.replicas if first else None
        result, base = self._search(
            *(graph, settings, bound, replicas), contest=contest, which=which
        )
        step = step_of(base)
        try:
            replayed = self._check(step, graph, arguments, view, eager)
        except ReplayError:
            if not settings.exact or not result.plan.graph.altered:
                raise
            logger.info("regions or rewrites do not replay bit for bit here: planning without them")
            result, base = self._search(graph, settings, bound, alter=False, which=which)
            step, contest = step_of(base), None
            replayed = self._check(step, graph, arguments, view, eager)
        # The user's own line is four calls up, one more where a call of the step plans anew.
        tell_not_met(result, settings, bound, 4 if first else 5, which)
        if first and settings.batch_parts:
            self._tell_what_stays_whole(graph)
        if first:
            before = measured or result.baseline_peak_bytes
            tell_nothing_gained(result, settings, before, 4, which)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # eager's run has left blocks behind that the plan never needs
        report = self._report(result, settings, bound, replayed, measured, contest)
        guards = GuardProgram(captured, arguments.paths, self.device)
        planned = Planned(step, report, {step.base: report}, guards)
        return planned

    def compare_with_eager(self, step: PlannedStep, arguments: Arguments, view: ModelView) -> None:
        """Runs the step and eager from the same state; nothing of either remains. Raises
        ReplayError.
        """
        self._check.compare_with_eager(step, arguments, view)

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
        which: str = "",
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
                    which=which,
                )
        try:
            plan = CompiledPlan(
                *(result.plan, self.device, self._heading(result), self.host),
                tells_gradients=self.replicas is not None and self.optimizer is None,
            )
        except HostMemoryError:
            if len(self._without_room) >= _MOST_WITHOUT_ROOM:
                self._without_room.clear()
            self._without_room[key] = result
            raise
        return result, plan

    def _tell_what_stays_whole(self, graph: _core.Graph) -> None:
        obstacles = what_stays_whole(graph, self.settings.profile)
        if obstacles:
            warnings.warn(obstacles, stacklevel=5)

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
        result, plan = self._search(adding, settings, bound, which=_ADDING)
        tell_not_met(result, settings, bound, 6, _ADDING)
        replayed = planned.report.replayed
        planned.reports[plan] = self._report(result, settings, bound, replayed, None)
        return plan

    def _report(
        self,
        result: Found,
        settings: SearchSettings,
        bound: Bound,
        replayed: str,
        measured: int | None,
        contest: Contest | None = None,
    ) -> Report:
        times = [] if settings.refinement is None else [settings.refinement.words(result.plan)]
        outcome = None if contest is None else contest.outcome
        on_time = None
        if settings.time_bound and bound.memory_bytes is not None:
            on_time = time_bound(result.plan, settings.device, bound.memory_bytes)
        if outcome is not None:
            times.append(outcome.words)
        return Report.build(
            result,
            device=settings.device,
            limit_text=str(settings.limit),
            limit_bytes=bound.memory_bytes,
            replayed=replayed,
            times="; ".join(times),
            promised_times=None if outcome is None else outcome.times,
            time_bound=on_time,
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
