"""The small networks that really run, and what PyTorch's users do to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch._functorch.config as functorch_config
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop

from magis import measure, zoo
from magis.zoo.mlp import classification_loss
from magis.zoo.resnet import ResNet, ResNetConfig

SEED = 0

Made = tuple[Any, Callable[..., Any], dict[str, Any]]
"""Model, loss function, batch."""


@dataclass
class Way:
    """Takes a step on a model of its own, and leaves gradients in `.grad`."""

    name: str
    model: Any
    take: Callable[[], Any]

    def step(self) -> None:
        self._reset()
        self.take()

    def peak_bytes(self) -> int:
        """Of a step above its level when it begins, gradients included."""
        self.step()  # what is allocated once and kept is no part of it
        self._reset()
        return measure.measure_peak(self.take).peak_bytes

    def _reset(self) -> None:
        for parameter in self.model.parameters():
            parameter.grad = None
        torch.manual_seed(SEED)


@dataclass(frozen=True)
class Subject:
    make: Callable[[], Made]  # equal weights every time
    checkpointed: bool = False  # it is Hugging Face's
    normed: bool = False  # batch norm: parts of a batch are not the whole


def bert6() -> Made:
    return zoo.build("bert", size="small", batch=8, seq=128, dropout=0.0, seed=SEED)


def resnet18() -> Made:
    """ResNet-18's depth at half its width, in bottleneck blocks."""
    torch.manual_seed(SEED)
    model = ResNet(ResNetConfig(width=32, blocks=(2, 2, 2, 2), classes=100)).train()
    batch = {"x": torch.randn(16, 3, 96, 96), "labels": torch.randint(0, 100, (16,))}
    return model, classification_loss, batch


def unet16() -> Made:
    return zoo.build("unet", size="small", batch=4, image=96, seed=SEED)


SUBJECTS = {
    "bert6": Subject(bert6, checkpointed=True),
    "resnet18": Subject(resnet18, normed=True),
    "unet16": Subject(unet16, normed=True),
}


def _plain(model: Any, loss_fn: Callable[..., Any], batch: dict[str, Any]) -> Any:
    loss = loss_fn(model, **batch)
    loss.backward()
    return loss.detach()


def _in_parts(model: Any, loss_fn: Callable[..., Any], batch: dict[str, Any], parts: int) -> None:
    # A mean over unequal parts would need weights, which cost nothing.
    for part in range(parts):
        piece = {name: value.chunk(parts)[part] for name, value in batch.items()}
        (loss_fn(model, **piece) / parts).backward()


def eager(subject: Subject) -> Way:
    model, loss_fn, batch = subject.make()
    return Way("eager", model, partial(_plain, model, loss_fn, batch))


def checkpointing(subject: Subject) -> Way:
    """Hugging Face's: every layer runs again before its backward pass."""
    model, loss_fn, batch = subject.make()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return Way("HF checkpointing", model, partial(_plain, model, loss_fn, batch))


def accumulation(subject: Subject, parts: int) -> Way:
    model, loss_fn, batch = subject.make()
    take = partial(_in_parts, model, loss_fn, batch, parts)
    return Way(f"accumulation, {parts} parts", model, take)


def budgeted(subject: Subject, budget: float) -> Way:
    """torch.compile's partitioner at an `activation_memory_budget`, with PyTorch's own kernels, on
    model and loss together: around a compiled model alone the logits' gradient outlives its use."""
    model, loss_fn, batch = subject.make()
    backend = aot_autograd(
        fw_compiler=boxed_nop,
        bw_compiler=boxed_nop,
        partition_fn=min_cut_rematerialization_partition,
    )
    with functorch_config.patch(
        activation_memory_budget=budget, activation_memory_budget_solver="dp"
    ):
        take = partial(_plain, model, torch.compile(loss_fn, backend=backend), batch)
        way = Way(f"torch's budget {budget:g}", model, take)
        way.step()  # compiles
    return way


def compiled(subject: Subject) -> Way:
    """torch.compile as it comes, with kernels of its own."""
    model, loss_fn, batch = subject.make()
    way = Way("torch.compile", model, partial(_plain, torch.compile(model), loss_fn, batch))
    way.step()
    return way
