"""Four ways to run the same training step."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import magis
from magis.demo.text import IGNORED, Batch
from magis.report import Report
from magis.zoo.huggingface import model_loss, transformers

PARTS = 4  # of gradient accumulation

Step = Callable[[Batch], Tensor]


@dataclass(frozen=True)
class Budget:
    """What magis is given; the other ways know no limit."""

    memory_limit: int | str  # persistent bytes included
    search_seconds: float = 10.0


@dataclass(frozen=True)
class Way:
    """A step, and what magis says of it if it is magis's."""

    step: Step
    report: Report | None = None


@dataclass
class Method:
    """A model of its own with its optimizer and its random state: no method feels another."""

    name: str
    model: nn.Module
    step: Step  # forward and backward: returns the loss, leaves `.grad`s
    optimizer: torch.optim.Optimizer
    random_state: Tensor  # the global generator's, as this method's last step left it
    report: Report | None = None


def bert(dropout: float, seed: int) -> Any:
    """Six layers of BERT, 5.2 million parameters, as a masked language model."""
    package = transformers()
    torch.manual_seed(seed)
    config = package.BertConfig(
        vocab_size=1000,
        hidden_size=256,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=1024,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        attn_implementation="sdpa",
        use_cache=False,
    )
    return package.BertForMaskedLM(config).train()


def plain_step(model: nn.Module, batch: Batch) -> Tensor:
    loss = model_loss(model, **batch)
    loss.backward()
    return loss.detach()


def step_in_parts(model: nn.Module, batch: Batch, parts: int = PARTS) -> Tensor:
    """Gradient accumulation over `parts` parts of the batch, equal to the whole batch.

    The loss is a mean over the masked tokens, and parts differ in how many they have: each part's
    mean is weighted by its share.
    """
    total = (batch["labels"] != IGNORED).sum()
    loss = torch.zeros(())
    for part in range(parts):
        piece = {key: value.chunk(parts)[part] for key, value in batch.items()}
        share = (piece["labels"] != IGNORED).sum() / total
        weighted = model_loss(model, **piece) * share
        weighted.backward()
        loss += weighted.detach()
    return loss


def eager(model: Any, batch: Batch, budget: Budget) -> Way:
    return Way(partial(plain_step, model))


def checkpointing(model: Any, batch: Batch, budget: Budget) -> Way:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the name changes in transformers 6
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return Way(partial(plain_step, model))


def accumulation(model: Any, batch: Batch, budget: Budget) -> Way:
    return Way(partial(step_in_parts, model))


def optimized(model: Any, batch: Batch, budget: Budget) -> Way:
    step = magis.optimize(
        model,
        model_loss,
        batch,
        memory_limit=budget.memory_limit,
        time_budget=budget.search_seconds,
    )
    return Way(lambda batch: step(**batch), step.report)


METHODS = {
    "eager": eager,
    "checkpointing": checkpointing,
    "accumulation": accumulation,
    "magis": optimized,
}


def persistent_bytes(model: nn.Module, batch: Batch) -> int:
    """Parameters, buffers and batch: what is there before a step and after it."""
    tensors = [*model.parameters(), *model.buffers(), *batch.values()]
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


def make(name: str, *, dropout: float, seed: int, batch: Batch, budget: Budget) -> Method:
    """The method of that name on a fresh model; equal seeds give equal weights and dropout.

    `batch` is an example of every batch to come.
    """
    model = bert(dropout, seed)
    start = torch.get_rng_state()
    way = METHODS[name](model, batch, budget)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return Method(name, model, way.step, optimizer, start, way.report)
