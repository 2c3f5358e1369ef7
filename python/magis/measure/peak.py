"""How much memory a call really takes, and how much of it is kernels' scratch."""

from __future__ import annotations

import contextlib
import gc
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch

from magis._torch_internals import TorchDispatchMode
from magis.measure import hook

T = TypeVar("T")
Method = Literal["hook", "cuda", "profiler"]


@dataclass(frozen=True)
class Measurement(Generic[T]):
    """Bytes above what was allocated when the call started."""

    peak_bytes: int
    held_bytes: int  # still allocated when it returned, its result included
    method: Method  # "profiler": the hook was not there; the same allocator, as PyTorch reports it
    result: T
    other_peak_bytes: int = 0  # hook only: aligned blocks of other libraries, not in `peak_bytes`


@dataclass(frozen=True)
class Kernel:
    """One operator call: bytes of results that it left behind, and its highest scratch beside
    them."""

    name: str  # "aten.mm", "aten.add.Tensor"
    result_bytes: int
    scratch_bytes: int


@dataclass(frozen=True)
class KernelMeasurement(Measurement[T]):
    """As Measurement, with scratch apart: `tensor_peak_bytes` is the peak that tensors alone
    account for."""

    tensor_peak_bytes: int = 0
    kernels: list[Kernel] = field(default_factory=list)


def measure_peak(fn: Callable[[], T], *, device: str | torch.device = "cpu") -> Measurement[T]:
    """Runs `fn()` once and measures the peak of `device`'s allocator above its level on entry.

    CPU: the hook, exact; without it the profiler's memory events, which see the same allocator
    (`method` says so). CUDA: `max_memory_allocated`, where every block is rounded up to 512 bytes.
    """
    if torch.device(device).type == "cuda":
        return _measure_cuda(fn, torch.device(device))
    return _measure_hook(fn) if hook.available() else _measure_profiler(fn)


def _measure_hook(fn: Callable[[], T]) -> Measurement[T]:
    gc.collect()
    hook.reset()
    before = hook.read()
    result = fn()
    after = hook.read()
    return Measurement(
        peak_bytes=after.peak - before.live,
        held_bytes=after.live - before.live,
        method="hook",
        result=result,
        other_peak_bytes=after.other_peak - before.other_live,
    )


def _measure_cuda(fn: Callable[[], T], device: torch.device) -> Measurement[T]:
    gc.collect()
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = fn()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before
    held = torch.cuda.memory_allocated(device) - before
    return Measurement(peak_bytes=peak, held_bytes=held, method="cuda", result=result)


def _measure_profiler(fn: Callable[[], T]) -> Measurement[T]:
    gc.collect()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        result = fn()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    # Frees of blocks from before the profile are reported with negative sizes like any other.
    changes = sorted(
        (float(event["ts"]), position, int(event["args"]["Bytes"]))
        for position, event in enumerate(events)
        if event.get("name") == "[memory]" and event["args"].get("Device Type") == 0
    )
    level = peak = 0
    for _, _, change in changes:
        level += change
        peak = max(peak, level)
    return Measurement(peak_bytes=peak, held_bytes=level, method="profiler", result=result)


class KernelLog:
    """Tells the hook when each operator that it watches starts and returns."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []

    def watch(self, operator: Callable[..., T]) -> Callable[..., T]:
        """`operator`, logged whenever it is called. Watched operators must not call each other."""

        def watched(*args: Any, **kwargs: Any) -> T:
            hook.enter_kernel()
            try:
                return operator(*args, **kwargs)
            finally:
                results, scratch = hook.leave_kernel()
                self.kernels.append(Kernel(operator_name(operator), results, scratch))

        return watched


class _WatchAll(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, log: KernelLog) -> None:
        super().__init__()
        self.log = log

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.log.watch(func)(*args, **(kwargs or {}))


def operator_name(func: Any) -> str:
    """The name that the text language gives to an overload: "aten.mm", "aten.add.Tensor"."""
    return str(func).removesuffix(".default")


def measure_kernels(fn: Callable[[], T], log: KernelLog | None = None) -> KernelMeasurement[T]:
    """As `measure_peak` on CPU, each operator call apart. Needs the hook (HookError).

    Within an operator, what it allocates and has released when it returns is scratch; its results
    count from its start, as a plan counts them. So `tensor_peak_bytes` is what a plan promises when
    it knows of no scratch at all, and with every operator's scratch in the graph its promise is
    `peak_bytes`.

    log: watches the operators that `fn` calls. By default all are watched, through a dispatch mode;
    that makes a Python number among an operator's tensors live 8 bytes longer than it otherwise
    would.
    """
    watch_all = contextlib.nullcontext()
    if log is None:
        log = KernelLog()
        watch_all = _WatchAll(log)
    gc.collect()
    hook.reset()
    before = hook.read()
    with watch_all:
        result = fn()
    after = hook.read()
    return KernelMeasurement(
        peak_bytes=after.peak - before.live,
        held_bytes=after.live - before.live,
        method="hook",
        result=result,
        other_peak_bytes=after.other_peak - before.other_live,
        tensor_peak_bytes=after.tensor_peak - before.live,
        kernels=log.kernels,
    )
