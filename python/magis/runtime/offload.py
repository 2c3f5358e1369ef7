"""Where tensors may go that leave the device for a while, and how much of them. Free of PyTorch."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from magis import _core
from magis.errors import HostMemoryError, MagisError
from magis.limits import parse_host_memory
from magis.runtime.free_memory import free_disk_bytes, free_host_bytes

OffloadTo = Literal["host", "disk"]

# Of what is free, unless the user says how much may be used.
_SHARE = 0.5


@dataclass(frozen=True)
class Offload:
    """Where plans keep tensors that leave the device for a while."""

    host_memory: int | None = None  # the most bytes; None: what the device profile says; 0: none
    directory: Path | None = None  # of a file in place of the host's memory


def choose_offload(
    *,
    swap: bool | None,
    host_memory: Any,
    offload_to: Any,
    offload_directory: Any,
    profile: _core.Device,
    is_cuda: bool = False,
) -> Offload:
    """What a user's words come to.

    swap: None, if the device profile has memory on the host (all but `cpu`) or the user says how
    much of it, or where; True in any case; False never. Without `host_memory` half of the room on
    the disk may be used, or half of the memory that is free: on a GPU (`is_cuda`: of this machine)
    not more than the profile says, on a CPU, which is its own host, if `swap` is True.

    Raises MagisError if the words contradict each other or are not understood, and HostMemoryError
    if no file can be made in the directory.
    """
    directory = choose_directory(offload_to, offload_directory)
    if swap is not None and not isinstance(swap, bool):
        raise MagisError(f"swap={swap!r} is not understood; give True, False or None")
    wanted = None if host_memory is None else parse_host_memory(host_memory)
    if swap is False:
        if wanted or directory is not None:
            raise MagisError(
                "swap=False keeps every tensor on the device: give no host memory and no offload "
                "directory with it"
            )
        return Offload(0)
    if swap and wanted == 0:
        raise MagisError("swap=True needs host memory: give more than 0, or leave it out")
    if wanted is None and directory is not None:
        wanted = int(_SHARE * free_disk_bytes(directory))
    if wanted is None and swap and profile == "cpu":
        wanted = int(_SHARE * free_host_bytes())
    if wanted is None and is_cuda:
        wanted = min(_core.host_memory(profile), int(_SHARE * free_host_bytes()))
    return Offload(wanted, directory)


def choose_directory(offload_to: Any, directory: Any) -> Path | None:
    """Where to offload to disk; None: to memory. Raises as `choose_offload` does."""
    if offload_to not in ("host", "disk"):
        raise MagisError(f"offload_to={offload_to!r} is not understood; choose one of host, disk")
    if offload_to == "host":
        if directory is not None:
            raise MagisError('an offload directory goes with offload_to="disk"')
        return None
    if directory is None:
        raise MagisError(
            'offload_to="disk" needs an offload directory: a folder on a disk of this machine that '
            "has room"
        )
    if not isinstance(directory, (str, os.PathLike)):
        raise MagisError(f"the offload directory {directory!r} is no path")
    if str(directory) == "":
        raise MagisError("the offload directory is empty; `.` is the current one")
    folder = Path(directory).absolute()
    try:
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except ValueError:
        raise MagisError(f"the offload directory {str(directory)!r} is no path") from None
    except OSError as error:
        raise unusable(folder, error) from None


def unusable(directory: Path, error: OSError) -> HostMemoryError:
    """That nothing can be kept in `directory`, and why."""
    return HostMemoryError(
        f"no file can be made in the offload directory {directory} ({error.strerror or error}); "
        "give another one"
    )
