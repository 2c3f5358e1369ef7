"""Reads that PyTorch answers, or refuses, before any operator runs: `.tolist()` and `.numpy()`,
truth values of numbers, and the lengths of packed sequences.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import torch

from magis import _torch_internals as internals
from magis.capture.sites import SiteRecorder


@contextlib.contextmanager
def whole_reads(recorder: SiteRecorder) -> Iterator[None]:
    """Inside, the recorder's reader answers them."""
    reads = _WholeReads(recorder)
    methods: dict[str, Callable[..., Any]] = {
        "tolist": reads.read(torch.Tensor.tolist),
        "numpy": reads.read(torch.Tensor.numpy),
        "__array__": reads.read(torch.Tensor.__array__),
        "__bool__": reads.truth,
    }
    functions: dict[str, Callable[..., Any]] = {
        "_pack_padded_sequence": reads.pack,
        "_pad_packed_sequence": reads.pad,
    }
    with internals.reads_answered(methods, functions):
        yield


class _WholeReads:
    def __init__(self, recorder: SiteRecorder) -> None:
        self._recorder = recorder

    def read(self, func: Any) -> Callable[..., Any]:
        """`func` on the data of a traced tensor."""

        def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            data = self._recorder.reader.value(tensor, self._recorder.site_here())
            with internals.without_modes():
                return func(data.detach(), *args, **kwargs)

        return read

    @property
    def truth(self) -> Callable[[torch.Tensor], bool]:
        """Of a number, whether it is 0 is all that is read."""

        def truth(tensor: torch.Tensor) -> bool:
            plain = tensor.numel() != 1 or tensor.dtype is torch.bool
            return bool(torch.Tensor.__bool__(tensor if plain else tensor != 0))

        return truth

    # PyTorch's kernels for packed sequences read lengths behind the dispatcher's back. These say
    # the same with slices.

    def pack(
        self, padded: torch.Tensor, lengths: torch.Tensor, batch_first: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The steps that exist, of sequences sorted by length; and how many there are of each."""
        known = self.read(torch.Tensor.tolist)(lengths)
        steps = padded.transpose(0, 1) if batch_first else padded
        counts = [sum(length > step for length in known) for step in range(max(known))]
        packed = torch.cat([steps[step, :count] for step, count in enumerate(counts)])
        return packed, _real(counts)

    def pad(
        self,
        packed: torch.Tensor,
        batch_sizes: torch.Tensor,
        batch_first: bool,
        padding: float,
        total_length: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Undoes `pack`: padded sequences and their lengths."""
        counts = self.read(torch.Tensor.tolist)(batch_sizes)
        most = counts[0]
        ends = list(accumulate(counts))
        rest = packed.shape[1:]
        steps = [packed[end - n : end] for end, n in zip(ends, counts, strict=True)]
        steps = [
            torch.cat([step, step.new_full((most - len(step), *rest), padding)])
            if len(step) < most
            else step
            for step in steps
        ]
        missing = max(total_length - len(steps), 0)
        steps += [packed.new_full((most, *rest), padding) for _ in range(missing)]
        padded = torch.stack(steps)
        lengths = [sum(count > i for count in counts) for i in range(most)]
        return padded.transpose(0, 1) if batch_first else padded, _real(lengths)


def _real(numbers: list[int]) -> torch.Tensor:
    with internals.without_modes():
        return torch.tensor(numbers)
