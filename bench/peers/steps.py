"""Ways to take one training step of a six-layer BERT in less memory than eager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch._functorch.config as functorch_config
from functorch.compile import min_cut_rematerialization_partition
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._inductor.compile_fx import compile_fx

from magis import measure
from magis.demo.methods import bert, persistent_bytes, plain_step, step_in_parts

BATCH, LENGTH, WORDS = 8, 128, 1000
SEED = 0
ACCUMULATED_PARTS = (2, 4, 8)
# `activation_memory_budget`: of the bytes between all activations kept and none. 0 is left out: it
# keeps nothing, yet recomputes all of it at once, and takes more than eager.
BUDGETS = (0.5, 0.2, 0.1)

Batch = dict[str, Tensor]


@dataclass
class Subject:
    """The model of one method, with the batch that all take: no method feels another."""

    model: nn.Module
    batch: Batch

    @classmethod
    def fresh(cls, dropout: float) -> Subject:
        """Equal weights every time."""
        model = bert(dropout, SEED)
        generator = torch.Generator().manual_seed(SEED)
        ids, labels = (
            torch.randint(0, WORDS, (BATCH, LENGTH), generator=generator) for _ in range(2)
        )
        return cls(model, {"input_ids": ids, "labels": labels})

    @property
    def persistent_bytes(self) -> int:
        return persistent_bytes(self.model, self.batch)


@dataclass
class Way:
    """Takes a step: the loss comes back, gradients are left in `.grad`."""

    name: str
    subject: Subject
    take: Callable[[], Tensor]
    promised: float | None = None  # seconds, over those of the captured step in program order
    words: str = ""  # what the plan does
    promised_bytes: int | None = None

    def step(self) -> Tensor:
        self._reset()
        return self.take()

    def peak_bytes(self) -> int:
        """Of a step above what was there when it began, gradients included, parameters not."""
        self.step()  # what is allocated once and kept is no part of it
        self._reset()
        return measure.measure_peak(self.take).peak_bytes

    def _reset(self) -> None:
        """Every gradient is a new tensor, and random numbers are the same each time."""
        for parameter in self.subject.model.parameters():
            parameter.grad = None
        torch.manual_seed(SEED)


def eager(dropout: float) -> Way:
    subject = Subject.fresh(dropout)
    return Way("eager", subject, partial(plain_step, subject.model, subject.batch))


def checkpointing(dropout: float) -> Way:
    """Hugging Face's: every layer runs again before its backward pass."""
    subject = Subject.fresh(dropout)
    model: Any = subject.model
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return Way("checkpointing", subject, partial(plain_step, model, subject.batch))


def accumulation(dropout: float, parts: int) -> Way:
    """By hand, the parts' losses weighted so that the gradients are the whole batch's."""
    subject = Subject.fresh(dropout)
    take = partial(step_in_parts, subject.model, subject.batch, parts)
    return Way(f"accumulation, {parts} parts", subject, take)


def compiled(dropout: float, budget: float, backend: str) -> Way:
    """`torch.compile` with `activation_memory_budget`. backend: "aten", the graphs that its
    partitioner makes with PyTorch's own kernels, as in all other ways here, or "inductor".
    """
    subject = Subject.fresh(dropout)
    # A backend of its own: models of one class share what is compiled for equal backends.
    own = _aten() if backend == "aten" else partial(compile_fx)
    with functorch_config.patch(
        activation_memory_budget=budget, activation_memory_budget_solver="dp"
    ):
        step = torch.compile(subject.model, backend=own)
        take = partial(plain_step, step, subject.batch)
        way = Way(f"{backend}, budget {budget:g}", subject, take)
        way.step()  # compiles
    return way


def _aten() -> Any:
    """Its code lets go of each tensor after the last use."""
    return aot_autograd(
        fw_compiler=boxed_nop,
        bw_compiler=boxed_nop,
        partition_fn=min_cut_rematerialization_partition,
    )
