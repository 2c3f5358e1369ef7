"""Memory that PyTorch's allocator reserves on a CUDA device for a plan, predicted."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from magis.errors import MagisError
from magis.report.text import bytes_text

if TYPE_CHECKING:
    from magis import _core

_MIB = 2**20
# PyTorch reads the first of these that is set.
_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_CUBLAS_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
# What PyTorch gives cuBLAS unless that variable says otherwise.
_CUBLAS_WORKSPACE = ":4096:2:16:8"
_CUBLAS_WORKSPACE_HOPPER = ":4096:8"
_HOPPER = {"h100", "h200"}

_Value = TypeVar("_Value")

_ENTRY = re.compile(r"\s*(\w+)\s*:\s*(\[[^\]]*\]|[^,\[\]]*)\s*(?:,|$)")


@dataclass(frozen=True)
class Reserved:
    """Predicted bytes, cuBLAS' workspace included."""

    reserved_bytes: int  # the most that is taken from the device
    allocated_bytes: int  # of it in tensors and workspaces when it first was that much
    fragmentation_bytes: int  # the rest: cached, between tensors
    allocated_peak_bytes: int  # what torch.cuda.max_memory_allocated() comes to
    cache_flushes: int  # times that cached memory has to be given back to the device
    fits: bool  # False: the device runs out of memory; the figures are those until then
    settings: str  # of the allocator, as the environment has them

    def __str__(self) -> str:
        share = bytes_text(self.fragmentation_bytes)
        text = f"{bytes_text(self.reserved_bytes)}, {share} of it between tensors"
        return text if self.fits else f"{text}, then the device runs out of memory"


def reserved_memory(plan: _core.Plan, device: _core.Device) -> Reserved | None:
    """For a plan on the CUDA device that the profile describes, with the allocator as the
    environment sets it; None for other devices, for PyTorch's other allocator, and, with a warning,
    for settings that cannot be read.
    """
    from magis import _core

    memory = _core.device_memory(device)
    if memory == 0:
        return None
    text = next((os.environ[name] for name in _VARIABLES if name in os.environ), "")
    try:
        settings = allocator_settings(text)
        workspace = cublas_workspace(os.environ.get(_CUBLAS_VARIABLE, ""), str(device))
    except MagisError as error:
        warnings.warn(f"reserved memory is not predicted: {error}", stacklevel=2)
        return None
    if settings is None:
        return None
    settings.device_memory = memory
    found = plan.reserved(device, settings, workspace)
    return Reserved(
        reserved_bytes=found.reserved_bytes,
        allocated_bytes=found.allocated_bytes,
        fragmentation_bytes=found.fragmentation_bytes,
        allocated_peak_bytes=found.allocated_peak_bytes,
        cache_flushes=found.cache_flushes,
        fits=found.fits,
        settings=text,
    )


def allocator_settings(text: str) -> _core.AllocatorSettings | None:
    """What PYTORCH_ALLOC_CONF="..." says; None if it names another allocator. Keys that have no
    bearing on reserved memory are passed over. Raises MagisError naming a value that cannot be
    read.
    """
    from magis import _core

    settings = _core.AllocatorSettings()
    for key, value in _entries(text):
        if key == "backend" and value != "native":
            return None
        if key == "expandable_segments":
            settings.expandable_segments = _read(key, value, _truth)
        elif key == "max_split_size_mb":
            settings.max_split_size = _read(key, value, _mebibytes)
        elif key == "max_non_split_rounding_mb":
            settings.max_non_split_rounding = _read(key, value, _mebibytes)
        elif key == "large_segment_size_mb":
            settings.large_segment = _read(key, value, _mebibytes)
        elif key == "garbage_collection_threshold":
            settings.garbage_collection_threshold = _read(key, value, _share)
        elif key == "roundup_power2_divisions":
            settings.roundup_power2_divisions = _read(key, value, _divisions)
    return settings


def cublas_workspace(text: str, profile: str) -> int:
    """Bytes that CUBLAS_WORKSPACE_CONFIG="..." asks for: pairs of KiB and how many. Raises
    MagisError if it says something else.
    """
    default = _CUBLAS_WORKSPACE_HOPPER if profile in _HOPPER else _CUBLAS_WORKSPACE
    text = text or default
    if not re.fullmatch(r"(:\d+:\d+)+", text):
        raise MagisError(
            f"{_CUBLAS_VARIABLE}={text!r} is no list of KiB and counts; write it like {default!r}"
        )
    numbers = [int(word) for word in text[1:].split(":")]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return sum(kib * count for kib, count in pairs) * 1024


def _entries(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while text[position:].strip():
        entry = _ENTRY.match(text, position)
        if entry is None:
            raise MagisError(
                f"{_VARIABLES[0]}: {text[position:]!r} is not key:value; separate with commas"
            )
        yield entry[1], entry[2].strip()
        position = entry.end()


def _read(key: str, value: str, parse: Callable[[str], _Value]) -> _Value:
    try:
        return parse(value)
    except (ValueError, KeyError):
        raise MagisError(
            f"{_VARIABLES[0]}: {key}:{value} is not a value that PyTorch takes"
        ) from None


def _truth(value: str) -> bool:
    words: Mapping[str, bool] = {"True": True, "False": False}
    return words[value]


def _mebibytes(value: str) -> int:
    return _positive(value) * _MIB


def _share(value: str) -> float:
    share = float(value)
    if not 0 < share < 1:
        raise ValueError
    return share


def _divisions(value: str) -> list[int]:
    """Of sizes below 2 MiB, below 4 MiB, ..., and of 32 GiB and more. "[256:1,512:2,>:8]" says them
    by the size, in MiB, from which they hold; those below the first hold as the first does.
    """
    if not value.startswith("["):
        return [_power_of_two(value)] * 16
    divisions = [0] * 16
    last = 0
    for number, entry in enumerate(value.strip("[]").split(",")):
        size, _, count = (word.strip() for word in entry.partition(":"))
        parts = 0 if count == "0" else _power_of_two(count)
        if size == ">":
            divisions[last + 1 :] = [parts] * (15 - last)
            continue
        last = min(_power_of_two(size).bit_length() - 1, 15)
        first = 0 if number == 0 else last
        divisions[first : last + 1] = [parts] * (last + 1 - first)
    return divisions


def _positive(value: str) -> int:
    number = int(value)
    if number <= 0:
        raise ValueError
    return number


def _power_of_two(value: str) -> int:
    number = _positive(value)
    if number & (number - 1):
        raise ValueError
    return number
