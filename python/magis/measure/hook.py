"""The allocator hook: finding or building it, starting processes under it, reading it.

`alloc_hook.c` says what it counts. A process has it if it was started with `LD_PRELOAD`; it cannot
be loaded later.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from magis.errors import MagisError

_SOURCE = Path(__file__).with_name("alloc_hook.c")
_PACKAGED = Path(__file__).with_name("libmagis_alloc_hook.so")
_OWNER_C10 = 1  # as alloc_hook.c numbers them
_RESTARTED = "MAGIS_ALLOC_HOOK_RESTARTED"


class HookError(MagisError):
    """The allocator hook cannot be had here; says why."""


class _State(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in ("live", "peak", "tensor_peak", "allocations", "other_live", "other_peak")
    ]


class _Change(ctypes.Structure):
    _fields_ = [("nanoseconds", ctypes.c_int64), ("address", ctypes.c_uint64)]
    _fields_ += [(name, ctypes.c_int64) for name in ("bytes", "owner")]


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A block comes, or goes."""

    nanoseconds: int  # as time.perf_counter_ns reads them
    address: int
    bytes: int  # below 0: given back
    of_tensors: bool  # or else of another library


class ChangeLog:
    """Every block that comes or goes while the log is open."""

    def __init__(self, capacity: int) -> None:
        self._changes = (_Change * capacity)()
        self.count = 0  # once it is closed; more than the capacity if some did not fit

    @property
    def is_complete(self) -> bool:
        return self.count <= len(self._changes)

    def changes(self) -> list[LoggedChange]:
        """In the order in which they happened."""
        return [
            LoggedChange(entry.nanoseconds, entry.address, entry.bytes, entry.owner == _OWNER_C10)
            for entry in self._changes[: self.count]
        ]

    def __enter__(self) -> ChangeLog:
        _active().magis_hook_log(self._changes, ctypes.c_int64(len(self._changes)))
        return self

    def __exit__(self, *error: object) -> None:
        self.count = _active().magis_hook_logged()
        _active().magis_hook_log(None, ctypes.c_int64(0))


@dataclass(frozen=True)
class HookState:
    """What the hook holds, in bytes (`allocations` is a number of blocks). Peaks count from the
    last `reset`."""

    live: int
    peak: int
    tensor_peak: int
    allocations: int
    other_live: int
    other_peak: int


@cache
def _library() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    process = ctypes.CDLL(None)
    if not hasattr(process, "magis_hook_read"):
        return None
    process.magis_hook_leave_kernel.restype = ctypes.c_int64
    process.magis_hook_logged.restype = ctypes.c_int64
    return process


def _active() -> ctypes.CDLL:
    library = _library()
    if library is None:
        raise HookError(
            "the allocator hook is not active in this process; "
            "start it with magis.measure.run_with_hook or call reexec_with_hook first"
        )
    return library


def available() -> bool:
    """Whether this process runs under the hook."""
    return _library() is not None


def reset() -> None:
    """Peaks and the number of allocations start again from what is live now."""
    _active().magis_hook_reset()


def read() -> HookState:
    """What the hook has counted so far."""
    raw = _State()
    _active().magis_hook_read(ctypes.byref(raw))
    return HookState(*(getattr(raw, field[0]) for field in _State._fields_))


def enter_kernel() -> None:
    """One kernel starts: what is allocated from here and gone when it leaves is its scratch. Does
    not nest."""
    _active().magis_hook_enter_kernel()


def leave_kernel() -> tuple[int, int]:
    """The kernel has returned: bytes of its results, and bytes of scratch at its highest moment."""
    results = ctypes.c_int64()
    scratch = _active().magis_hook_leave_kernel(ctypes.byref(results))
    return results.value, int(scratch)


def library_path() -> Path:
    """The hook's shared library: the one built with the package, else built now into the user's
    cache.

    Raises HookError if this is not Linux, or there is neither the library nor a C compiler.
    """
    if not sys.platform.startswith("linux"):
        raise HookError(f"the allocator hook works on Linux only, this is {sys.platform}")
    return _PACKAGED if _PACKAGED.exists() else _build()


def _build() -> Path:
    if not _SOURCE.exists():
        raise HookError(f"neither {_PACKAGED.name} nor its source is installed")
    compiler = next(
        (c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)), None
    )
    if compiler is None:
        raise HookError(f"{_PACKAGED.name} was not built, and there is no C compiler to do it now")
    key = hashlib.sha256(_SOURCE.read_bytes() + sysconfig.get_platform().encode()).hexdigest()[:16]
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    target = cache_home / "magis" / f"alloc_hook-{key}.so"
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        target = Path(tempfile.mkdtemp(prefix="magis-")) / target.name
    partial = target.with_suffix(f".{os.getpid()}")
    command = [compiler, "-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"]
    command += ["-o", str(partial), str(_SOURCE), "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise HookError(f"the allocator hook does not compile:\n{done.stderr}")
    partial.replace(target)  # atomic: others may be building it too
    return target


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`base` (default: this process's environment) with the hook in LD_PRELOAD, before what is
    there already."""
    result = dict(os.environ if base is None else base)
    hook = str(library_path())
    others = [entry for entry in result.get("LD_PRELOAD", "").split(":") if entry and entry != hook]
    result["LD_PRELOAD"] = ":".join([hook, *others])
    return result


def reexec_with_hook() -> None:
    """Starts this process anew under the hook unless it has it already: same interpreter, options
    and arguments.

    Call it first thing in `main`: what the process has done so far is done again. Works for `python
    file.py` and `python -m module`. Raises HookError if the hook cannot be had.
    """
    if available():
        return
    if os.environ.get(_RESTARTED):
        raise HookError(
            "LD_PRELOAD has no effect on this process (a static or privileged interpreter?)"
        )
    env = environment() | {_RESTARTED: "1"}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], env)


def run_with_hook(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `python <argv>` under the hook, with output captured as text; the caller checks
    `returncode`."""
    return subprocess.run(
        [sys.executable, *argv],
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
