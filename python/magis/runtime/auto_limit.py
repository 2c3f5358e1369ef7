"""What `memory_limit="auto"` comes to: what the device has free, less a margin.

- On a CUDA device that is here: what CUDA and PyTorch's own pool have free, less 5 %, 256 MiB at
  least.
- On the CPU of this machine: what the system and the container's limit leave, less 10 %, and less
  what the plan may keep on the host.
- On a GPU that is not here: the memory of its profile, less 5 %, 1 GiB at least: the CUDA context
  and its libraries take their part of it.

In Python, parameters, buffers, batch and gradients that are on the device already come on top of
the first two; from the shell, nothing is there yet. The margin is for what is in no promise:
fragmentation, workspaces of libraries, other processes. Memory that is taken after the plan was
made is not foreseen: the state of an optimizer, for one, which most make in their first step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magis import _core
from magis.errors import LimitError
from magis.limits import Limit, MemoryLimit
from magis.runtime.free_memory import free_bytes, free_host_bytes

if TYPE_CHECKING:
    import torch

_MIB = 2**20
# Shares of what is free, and the least.
_CUDA_MARGIN = (0.05, 256 * _MIB)
_CPU_MARGIN = (0.10, 0)
_ABSENT_MARGIN = (0.05, 1024 * _MIB)

# Inputs of a graph that are there before the step, wherever it was planned.
_KEPT = {"param", "buffer", "batch", "state", "grad"}


def is_auto(limit: Limit) -> bool:
    """Whether what is free has to be found out."""
    return isinstance(limit, MemoryLimit) and limit.auto


def room_now(device: torch.device, profile: str, host_memory: int | None = None) -> int:
    """Bytes that a step may take on `device` beyond what is there already, margin deducted.

    A device "meta" stands for the one that `profile` describes. On a CPU the `host_memory` that
    swapped tensors may take comes out of the same memory. Raises LimitError if it is not known.
    """
    if device.type == "meta":
        return room_on_this_cpu(host_memory) if profile == "cpu" else room_of_profile(profile)
    if device.type == "cuda":
        return _less(free_bytes(device), _CUDA_MARGIN)
    if device.type == "cpu":
        return _less(free_bytes(device), _CPU_MARGIN) - (host_memory or 0)
    raise LimitError(
        f"memory limit 'auto': how much a device of type {device.type!r} has free is not known; "
        "give a limit in bytes"
    )


def room_on_this_cpu(host_memory: int | None = None) -> int:
    """As `room_now`, for the CPU of this machine. Free of PyTorch."""
    return _less(free_host_bytes(), _CPU_MARGIN) - (host_memory or 0)


def room_of_profile(profile: str) -> int:
    """Of a device that is not here, with nothing on it. Raises LimitError if `profile` is no
    particular device.
    """
    memory = _core.device_memory(profile)
    if memory == 0:
        devices = [name for name in _core.device_profiles() if _core.device_memory(name)]
        raise LimitError(
            f"memory limit 'auto': the profile {profile!r} is no particular device, so nothing is "
            f"known about its memory; choose one of {', '.join(devices)}, or give a limit in bytes"
        )
    return _less(memory, _ABSENT_MARGIN)


def kept_bytes(graph: _core.Graph) -> int:
    """Bytes of a graph's inputs that are on the device before the step."""
    return sum(entry.bytes for entry in graph.inputs if entry.kind in _KEPT)


def _less(count: int, margin: tuple[float, int]) -> int:
    share, least = margin
    return count - max(int(share * count), least)
