"""What one of several processes does in test_replicas."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import magis
from magis.errors import MagisError
from magis.measure import measure_peak
from magis.runtime import planner


class Network(nn.Module):
    """With a buffer that differs between processes until it is broadcast."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Linear(32, 4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x)
        return found


def loss_fn(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def join(rank: int, count: int, folder: str) -> None:
    os.environ["MAGIS_CACHE_DIR"] = f"{folder}/cache-{rank}"
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=60),
    )


def batches(rank: int, steps: int, length: int = 16) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(100 + rank)
    return [
        (
            torch.randn(length, 8, generator=generator),
            torch.randint(0, 4, (length,), generator=generator),
        )
        for _ in range(steps)
    ]


def trained(model: nn.Module, data: Any, step: Any, accumulate: int) -> dict[str, torch.Tensor]:
    """The wrapper's state after training by `step`, or by eager without one."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(data):
        syncs = (number + 1) % accumulate == 0
        with contextlib.nullcontext() if syncs else model.no_sync():
            if step is None:
                loss_fn(model, x, y).backward()
            else:
                step(x, y)
        if syncs:
            optimizer.step()
            optimizer.zero_grad()
    return {name: value.clone() for name, value in model.state_dict().items()}


def train(rank: int, count: int, folder: str, accumulate: int, lengths: list[int]) -> None:
    """Planned and eager training agree, and so do the processes' plans where they can."""
    join(rank, count, folder)
    torch.manual_seed(rank)  # DistributedDataParallel makes them equal
    plain = Network()
    ours = DistributedDataParallel(copy.deepcopy(plain))
    theirs = DistributedDataParallel(plain)
    data = batches(rank, 4, lengths[rank % len(lengths)])
    step = magis.optimize(ours, loss_fn, data[0], latency_limit=1.5, time_budget=0.2)
    found = trained(ours, data, step, accumulate)
    expected = trained(theirs, data, None, accumulate)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6, msg=name)
    ours.zero_grad()
    measured = measure_peak(lambda: step(*data[0]))
    over = measured.peak_bytes - step.report.transient_peak_bytes
    assert over <= 0, f"{over} bytes more than promised"
    texts: list[Any] = [None] * count
    dist.all_gather_object(texts, step.plan.text())
    assert (len(set(texts)) == 1) == (len(set(lengths)) == 1)
    kept = Path(f"{folder}/cache-{rank}/plans")
    searched = kept.exists() and any(kept.glob("*.json"))
    # The others were given the plan; adding into gradients is planned by each.
    assert searched == (rank == 0 or len(set(lengths)) > 1 or accumulate > 1)
    dist.barrier()  # one that is gone makes gloo abort in the others
    dist.destroy_process_group()


def one_ends(rank: int, count: int, folder: str) -> None:
    """A process that is gone is an error in the others, not a wait without end."""
    join(rank, count, folder)
    model = DistributedDataParallel(Network())
    data = batches(rank, 2)
    step = magis.optimize(model, loss_fn, data[0], latency_limit=1.5, time_budget=0.1)
    step(*data[0])
    if rank == 1:
        sys.stdout.flush()
        os._exit(0)
    try:
        step(*data[1])
    except MagisError as error:
        assert "2 processes failed at broadcasting buffers" in str(error)  # noqa: PT017
        os._exit(0)  # the group cannot be left in an orderly way any more
    raise AssertionError("no error")


def cannot_plan(rank: int, count: int, folder: str) -> None:
    """The first process's error is everybody's."""
    join(rank, count, folder)
    model = DistributedDataParallel(Network())
    data = batches(rank, 1)

    def fails(*_: object) -> None:
        raise MagisError("no time")

    planner._optimize = fails if rank == 0 else None  # type: ignore[assignment]
    try:
        magis.optimize(model, loss_fn, data[0], latency_limit=1.5)
    except MagisError as error:
        assert str(error) == (  # noqa: PT017
            "no time"
            if rank == 0
            else "the first process could not plan the step: MagisError: no time"
        )
    else:
        raise AssertionError("no error")
    dist.barrier()  # one that is gone makes gloo abort in the others
    dist.destroy_process_group()


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, which: int) -> torch.Tensor:
        found: torch.Tensor = (self.first, self.second)[which](x)
        return found


def branch(rank: int, count: int, folder: str) -> None:
    """Parameters that one process alone uses."""
    join(rank, count, folder)
    torch.manual_seed(0)
    plain = Branches()
    ours = DistributedDataParallel(copy.deepcopy(plain), find_unused_parameters=True)
    theirs = DistributedDataParallel(plain, find_unused_parameters=True)
    x = torch.randn(16, 8)
    step = magis.optimize(
        ours, lambda m, x, which: m(x, which).sum(), (x, rank), latency_limit=1.5, time_budget=0.1
    )
    step(x, rank)
    theirs(x, rank).sum().backward()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    dist.barrier()
    dist.destroy_process_group()
