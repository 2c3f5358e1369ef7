"""Losses that are scaled: by a factor that the step takes at each call, as fp16 needs it, and by
the number of calls whose gradients add up.

Each returns the scaled loss, which gradients come from, before the loss function's own result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from magis.capture.batch import normalise_batch
from magis.errors import GuardError, MagisError, PlanError

# In the header of a graph: by how many calls its loss is shared; that it is scaled, by an argument
# of this name.
ACCUMULATE = "accumulate"
GRAD_SCALE = "grad_scale"
_EXAMPLE = 1024.0  # any: it is a runtime scalar


def shared(loss_fn: Callable[..., Any] | None, calls: int) -> Callable[..., Any]:
    """A loss function for each of `calls` calls: their gradients come to those of the mean loss."""
    if loss_fn is None:
        raise MagisError("without a loss there are no gradients to add up: leave accumulate= out")
    own = loss_fn

    def over_calls(model: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        result = own(model, *args, **kwargs)
        return _loss_of(result) / calls, result

    return over_calls


def scaled(
    loss_fn: Callable[..., Any] | None, batch: Any
) -> tuple[Callable[..., Any], tuple[Any, ...] | dict[str, Any]]:
    """A loss function that takes the scale before everything else, or as `grad_scale` where the
    batch is a dict; and its example batch.
    """
    if loss_fn is None:
        raise MagisError("without a loss there are no gradients to scale: grad_scale needs loss_fn")
    own = loss_fn
    example = normalise_batch(batch)
    if isinstance(example, dict) and GRAD_SCALE in example:
        raise MagisError('the batch has a "grad_scale" of its own; give it another name')

    def with_scale(
        model: nn.Module, /, *args: Any, grad_scale: float | None = None, **kwargs: Any
    ) -> Any:
        if grad_scale is None:
            grad_scale, *rest = args
            args = tuple(rest)
        result = own(model, *args, **kwargs)
        return _loss_of(result) * grad_scale, result

    if isinstance(example, dict):
        return with_scale, {**example, GRAD_SCALE: _EXAMPLE}
    return with_scale, (_EXAMPLE, *example)


def scaled_as(
    meta: Mapping[str, str], loss_fn: Callable[..., Any] | None, batch: Any
) -> tuple[Callable[..., Any] | None, Any]:
    """Loss function and batch of a step whose graph has this header, from a user's own. Raises
    PlanError if the header makes no sense.
    """
    calls = meta.get(ACCUMULATE, "1")
    if not calls.isascii() or not calls.isdecimal() or int(calls) < 1:
        raise PlanError(f"the plan records a loss shared by {calls!r} calls; make it again")
    if int(calls) > 1:
        loss_fn = shared(loss_fn, int(calls))
    if GRAD_SCALE in meta:
        loss_fn, batch = scaled(loss_fn, batch)
    return loss_fn, batch


def _loss_of(result: Any) -> torch.Tensor:
    """Raises TypeError where a step without scaling says the same."""
    loss = result[0] if isinstance(result, tuple) and result else result
    if not isinstance(loss, torch.Tensor):
        raise TypeError(
            "loss_fn returns a scalar tensor, or a tuple whose first item is one, not "
            f"{type(loss).__name__}"
        )
    return loss


def with_scale(
    args: tuple[Any, ...], kwargs: dict[str, Any], by_keywords: bool, device: torch.device
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call's arguments as the scaled loss function takes them. Raises GuardError if there is no
    scale.
    """
    rest = dict(kwargs)
    scale = rest.pop(GRAD_SCALE, None)
    if isinstance(scale, torch.amp.GradScaler):
        scale.scale(torch.zeros((), device=device))  # without it the scaler knows no scale yet
        scale = scale.get_scale()
    if isinstance(scale, torch.Tensor):
        scale = float(scale)
    if not isinstance(scale, (int, float)) or isinstance(scale, bool):
        raise GuardError(
            "the step was planned with grad_scale=True: give it grad_scale=scaler, or a number"
        )
    if by_keywords:
        return args, {**rest, GRAD_SCALE: float(scale)}
    return (float(scale), *args), rest
