"""How one call leaves its gradients: taken, added in place inside the plan, or handed to hooks
first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

import torch

from magis import _torch_internals as internals
from magis.runtime.compiled import DTYPES

if TYPE_CHECKING:
    from magis import _core
    from magis.capture import Capture


class Deposit(Enum):
    """What becomes of one gradient."""

    take = auto()  # .grad is None: the plan's tensor becomes it
    accumulate = auto()  # the plan itself adds into .grad, without a second copy
    add = auto()  # .grad is of an unusual layout: added once the plan has run
    hook = auto()  # hooks see the final gradient first, then it is taken or added
    propagate = auto()  # a batch tensor with a history: autograd takes it from here


@dataclass(frozen=True)
class Slot:
    """A place that one gradient of a graph goes to."""

    path: str  # a parameter's name, or the path of a batch leaf
    leaf: int | None  # index among the batch's leaves; None for a parameter
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def target(
        self, parameters: dict[str, torch.nn.Parameter], leaves: Sequence[object]
    ) -> torch.Tensor:
        if self.leaf is None:
            return parameters[self.path]
        tensor = leaves[self.leaf]
        assert isinstance(tensor, torch.Tensor)
        return tensor

    def deposit(self, target: torch.Tensor) -> Deposit:
        if not target.is_leaf:
            return Deposit.propagate
        if internals.tensor_hooks(target):
            return Deposit.hook
        grad = target.grad
        if grad is None:
            return Deposit.take
        usual = (
            grad.dtype == self.dtype
            and grad.shape == self.shape
            and grad.layout == torch.strided
            and grad.stride() == self.strides
            and not grad.requires_grad
        )
        return Deposit.accumulate if usual else Deposit.add


def slots_of(graph: _core.Graph, leaf_paths: Sequence[str]) -> list[Slot]:
    """One slot per gradient output of `graph`, in the order of its outputs."""
    paths = [output.path for output in graph.outputs if output.kind == "grad"]
    if not paths:
        return []
    # The step that adds into every gradient has them as inputs, with their types.
    types = {
        entry.path: entry
        for entry in graph.accumulate_gradients(paths).inputs
        if entry.kind == "grad"
    }
    index = {path: i for i, path in enumerate(leaf_paths)}
    return [
        Slot(
            path,
            index.get(path),
            DTYPES[types[path].dtype],
            types[path].shape,
            types[path].strides,
        )
        for path in paths
    ]


def added_to(
    captured: Capture, graph: _core.Graph, parameters: Mapping[str, torch.nn.Parameter]
) -> list[str]:
    """Parameters to whose gradients a plan can add by itself, in the order of `graph`'s outputs:
    those without hooks; none where a plan may be abandoned, which must not touch gradients.
    """
    if captured.checks:
        return []
    paths = [output.path for output in graph.outputs if output.kind == "grad"]
    return [p for p in paths if p in parameters and not internals.tensor_hooks(parameters[p])]


def run_tensor_hooks(slot: Slot, target: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient after `target`'s hooks, each of which may replace it, as in backward.

    What a hook puts in its place may belong to somebody else: it is copied into the gradient's own
    layout.
    """
    own = gradient
    for hook in list(internals.tensor_hooks(target).values()):
        replaced = hook(gradient)
        if replaced is None:
            continue
        if not isinstance(replaced, torch.Tensor) or replaced.shape != gradient.shape:
            what = list(replaced.shape) if isinstance(replaced, torch.Tensor) else replaced
            raise RuntimeError(
                f"a gradient hook returned {what!r} where a tensor of shape {list(gradient.shape)} "
                "was expected"
            )
        gradient = replaced
    if gradient is own:
        return own
    copied = torch.empty_strided(slot.shape, slot.strides, dtype=slot.dtype, device=gradient.device)
    return copied.copy_(gradient)


def run_post_accumulate_hooks(targets: Iterable[torch.Tensor]) -> None:
    for target in targets:
        for hook in list(internals.post_accumulate_hooks(target).values()):
            hook(target)


def deposit(target: torch.Tensor, gradient: torch.Tensor) -> None:
    """Adds `gradient` to `target.grad`, which it becomes if there is none."""
    if target.grad is None:
        target.grad = gradient
    else:
        target.grad.add_(gradient)
