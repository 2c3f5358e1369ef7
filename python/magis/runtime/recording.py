"""One planned step, recorded as it runs: what it computes when, every block that comes or goes."""

from __future__ import annotations

import gc
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import torch

from magis import _torch_internals as internals
from magis.errors import MagisError
from magis.measure import hook
from magis.report.viewers.measured import Level, Mark, Recording
from magis.report.viewers.record import Place
from magis.report.viewers.snapshot import with_places
from magis.runtime.compiled import CompiledPlan

# Allocations that an operator may make, as a first guess.
_CHANGES_A_RUN = 16
_MOST_ATTEMPTS = 4
_MOST_ENTRIES = 1_000_000  # of a history on CUDA


def record_step(plan: CompiledPlan, run: Callable[[], Any], device: torch.device) -> Recording:
    """run: a step of `plan`, run before, that leaves nothing behind. Raises MagisError on a CPU
    whose allocations cannot be seen.
    """
    if device.type == "cuda":
        return _record_cuda(plan, run, device)
    if not hook.available():
        raise MagisError(
            "a step on a CPU is recorded under the allocator hook, and this process has none; "
            "`magis run --record` starts one that has it on Linux"
        )
    capacity = 2**16 + _CHANGES_A_RUN * len(plan.plan.statements)
    for _ in range(_MOST_ATTEMPTS):
        marks = _Marks()
        log = hook.ChangeLog(capacity)
        gc.collect()
        with plan.instrumented(marks):
            with log:
                result = run()
            del result
        if log.is_complete:
            return Recording("hook", marks.begun, marks.marks, log.changes())
        capacity = 2 * log.count
    raise MagisError("a step allocates more each time that it runs: it cannot be recorded")


class _Marks:
    def __init__(self) -> None:
        self.begun = 0
        self.marks: list[Mark] = []

    def start(self, statements: int) -> None:
        self.marks.clear()
        self.begun = time.perf_counter_ns()

    def mark(self, statement: int) -> None:
        self.marks.append(Mark(statement, time.perf_counter_ns()))

    def part(self, begin: int) -> None:
        self.marks.append(Mark(begin, time.perf_counter_ns(), starts_part=True))


def _record_cuda(plan: CompiledPlan, run: Callable[[], Any], device: torch.device) -> Recording:
    """When the device is through with each statement, and its allocator's levels; PyTorch's own
    snapshot (`cuda_snapshot`) knows the single blocks.
    """
    marks = _CudaMarks(device)
    gc.collect()
    torch.cuda.synchronize(device)
    with plan.instrumented(marks):
        result = run()
        torch.cuda.synchronize(device)
        del result
    recording = marks.recording()
    with internals.cuda_memory_history(device, _MOST_ENTRIES) as history:
        result = run()
        del result
    recording.snapshot = with_places(history, _Places(plan))
    return recording


class _Places:
    """Where the model asks for what stands in a line of a plan's code."""

    def __init__(self, plan: CompiledPlan) -> None:
        self._file = plan.file_name
        self._lines = plan.lines
        self._statements = plan.plan.statements

    def __call__(self, file: str, line: int) -> Place | None:
        number = bisect_right(self._lines, line) - 1
        if file != self._file or number < 0:
            return None
        statement = self._statements[number]
        return Place(statement.operator or statement.kind, statement.module, statement.source)


class _CudaMarks:
    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._statements: list[tuple[int, bool]] = []
        self._events: list[Any] = []
        self._levels: list[Level] = []
        self._before = torch.cuda.memory_allocated(device)

    def start(self, statements: int) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)
        self._events.append(self._now())

    def mark(self, statement: int) -> None:
        self._note(statement, starts_part=False)

    def part(self, begin: int) -> None:
        self._note(begin, starts_part=True)

    def _now(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _note(self, statement: int, *, starts_part: bool) -> None:
        self._statements.append((statement, starts_part))
        self._events.append(self._now())
        peak = torch.cuda.max_memory_allocated(self._device) - self._before
        now = torch.cuda.memory_allocated(self._device) - self._before
        self._levels.append(Level(peak, now))
        torch.cuda.reset_peak_memory_stats(self._device)

    def recording(self) -> Recording:
        first, *others = self._events
        marks = [
            Mark(statement, round(first.elapsed_time(event) * 1e6), starts_part)
            for (statement, starts_part), event in zip(self._statements, others, strict=True)
        ]
        return Recording("cuda", 0, marks, levels=self._levels)
