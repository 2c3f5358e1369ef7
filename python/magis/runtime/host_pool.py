"""The memory on the host in which plans keep tensors that leave the device for a while."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import tempfile
import weakref
from pathlib import Path

import torch

from magis.errors import HostMemoryError
from magis.report.text import bytes_text
from magis.runtime.free_memory import free_host_bytes
from magis.runtime.offload import unusable

_LESS = "a smaller host_memory makes a plan that keeps less there"


class HostPool:
    """One block of bytes for the plans of a step, used by one call at a time.

    It is made when the first plan that needs it is, not in a step, and grows with later plans.
    Nothing in it outlives a step. On CUDA it is pinned, so that copies run beside kernels.

    directory: the block is a file there, mapped into memory, in place of memory itself; such a
    block is not pinned. The file has no name, so that nothing is left of it when the process ends,
    however it ends.
    """

    def __init__(self, device: torch.device, directory: Path | None = None) -> None:
        self._device = device
        self._directory = directory
        self._memory: torch.Tensor | None = None
        self._unpin: weakref.finalize[..., HostPool] | None = None
        self._process = 0

    @property
    def on_disk(self) -> bool:
        """Whether the block is a file."""
        return self._directory is not None

    def at_least(self, size: int) -> torch.Tensor:
        """uint8, `size` bytes or more. Raises HostMemoryError if so much cannot be had."""
        # A forked process must not write into its parent's block.
        if self._memory is None or self._memory.numel() < size or self._process != os.getpid():
            self._let_go()  # of the old block before there is a new one
            self._memory = self._allocate(size)
            self._process = os.getpid()
        return self._memory

    def _let_go(self) -> None:
        if self._unpin is not None:
            self._unpin()
        self._memory = self._unpin = None

    def _allocate(self, size: int) -> torch.Tensor:
        if self._directory is not None:
            return _as_tensor(_mapped_file(self._directory, size))
        free = free_host_bytes()
        if size > free:
            raise HostMemoryError(
                f"the plan keeps {bytes_text(size)} in the host's memory, where {bytes_text(free)} "
                f'are free; {_LESS}, offload_to="disk" keeps it in a file'
            )
        memory = _as_tensor(_anonymous(size))
        if self._device.type == "cuda":
            pinned = _pin(memory, self._device)
            self._unpin = weakref.finalize(self, _unpin, pinned, self._device)
            self._unpin.atexit = False  # the process takes it all along
        return memory


def _as_tensor(block: mmap.mmap) -> torch.Tensor:
    """The tensor keeps the block alive, and ends it."""
    return torch.frombuffer(block, dtype=torch.uint8)


def _anonymous(size: int) -> mmap.mmap:
    """Straight from the system: whole pages, and none of the allocator's that counts tensors."""
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise HostMemoryError(
            f"the system refuses {bytes_text(size)} of the host's memory for the plan "
            f"({error.strerror}); {_LESS}"
        ) from None


def _mapped_file(directory: Path, size: int) -> mmap.mmap:
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            # All blocks now: a full disk must not end the process in the middle of a step.
            os.posix_fallocate(file.fileno(), 0, size)
            return mmap.mmap(file.fileno(), size)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise HostMemoryError(
                f"the plan keeps {bytes_text(size)} in a file in {directory}, which has no room "
                f"for it ({error.strerror}); {_LESS}, another offload_directory may have more room"
            ) from None
        raise unusable(directory, error) from None


def _pin(memory: torch.Tensor, device: torch.device) -> int:
    """Locks the block's pages for copies by the device; returns where it begins.

    PyTorch's own pinned memory comes in powers of two, and does not go back to the system.
    """
    address: int = memory.data_ptr()
    status = torch.cuda.cudart().cudaHostRegister(address, memory.numel(), 0)
    if int(status) != 0:
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device=device)  # the next kernel reports the error again
        raise HostMemoryError(
            f"CUDA refuses to pin {bytes_text(memory.numel())} of the host's memory for the plan "
            f"(error {int(status)}); {_LESS}, and `ulimit -l` may be too low"
        )
    return address


def _unpin(address: int, device: torch.device) -> None:
    with contextlib.suppress(RuntimeError):  # the device has failed: nothing runs there
        torch.cuda.synchronize(device)  # copies of the last step may still be under way
    torch.cuda.cudart().cudaHostUnregister(address)
