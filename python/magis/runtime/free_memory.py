"""How much memory could be allocated right now without anything else having to go."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_CGROUP = Path("/sys/fs/cgroup")


def free_bytes(device: torch.device) -> int:
    """Free bytes on `device`; on a CPU what the system and the container's limit leave."""
    if device.type == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        # Memory that PyTorch holds in reserve is free to it, too.
        reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + reserve)
    return free_host_bytes()


def free_host_bytes() -> int:
    """What the system and the container's limit leave. Free of PyTorch."""
    return min(_system_bytes(), _container_bytes())


def free_disk_bytes(directory: Path) -> int:
    """Of the file system that `directory` is on, for this user. Raises OSError."""
    return shutil.disk_usage(directory).free


def _system_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _container_bytes() -> int:
    """What a memory limit of the control group leaves, or as good as endless if there is none."""
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        used = (_CGROUP / "memory.current").read_text().strip()
        return int(limit) - int(used)
    except (OSError, ValueError):  # no such group, or "max"
        return 1 << 62
