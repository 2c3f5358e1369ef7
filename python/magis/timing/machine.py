"""What times depend on beside the call: the device, what drives it, libraries and settings. Free of
PyTorch until it is asked.
"""

from __future__ import annotations

import contextlib
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_CPU_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
_CPU_CLOCK = re.compile(r"^cpu MHz\s*:\s*([\d.]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Machine:
    """A time that was measured on one machine is a time on an equal one alone."""

    device: str  # "NVIDIA H200", "Intel(R) Xeon(R) Processor"
    driver: str  # of a GPU; what instructions PyTorch uses on a CPU
    libraries: str  # versions, and the settings that choose between kernels
    threads: int  # that a CPU's kernels run on; 0 on a GPU

    def __str__(self) -> str:
        threads = f", {self.threads} thread{'s' * (self.threads != 1)}" if self.threads else ""
        return f"{self.device} ({self.driver}; {self.libraries}{threads})"


def machine_of(device: torch.device) -> Machine:
    """The machine that runs what is on `device`, as it is set now."""
    import torch

    versions = [f"torch {torch.__version__}"]
    settings = [
        f"float32 matmul {torch.get_float32_matmul_precision()}",
        *(["deterministic"] if torch.are_deterministic_algorithms_enabled() else []),
    ]
    if device.type == "cuda":
        versions += [f"CUDA {torch.version.cuda}", f"cuDNN {torch.backends.cudnn.version()}"]
        settings += [
            *(["TF32 convolution"] if torch.backends.cudnn.allow_tf32 else []),
            *(["cuDNN benchmark"] if torch.backends.cudnn.benchmark else []),
        ]
        name = torch.cuda.get_device_name(device)
        return Machine(name, _cuda_driver(device), ", ".join(versions + settings), 0)
    settings += [] if torch.backends.mkldnn.enabled else ["no oneDNN"]
    return Machine(
        _cpu_name(),
        torch.backends.cpu.get_cpu_capability(),
        ", ".join(versions + settings),
        torch.get_num_threads(),
    )


def clock_mhz(device: torch.device) -> float:
    """What the device's clock is at, now; 0 where nobody says."""
    if device.type == "cuda":
        import torch

        with contextlib.suppress(Exception):  # asks a library that need not be there
            return float(torch.cuda.clock_rate(device))
        return 0.0
    found = _CPU_CLOCK.search(_cpu_facts())
    return float(found[1]) if found else 0.0


def _cpu_name() -> str:
    found = _CPU_MODEL.search(_cpu_facts())
    return found[1].strip() if found else platform.processor() or platform.machine()


def _cpu_facts() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


def _cuda_driver(device: torch.device) -> str:
    import torch

    major, minor = torch.cuda.get_device_capability(device)
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text()
        if found := re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text):
            return f"driver {found[1]}, sm_{major}{minor}"
    return f"sm_{major}{minor}"
