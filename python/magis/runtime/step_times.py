"""How long a planned step takes on this machine, and each of its operators."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from statistics import median
from typing import Any

from magis import _core
from magis.report.promised_times import PromisedTimes, promised_times
from magis.runtime.batch import Arguments
from magis.runtime.model_view import ModelView
from magis.runtime.planned import PlannedStep
from magis.runtime.replay import written_parameters
from magis.runtime.sandbox import sandbox
from magis.timing.in_step import StepClock, seconds_of_runs
from magis.timing.stopwatch import CpuClock


class StepTimer:
    """Runs a step on a batch, by the clock that operators are timed with; nothing remains of it.

    gradients: parameters that have some before, which the step adds into.
    """

    def __init__(
        self,
        step: PlannedStep,
        arguments: Arguments,
        view: ModelView,
        gradients: Collection[str] = (),
    ) -> None:
        self._step = step
        self._arguments = arguments
        self._view = view
        self._gradients = gradients

    @property
    def plan(self) -> _core.Plan:
        return self._step.last.plan

    def _sandbox(self) -> contextlib.AbstractContextManager[None]:
        written = written_parameters(self.plan.graph)
        return sandbox(self._view, written, self._step.optimizer, self._gradients)

    def run(self) -> Any:
        # A batch that requires gradients gets them; cut off, it comes to each step without any.
        return self._step.run(self._view, self._arguments.cut_off().leaves)

    def warm_up(self) -> None:
        with self._sandbox():
            self.run()

    def step_seconds(self) -> float:
        now = CpuClock().now
        with self._sandbox():
            start = now()
            result = self.run()
            seconds = now() - start
            del result
        return seconds

    def time_operators(self, rounds: int) -> list[float] | None:
        """Median seconds of each operator that the step runs, as in `Plan.run_costs`; those of all
        iterations of a loop together. None if the plan swaps: what is copied beside the operators
        cannot be told from them.
        """
        if self._step.last.host_bytes:
            return None
        clock = StepClock(CpuClock().now)
        samples = []
        with self._step.last.instrumented(clock):
            for _ in range(rounds):
                self.warm_up()
                samples.append(seconds_of_runs(self.plan.statements, clock.seconds))
        return [median(seconds) for seconds in zip(*samples, strict=True)]

    def compare(
        self, device: _core.Device, rounds: int, steps: Sequence[float] = ()
    ) -> PromisedTimes:
        """Promised under the profile `device`, beside what `rounds` runs take. `steps`: seconds of
        steps that were timed already, in place of others.
        """
        calls = self.plan.calls(device)
        samples = list(steps) or [self.step_seconds() for _ in range(rounds)]
        return promised_times(
            self.plan.simulate(device).seconds,
            median(samples),
            self.plan.run_costs(device),
            self.time_operators(rounds),
            calls=len(calls),
            calls_measured=sum(call.measured for call in calls),
        )
