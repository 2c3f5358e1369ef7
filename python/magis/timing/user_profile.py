"""Device profiles that users write: a TOML file that is named where a profile is asked for.

name = "rtx4090"
flops_per_second = 82.6e12       # float32 matrix products at their peak
half_flops_per_second = 165e12   # f16 and bf16
matmul_efficiency = 0.75         # what large products reach of that; default 1
bytes_per_second = 1008e9        # of the device's memory
launch_seconds = 5e-6            # an operator takes at least that
half_wave_flops = 2.1e6           # multiprocessors * 128 * 128: what a product's last, half empty
                                 # wave of tiles costs for each term of its sums; default 0
memory_bytes = 24e9              # of the device; default: it is no particular device
allocation_bytes = 512           # allocations are rounded up to a multiple; default 1
link_bytes_per_second = 25e9     # to the host, each way; default: no swapping
link_seconds = 10e-6             # per copy; default 0
host_memory_bytes = 64e9         # for tensors that leave the device; default 0
copies_overlap = true            # copying goes on while the device computes; default true
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from magis import _core
from magis.errors import MagisError

_REQUIRED = ("flops_per_second", "half_flops_per_second", "bytes_per_second", "launch_seconds")
_POSITIVE = {*_REQUIRED, "matmul_efficiency", "link_bytes_per_second", "allocation_bytes"}
_OTHERS = ("half_wave_flops", "link_seconds", "host_memory_bytes", "memory_bytes")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_profile_file(name: str) -> bool:
    """Whether what was given for a profile's name means a file."""
    return name.endswith(".toml")


def read_profile(path: Path) -> _core.DeviceProfile:
    """The profile in a TOML file. Raises MagisError that names the file and the figure."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MagisError(f"{path}: the device profile cannot be read: {error}") from None
    return profile_from(_parsed(text, path), str(path))


def profile_from(fields: Mapping[str, Any], place: str) -> _core.DeviceProfile:
    """The profile with these fields. Raises MagisError that names `place` and the figure."""
    name = fields.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MagisError(f'{place}: name = {name!r} must be a word, such as "rtx4090"')
    if name in _core.device_profiles():
        raise MagisError(f'{place}: "{name}" is the name of a built-in profile; choose another')
    overlap = fields.get("copies_overlap", True)
    if not isinstance(overlap, bool):
        raise MagisError(f"{place}: copies_overlap = {overlap!r} must be true or false")
    for missing in _REQUIRED:
        if missing not in fields:
            raise MagisError(f"{place}: {missing} is missing")
    figures = {}
    for field, value in fields.items():
        if field in ("name", "copies_overlap"):
            continue
        if field not in _POSITIVE and field not in _OTHERS:
            known = ", ".join(sorted({*_POSITIVE, *_OTHERS}))
            raise MagisError(f"{place}: {field} is not known; the figures are {known}")
        figures[field] = _figure(field, value, place)
    if "link_bytes_per_second" not in figures and figures.get("host_memory_bytes"):
        raise MagisError(f"{place}: host_memory_bytes needs link_bytes_per_second")
    figures.setdefault("link_bytes_per_second", 1e9)  # nothing is copied without memory there
    return _core.DeviceProfile.of(name, figures, copies_overlap=overlap)


def _figure(field: str, value: object, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        raise MagisError(f"{place}: {field} = {value!r} must be a number, and not negative")
    if value == 0 and field in _POSITIVE:
        raise MagisError(f"{place}: {field} must be more than 0")
    return float(value)


def _parsed(text: str, path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib

        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise MagisError(f"{path}: {error}") from None
    raise MagisError(f"{path}: reading device profiles needs Python 3.11")
