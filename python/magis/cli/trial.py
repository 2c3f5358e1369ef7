"""A plan on the model that it was made for: compared with eager, measured, timed."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from magis import _core
from magis.capture import Capture, capture
from magis.capture.optimizers import optimizer_named
from magis.cli.workload import Workload
from magis.errors import PlanError, ReplayError
from magis.measure import measure_peak
from magis.report.viewers.measured import Recording
from magis.runtime import replay
from magis.runtime.batch import Arguments
from magis.runtime.comparison import coarsest_epsilon, compare
from magis.runtime.compiled import CompiledPlan
from magis.runtime.host_pool import HostPool
from magis.runtime.in_step import InStepOptimizer, written_states
from magis.runtime.model_view import ModelView
from magis.runtime.plan_file import captured_fingerprint, without_scratch
from magis.runtime.planned import PlannedStep
from magis.runtime.recording import record_step
from magis.runtime.sandbox import sandbox
from magis.runtime.step_times import StepTimer


@dataclass(frozen=True)
class Run:
    """One kind of step, planned or eager: its peak above what was allocated on entry, its time."""

    peak_bytes: int
    libraries_bytes: int  # taken by libraries behind PyTorch's back: in no promise
    method: str  # see magis.measure.Measurement
    seconds: list[float]  # of every timed step


class Trial:
    """Runs a plan and eager on the same batch; the model is afterwards as before."""

    def __init__(
        self,
        workload: Workload,
        captured: Capture,
        plan: _core.Plan,
        offload_directory: Path | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        self._model = workload.model
        self._device = captured.device
        self._autocast = captured.autocast
        self._loss_fn: Callable[..., Any] | None = workload.loss_fn
        if self._autocast is not None and self._loss_fn is not None:
            # Forward pass and loss alone, as it was captured: not the backward pass.
            self._loss_fn = _under_autocast(self._loss_fn, self._device, self._autocast)
        self._as_if_compiled = captured.as_if_compiled
        self._arguments = Arguments(workload.batch)
        self._view = ModelView(workload.model)
        self._optimizer = None if optimizer is None else InStepOptimizer(optimizer, None)
        if self._optimizer is not None:
            self._optimizer.create_state(written_states(plan.graph), self._view)
        self._written = replay.written_parameters(plan.graph)
        self._added = added_into(plan)
        for path in self._added - self._view.parameters.keys():
            raise PlanError(
                f"the plan adds into the gradient of batch{path}, and a run begins with gradients "
                "of parameters alone"
            )
        host = HostPool(captured.device, offload_directory)
        planned = CompiledPlan(plan, captured.device, host=host)
        self._step = PlannedStep(
            captured,
            self._alone(captured) if self._added else planned,
            self._arguments.paths,
            captured.device,
            lambda _paths: planned,  # gradients are there before if the plan adds into them
            self._optimizer,
        )
        self._step.last = planned
        self.timer = StepTimer(self._step, self._arguments, self._view, self._added)

    @staticmethod
    def _alone(captured: Capture) -> CompiledPlan:
        """The step that finds no gradients, which says what goes in and comes out."""
        graph = _core.Graph.parse(captured.text, "captured graph")
        return CompiledPlan(_core.Plan.program_order(graph), captured.device)

    @property
    def device(self) -> torch.device:
        return self._device

    def difference(self, tolerance: float | None) -> str | None:
        """How the plan's results differ from eager's, in words; None if they do not."""
        with self._modes():
            eager = replay.trace_eager(
                *(self._model, self._loss_fn, self._arguments, self._view, self._device),
                written=self._written,
                optimizer=self._optimizer,
                gradients=self._added,
            )
        planned = replay.trace_planned(
            *(self._step, self._arguments, self._view, self._device), gradients=self._added
        )
        graph = self._step.last.plan.graph
        try:
            compare(
                eager,
                planned,
                self._view,
                tolerance,
                as_if_compiled=self._as_if_compiled,
                epsilon=coarsest_epsilon(graph) if graph.rounds_otherwise else None,
            )
        except ReplayError as error:
            return str(error)
        return None

    def warm_up(self) -> None:
        """One step of the plan."""
        self.timer.warm_up()

    def planned(self) -> Run:
        """One step under measurement. Run one before: the first allocates more."""
        return self._measured(self.timer.run)

    def eager(self) -> Run:
        """The same for eager."""
        return self._measured(self._run_eager)

    def record(self) -> Recording:
        """One step of the plan, as it happens. Run one before, as for `planned`."""
        with self._sandbox():
            return record_step(self._step.last, self.timer.run, self._device)

    def time(self, planned: Run, eager: Run | None, rounds: int) -> None:
        """Adds the seconds of `rounds` steps to each, in turns: a slow machine slows both."""
        pair = [(planned, self.timer.run)]
        if eager is not None:
            pair.append((eager, self._run_eager))
        for number in range(rounds):
            for run, step in pair if number % 2 else reversed(pair):
                run.seconds.append(self._seconds(step))

    def _measured(self, run: Callable[[], Any]) -> Run:
        with self._sandbox():
            found = measure_peak(run, device=self._device)
        return Run(found.peak_bytes, found.other_peak_bytes, found.method, [])

    def _seconds(self, run: Callable[[], Any]) -> float:
        with self._sandbox():
            self._wait()
            start = time.perf_counter()
            result = run()
            self._wait()
            seconds = time.perf_counter() - start
            del result
        return seconds

    def _run_eager(self) -> Any:
        with self._modes():
            arguments = self._arguments.cut_off()
            return replay.run_eager(self._model, self._loss_fn, arguments, self._optimizer)

    def _sandbox(self) -> contextlib.AbstractContextManager[None]:
        return sandbox(self._view, self._written, self._optimizer, self._added)

    def _modes(self) -> contextlib.AbstractContextManager[None]:
        """Around an eager run: autocast, if there is only a forward pass to run under it."""
        if self._autocast is None or self._loss_fn is not None:
            return contextlib.nullcontext()
        autocast: contextlib.AbstractContextManager[None] = torch.autocast(
            self._device.type, self._autocast
        )
        return autocast

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _under_autocast(
    function: Callable[..., Any], device: torch.device, dtype: torch.dtype
) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device.type, dtype):
            return function(*args, **kwargs)

    return wrapped


def optimizer_of(workload: Workload, meta: dict[str, str]) -> torch.optim.Optimizer | None:
    """An optimizer like the one whose updates are in the graph with `meta`."""
    name = meta.get("optimizer")
    return None if name is None else optimizer_named(name, workload.model.parameters())


def capture_again(
    workload: Workload,
    meta: dict[str, str],
    device: str,
    optimizer: torch.optim.Optimizer | None,
) -> Capture:
    """The workload captured as the graph with `meta` was."""
    words = {"bf16": torch.bfloat16, "f16": torch.float16}
    return capture(
        workload.model,
        workload.loss_fn,
        workload.batch,
        device=device,
        autocast=words.get(meta.get("autocast", "")),
        optimizer=optimizer,
    )


def check_same_graph(plan: _core.Plan, fingerprint: str, captured: Capture, name: str) -> None:
    """Raises PlanError that names the first difference if `plan` is for another graph.

    fingerprint: of the graph that it was made for, "" if the file does not say; then the plan's own
    graph counts, which is another one where regions run in parts or operators are rewritten.
    """
    ours = _core.Graph.parse(captured.text, "captured graph")
    if added := added_into(plan):
        paths = [output.path for output in ours.outputs if output.kind == "grad"]
        ours = ours.accumulate_gradients([path for path in paths if path in added])
    planned = without_scratch(plan.graph, name)
    if captured_fingerprint(ours) == (fingerprint or planned.fingerprint()):
        return
    if plan.graph.altered:
        raise PlanError(
            f"{name} is for another graph than this model and batch give. Make the plan again "
            "with `magis capture` and `magis optimize`"
        )
    raise PlanError(
        f"{name} is for another graph than this model and batch give: "
        f"{_first_difference(planned.text(), ours.text())}. Make the plan again "
        "with `magis capture` and `magis optimize`"
    )


def _first_difference(planned: str, ours: str) -> str:
    for theirs, mine in zip(_body(planned), _body(ours), strict=False):
        if theirs != mine:
            return f"the plan has `{theirs}` where the model gives `{mine}`"
    return "one is longer than the other"


def _body(text: str) -> list[str]:
    header = ("meta ", "site ")
    lines = (line for line in text.split("\n") if line and not line.startswith(header))
    return [re.sub(r" @\d+(?= |$)", "", line) for line in lines]


def added_into(plan: _core.Plan) -> frozenset[str]:
    """Parameters into whose gradients, there before, the plan adds."""
    return frozenset(entry.path for entry in plan.graph.inputs if entry.kind == "grad")
