"""Gradients averaged over several processes while the rest of a step still runs.

All processes start the same all-reduces in the same order, which they have agreed on: a gradient
that is final before its turn waits for it. Each is averaged where it lies, by an all-reduce of its
own: a bucket, as DistributedDataParallel has them, would take memory beside its gradients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import nn

from magis.errors import MagisError, ReplicaError


class Averaging:
    """Of one step. Divides before it sums, as DistributedDataParallel does."""

    def __init__(
        self,
        group: dist.ProcessGroup,
        order: Sequence[str],
        parameters: Mapping[str, nn.Parameter],
        shares: Mapping[torch.dtype, torch.Tensor],
    ) -> None:
        """shares: `shares_of` the parameters, made before the step, which has no room for them."""
        self._group = group
        self._count = dist.get_world_size(group)
        self._shares = shares
        self._order = order
        self._parameters = parameters
        self._expected: Collection[str] = ()
        self._final: dict[str, torch.Tensor] = {}  # whose turn has not come
        self._begun = 0
        self._running: dict[int, dist.Work] = {}  # by address of the gradient

    # ---- while a plan runs

    def expect(self, paths: Collection[str]) -> None:
        """Gradients that become what they are in the plan: hooks, for one, may change others."""
        self._expected = paths

    def final(self, path: str, gradient: torch.Tensor) -> None:
        """The plan neither writes to this gradient nor reads it any more."""
        if path not in self._expected:
            return
        self._final[path] = gradient
        while self._begun < len(self._order) and self._order[self._begun] in self._final:
            self._start(self._final.pop(self._order[self._begun]))

    def begin(self, gradient: torch.Tensor) -> None:
        """The next gradient in order, of a plan that says itself when it is averaged."""
        self._start(gradient)

    def end(self, gradient: torch.Tensor) -> None:
        """Waits until this gradient is averaged."""
        work = self._running.pop(gradient.data_ptr(), None)
        if work is not None:
            with together(self._count, "averaging gradients"):
                work.wait()

    # ---- after it

    def finish(self) -> dict[str, torch.Tensor]:
        """Averages what is left, as it is in `.grad` now. Returns averages of gradients that this
        process has not.
        """
        absent: dict[str, torch.Tensor] = {}
        with torch.no_grad():
            for path in self._order[self._begun :]:
                parameter = self._parameters[path]
                gradient = self._final.get(path)
                if gradient is None and parameter.requires_grad:
                    gradient = parameter.grad
                if gradient is None:
                    gradient = absent[path] = torch.zeros_like(parameter, requires_grad=False)
                self._start(gradient)
        self._wait()
        return absent

    def finish_before(self, optimizer: torch.optim.Optimizer) -> None:
        """The same where an update by the optimizer follows, which all processes make alike: what
        others average is there, too. Raises MagisError if this process has a gradient that they do
        not average.
        """
        for path, average in self.finish().items():
            self._parameters[path].grad = average
        updated = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for path, parameter in self._parameters.items():
            alone = path not in self._order and parameter.grad is not None
            if alone and id(parameter) in updated:
                raise MagisError(
                    f"{path} has a gradient in some processes only: with the optimizer in the step "
                    "all must have the same. Leave optimizer= out, and call optimizer.step() after "
                    "the step"
                )

    def average(self, gradients: Sequence[torch.Tensor]) -> None:
        """Of gradients that are not in the order."""
        with torch.no_grad():
            for gradient in gradients:
                self._send(gradient)
        self._wait()

    def abandon(self) -> None:
        """Takes part, with nothing, in what the other processes still average."""
        with torch.no_grad():
            for path in self._order[self._begun :]:
                self._start(torch.zeros_like(self._parameters[path], requires_grad=False))
                self._wait()
        self._wait()

    def _start(self, gradient: torch.Tensor) -> None:
        self._send(gradient)
        self._begun += 1  # only now: what fails before it is sent is still to be sent

    def _send(self, gradient: torch.Tensor) -> None:
        if not gradient.numel():
            return
        sent = torch.view_as_real(gradient) if gradient.is_complex() else gradient
        sent.mul_(self._shares[sent.dtype])
        if not sent.is_contiguous():  # dense in another order, the same one in all processes
            sent = sent.as_strided((sent.numel(),), (1,))
        with together(self._count, "averaging gradients"):
            work = dist.all_reduce(sent, group=self._group, async_op=True)
        self._running[gradient.data_ptr()] = work

    def _wait(self) -> None:
        with together(self._count, "averaging gradients; those of this step are of no use"):
            while self._running:
                self._running.popitem()[1].wait()


def shares_of(count: int, parameters: Iterable[nn.Parameter]) -> dict[torch.dtype, torch.Tensor]:
    """1 / count, by dtypes of gradients: as a tensor of the dtype, which takes no memory when it
    is used, wherever rounding it changes no bit of the product.
    """
    exact = count & (count - 1) == 0
    dtypes = {parameter.dtype.to_real() for parameter in parameters}
    return {
        dtype: torch.tensor(
            1 / count, dtype=dtype if exact or dtype.itemsize >= 4 else torch.float64
        )
        for dtype in dtypes
    }


@contextlib.contextmanager
def together(count: int, what: str) -> Iterator[None]:
    """Raises ReplicaError where `count` processes fail at communicating."""
    try:
        yield
    except RuntimeError as error:
        raise ReplicaError(
            f"{count} processes failed at {what}. Has one of them ended, or does it do something "
            f"else? ({error})"
        ) from error
