"""Optimizer updates as functional arithmetic, for steps that contain them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch

from magis.errors import CaptureError


class Optimizer(Protocol):
    @property
    def name(self) -> str: ...

    def state(self, parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """State tensors by path, on the meta device: only dtype, shape and strides count."""

    def shared(self, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What all updates of one step have in common."""

    def update(
        self,
        path: str,
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        state: Mapping[str, torch.Tensor],
        shared: Mapping[str, torch.Tensor],
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The new parameter, and those states that change, by path."""


class Sgd:
    """W - lr dW: no momentum, no decay."""

    name = "sgd"

    def __init__(self, learning_rate: float = 1e-3) -> None:
        self.learning_rate = learning_rate

    def state(self, parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {}

    def shared(self, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {}

    def update(
        self,
        path: str,
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        state: Mapping[str, torch.Tensor],
        shared: Mapping[str, torch.Tensor],
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return torch.add(parameter, gradient, alpha=-self.learning_rate), {}


class AdamW:
    """Decoupled weight decay (Loshchilov and Hutter 2019) with bias correction; one step count for
    all parameters.
    """

    name = "adamw"

    def __init__(
        self,
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        self.learning_rate = learning_rate
        self.betas = betas
        self.epsilon = epsilon
        self.weight_decay = weight_decay

    def state(self, parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        tensors = {"step": torch.empty((), dtype=torch.float32, device="meta")}
        for path, parameter in parameters.items():
            for moment in ("exp_avg", "exp_avg_sq"):
                tensors[f"{path}.{moment}"] = torch.empty_like(parameter, device="meta")
        return tensors

    def shared(self, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        beta1, beta2 = self.betas
        step = state["step"] + 1
        return {
            "step": step,
            "correction1": 1 - beta1**step,
            "correction2_root": (1 - beta2**step).sqrt(),
        }

    def update(
        self,
        path: str,
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        state: Mapping[str, torch.Tensor],
        shared: Mapping[str, torch.Tensor],
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        beta1, beta2 = self.betas
        mean = torch.lerp(state[f"{path}.exp_avg"], gradient, 1 - beta1)
        square = torch.addcmul(
            state[f"{path}.exp_avg_sq"] * beta2, gradient, gradient, value=1 - beta2
        )
        denominator = square.sqrt() / shared["correction2_root"] + self.epsilon
        decayed = parameter * (1 - self.learning_rate * self.weight_decay)
        updated = torch.addcdiv(
            decayed, mean / shared["correction1"], denominator, value=-self.learning_rate
        )
        return updated, {
            "step": shared["step"],
            f"{path}.exp_avg": mean,
            f"{path}.exp_avg_sq": square,
        }


def make_optimizer(name: str | None) -> Optimizer | None:
    """Raises CaptureError for a name that is not known."""
    if name is None:
        return None
    known: dict[str, type[Sgd] | type[AdamW]] = {"sgd": Sgd, "adamw": AdamW}
    if name not in known:
        raise CaptureError(f"unknown optimizer {name!r}; known are {', '.join(known)}")
    return known[name]()
