"""What a trainer does itself, and magis.optimize is therefore not told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from magis.errors import MagisError

_LOOP = (
    "An optimizer inside the step, where each gradient dies as soon as it is used, needs a loop of "
    "your own: step = magis.optimize(model, loss_fn, batch, optimizer=optimizer), then step(*batch)"
)


def check_options(options: Mapping[str, Any], where: str, instead: Mapping[str, str]) -> None:
    """Raises MagisError for an option of magis.optimize that belongs to the trainer. `where` the
    options are given; `instead`: the trainer's own words for some.
    """
    if "optimizer" in options:
        raise MagisError(
            f"the trainer steps the optimizer itself, after it has accumulated and clipped "
            f"gradients: leave optimizer out of {where}. {_LOOP}"
        )
    for name, own in instead.items():
        if name in options:
            raise MagisError(f"leave {name} out of {where}: {own} says it to the trainer")
