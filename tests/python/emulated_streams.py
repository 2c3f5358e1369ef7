"""Generated CUDA code, run on a CPU by emulated streams that keep no more order than CUDA promises.

The computing stream runs what it is given at once. A copying stream keeps its copies back and makes
them at random later moments, at the latest when somebody waits for them: so a copy whose tensor is
freed, overwritten or read too early shows. Fresh memory holds garbage.
"""

from __future__ import annotations

import contextlib
import functools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

GARBAGE = 0xA5

_COPY = re.compile(r"\b(\w+)\.copy_\((\w+), non_blocking=True\)")


class RaceError(AssertionError):
    """Two streams use memory in an order that nothing ensures."""


@dataclass
class _Event:
    stream: _Stream
    position: int  # in the stream's work, counted from the beginning

    def finish(self) -> None:
        self.stream.run_to(self.position)


@dataclass
class _Stream:
    """Work is a copy, or an event to wait for first, in order."""

    device: _Device
    work: list[Callable[[], None]] = field(default_factory=list)
    done: int = 0
    computed: int = 0  # operators that its next piece of work waits for

    def run_to(self, position: int) -> None:
        while self.done < position:
            piece = self.work[self.done]
            self.done += 1
            piece()

    def record_event(self) -> _Event:
        return _Event(self, len(self.work))

    def wait_event(self, event: _Event) -> None:
        self.device.some_time_passes()
        if self is self.device.compute:
            event.finish()
        else:
            self.work.append(event.finish)

    def wait_stream(self, other: _Stream) -> None:
        assert other is self.device.compute
        self.computed = self.device.operators

    def synchronize(self) -> None:
        self.run_to(len(self.work))


class _Device:
    """What generated code finds where it says `torch.cuda`."""

    def __init__(self, seed: int, eagerness: float) -> None:
        self.random = random.Random(seed)
        self.eagerness = eagerness  # how likely a stream makes a copy when it could
        self.compute = _Stream(self)
        self.streams: list[_Stream] = []
        self.current = self.compute
        self.operators = 0  # that have run

    def Stream(self, device: str) -> _Stream:
        self.streams.append(_Stream(self))
        return self.streams[-1]

    def current_stream(self, device: str) -> _Stream:
        return self.current

    @contextlib.contextmanager
    def stream(self, stream: _Stream) -> Iterator[None]:
        self.current = stream
        yield
        self.current = self.compute

    def copy(self, to: torch.Tensor, source: torch.Tensor) -> None:
        if self.current is self.compute:
            raise RaceError("a copy on the computing stream")
        if self.current.computed != self.operators:
            raise RaceError("a copy does not wait for what was computed before it")
        into, out_of = _held_weakly(to), _held_weakly(source)
        self.current.work.append(lambda: _copy(into(), out_of()))

    def some_time_passes(self) -> None:
        """Each copying stream may get on with its work, or not."""
        for stream in self.random.sample(self.streams, len(self.streams)):
            while stream.done < len(stream.work) and self.random.random() < self.eagerness:
                stream.run_to(stream.done + 1)

    def watched(self, operator: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.operators += 1
            result = operator(*args, **kwargs)
            self.some_time_passes()
            return result

        return call


def _copy(into: torch.Tensor, out_of: torch.Tensor) -> None:
    into.copy_(out_of)


def _held_weakly(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    """The same view of the storage, if that is still there."""
    storage = StorageWeakRef(tensor.untyped_storage())
    dtype, offset = tensor.dtype, tensor.storage_offset()
    shape, strides = tensor.shape, tensor.stride()

    def view() -> torch.Tensor:
        if storage.expired():
            raise RaceError("a tensor was freed before its copy was made")
        found = torch.UntypedStorage._new_with_weak_ptr(storage.cdata)
        return torch.empty(0, dtype=dtype).set_(found, offset, shape, strides)

    return view


class _Torch:
    """`torch`, but for what concerns the device."""

    def __init__(self, device: _Device) -> None:
        self.cuda = device

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def empty_strided(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        made = torch.empty_strided(*args, **kwargs)
        made.untyped_storage().fill_(GARBAGE)
        return made


@functools.lru_cache(2)  # the same code runs in several schedules
def _emulated(source: str) -> CodeType:
    source = _COPY.sub(r"torch.cuda.copy(\1, \2)", source)
    source = source.replace("import torch\n", "", 1).replace("'cuda'", "'cpu'")
    return compile(source, "<emulated>", "exec")


class EmulatedStep:
    """`source` is CUDA code for a graph whose operators run on a CPU. Its copies are late to a
    degree that `seed` and `eagerness` say: at 0 as late as can be.
    """

    def __init__(self, source: str, *, seed: int, eagerness: float) -> None:
        self.device = _Device(seed, eagerness)
        self.names: dict[str, Any] = {"torch": _Torch(self.device)}
        exec(_emulated(source), self.names)
        for name, value in list(self.names.items()):
            if isinstance(value, torch._ops.OpOverload):
                self.names[name] = self.device.watched(value)

    def __call__(self, inputs: Sequence[Any], host: torch.Tensor) -> Sequence[torch.Tensor]:
        """One step; what it leaves under way may end when it likes."""
        host.fill_(GARBAGE)
        results: Sequence[torch.Tensor] = self.names["step"](inputs, host)
        if any(stream.done < len(stream.work) for stream in self.device.streams):
            raise RaceError("a copy outlives the step")
        return results
