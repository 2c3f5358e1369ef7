"""One model trained by several processes: what DistributedDataParallel does around a step.

Each process plans and runs the step on its own batch; then gradients are averaged over all of them,
in place, so that no bucket takes memory beside them. The first plan is made by the first process
for all, where all have the same graph.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from magis import _torch_internals as internals
from magis.errors import MagisError


class Replicas:
    """The processes that a DistributedDataParallel connects. Raises MagisError for a wrapper whose
    ways a planned step cannot follow.
    """

    def __init__(self, wrapper: DistributedDataParallel) -> None:
        self._wrapper = wrapper
        self._group = wrapper.process_group
        if internals.has_communication_hooks(wrapper):
            raise MagisError(
                "the DistributedDataParallel has a communication hook, which a planned step would "
                "pass over: leave it out"
            )
        self.count = dist.get_world_size(self._group)
        self.rank = dist.get_rank(self._group)

    @property
    def module(self) -> nn.Module:
        module: nn.Module = self._wrapper.module
        return module

    def begin(self) -> None:
        """Before a step: buffers come from the first process, unless the last step was under
        `no_sync()`.
        """
        with self._together("broadcasting buffers"), torch.no_grad():
            first = dist.get_global_rank(self._group, 0)
            running = [
                dist.broadcast(buffer, src=first, group=self._group, async_op=True)
                for buffer in internals.buffers_to_broadcast(self._wrapper)
            ]
            for work in running:
                work.wait()

    def average(self) -> None:
        """After a step: gradients are averaged, unless it is under `no_sync()`. Raises MagisError
        if another process is gone.
        """
        if not self._wrapper.require_backward_grad_sync:
            return
        ignored = internals.ignored_parameters(self._wrapper)
        trained = [
            parameter
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad and name not in ignored
        ]
        if not trained:
            return
        lost = "averaging gradients; those of this step are of no use"
        with self._together(lost), torch.no_grad():
            running = []
            for gradient in self._present_somewhere(trained):
                gradient.mul_(1 / self.count)
                running.append(dist.all_reduce(gradient, group=self._group, async_op=True))
            for work in running:
                work.wait()

    def _present_somewhere(self, trained: list[nn.Parameter]) -> list[torch.Tensor]:
        """Gradients that at least one process has; zeros stand for one's own where it has none."""
        present = torch.tensor(
            [parameter.grad is not None for parameter in trained],
            dtype=torch.uint8,
            device=trained[0].device,
        )
        dist.all_reduce(present, op=dist.ReduceOp.MAX, group=self._group)
        found = []
        for parameter, anywhere in zip(trained, present.tolist(), strict=True):
            if not anywhere:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter, requires_grad=False)
            found.append(parameter.grad)
        return found

    def all_equal(self, text: str) -> bool:
        """Whether all processes, which must all ask, hold the same text."""
        texts: list[Any] = [None] * self.count
        with self._together("planning the step"):
            dist.all_gather_object(texts, text, group=self._group)
        return all(other == text for other in texts)

    def from_first(self, make: Callable[[], str]) -> str:
        """What `make` gives the first process, in all of them. Its error is everybody's."""
        box: list[Any] = [None, None]
        error: Exception | None = None
        if self.rank == 0:
            try:
                box[0] = make()
            except Exception as failed:
                error = failed
                box[1] = f"{type(failed).__name__}: {failed}"
        with self._together("planning the step"):
            source = dist.get_global_rank(self._group, 0)
            dist.broadcast_object_list(box, src=source, group=self._group)
        if error is not None:
            raise error
        if box[1] is not None:
            raise MagisError(f"the first process could not plan the step: {box[1]}")
        made: str = box[0]
        return made

    @contextlib.contextmanager
    def _together(self, what: str) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise MagisError(
                f"{self.count} processes failed at {what}. Has one of them ended, or does it do "
                f"something else? ({error})"
            ) from error


def unwrapped(model: nn.Module) -> tuple[nn.Module, Replicas | None]:
    """The model that is to be planned, and the processes that train it together, if several do."""
    if not isinstance(model, DistributedDataParallel):
        return model, None
    replicas = Replicas(model)
    return replicas.module, replicas
