"""The devices that plans are made for."""

from __future__ import annotations

import magis._core as core
from magis.errors import MagisError

# The rtx3090's small operators (launches and half empty waves) at half and twice their cost: how
# much of the result hangs on that figure.
_SCALED = {"rtx3090-half": ("rtx3090", 0.5), "rtx3090-double": ("rtx3090", 2.0)}

PROFILES = {
    "rtx3090": "the paper's card, from its published figures; float32 as TF32, bfloat16",
    "reference": "a fixed yardstick: 21 Tflop/s plus 936 GB/s plus 5 µs an operator",
    "reference-h2": "reference, with 2 Gflop more for every product",
    "rtx3090-half": "rtx3090, what makes small operators slow at half its cost",
    "rtx3090-double": "rtx3090, what makes small operators slow at twice its cost",
}


def device_named(name: str) -> core.DeviceProfile:
    if name not in PROFILES:
        raise MagisError(f'no profile "{name}"; there are: {", ".join(PROFILES)}')
    base, factor = _SCALED.get(name, (name, 1.0))
    device = core.DeviceProfile.named(base)
    return device if factor == 1.0 else device.with_small_operators(factor)
