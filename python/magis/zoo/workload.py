"""The zoo's words: what a model's builder is asked for, what it returns, how it is described."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from magis.errors import MagisError

LossFunction = Callable[..., Tensor]
Workload = tuple[nn.Module, LossFunction, dict[str, Tensor]]
"""Model, loss function and batch, as `magis.optimize` takes them: `loss_fn(model, **batch)`."""


@dataclass(frozen=True)
class Size:
    """One size of a model: its parameters, and the batch that it gets unless asked otherwise."""

    parameters: int
    paper_parameters: int  # of `variant="paper"`
    batch: int
    seq: int | None = None  # tokens
    image: int | None = None  # pixels a side


@dataclass(frozen=True)
class Request:
    """A checked request: every number is given, every word is known."""

    size: str
    batch: int
    seq: int
    image: int
    variant: str  # real | paper
    dropout: float | None  # None: the model's own rates
    attention: str  # sdpa | eager | "" for models without attention

    @property
    def paper(self) -> bool:
        return self.variant == "paper"


@dataclass(frozen=True)
class ZooEntry:
    """A model of the zoo: its sizes, and the options of `build` that it understands."""

    name: str
    summary: str
    sizes: Mapping[str, Size]
    options: tuple[str, ...]
    attention: tuple[str, ...]  # implementations of attention in the real model, the default first
    builder: Callable[[Request], Workload] = field(repr=False)


def squared_loss(model: Callable[[Tensor], Tensor], x: Tensor, target: Tensor) -> Tensor:
    """Mean squared error, the loss of every `paper` variant."""
    difference = model(x) - target
    return difference.square().mean()


def random_tokens(vocabulary: int, batch: int, seq: int) -> Tensor:
    """Token ids [batch, seq], uniform over the vocabulary."""
    return torch.randint(0, vocabulary, (batch, seq))


def need_multiple(what: str, value: int, factor: int) -> None:
    """Refuses a length that the model cannot halve or cut into patches."""
    if value % factor:
        raise MagisError(f"{what} must be a multiple of {factor}, not {value}")
