"""Processes with unequally many batches: those that have no more take part in what the others do.

By PyTorch's protocol for it (torch.distributed.algorithms.Join), as DistributedDataParallel.join().
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.distributed.algorithms import Join, Joinable, JoinHook

if TYPE_CHECKING:
    from magis.runtime.replicas import Replicas


class Joining(Joinable):  # type: ignore[misc]
    """Of one step's processes."""

    def __init__(self, replicas: Replicas, device: torch.device, group: dist.ProcessGroup) -> None:
        super().__init__()
        self._replicas = replicas
        self._device = device
        self._group = group

    def begin(self, syncs: bool) -> int:
        """At the start of a step of a process that still has batches: the process whose buffers
        are everybody's.
        """
        work = Join.notify_join_context(self)
        if work is None:  # nobody joins
            return 0
        work.wait()
        return self.agree(dist.get_rank(self._group), syncs)[0]

    def agree(self, rank: int, flag: bool) -> tuple[int, bool]:
        """The highest rank that any process gives, below 0 for none, and whether any has a flag."""
        found = torch.tensor([rank, int(flag)], device=self._device)
        dist.all_reduce(found, op=dist.ReduceOp.MAX, group=self._group)
        highest, any_flag = found.tolist()
        return int(highest), bool(any_flag)

    def join_hook(self, **_: object) -> JoinHook:
        return _Shadow(self, self._replicas)

    @property
    def join_device(self) -> torch.device:
        return self._device

    @property
    def join_process_group(self) -> dist.ProcessGroup:
        return self._group


class _Shadow(JoinHook):  # type: ignore[misc]
    """What a process does that has no more batches."""

    def __init__(self, joining: Joining, replicas: Replicas) -> None:
        self._joining = joining
        self._replicas = replicas

    def main_hook(self) -> None:
        """Beside a step of the others."""
        self._replicas.shadow(*self._joining.agree(-1, False))

    def post_hook(self, is_last_joiner: bool) -> None:
        """When nobody has any more: the last one's model is everybody's."""
        rank = self._replicas.rank if is_last_joiner else -1
        self._replicas.end_join(self._joining.agree(rank, False)[0])
