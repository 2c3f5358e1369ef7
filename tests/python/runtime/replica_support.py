"""What processes that train one model together need in tests."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn import functional as F

Scenario = tuple[Any, ...]  # a function, and its arguments after the process's number


def run(count: int, folder: Path, *scenarios: Scenario) -> None:
    """All scenarios, one after another, in so many connected processes."""
    torch.multiprocessing.spawn(_connected, args=(count, str(folder), scenarios), nprocs=count)


def _connected(rank: int, count: int, folder: str, scenarios: tuple[Scenario, ...]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=60),
    )
    for number, (function, *args) in enumerate(scenarios):
        os.environ["MAGIS_CACHE_DIR"] = f"{folder}/cache-{rank}-{number}"
        print(f"process {rank}: {function.__name__}{tuple(args)}", flush=True)  # shown on failure
        function(rank, *args)
    # One that is gone while another still communicates makes gloo abort there.
    dist.barrier()
    Path(f"{folder}/done-{rank}").touch()
    while len(list(Path(folder).glob("done-*"))) < count:
        time.sleep(0.01)
    dist.destroy_process_group()
    # Threads of PyTorch's own now and then abort a process whose interpreter is taken down
    # ("terminate called without an active exception"). Everything has been tested by now.
    sys.stdout.flush()
    os._exit(0)


@contextlib.contextmanager
def raises(kind: type[Exception], words: str) -> Iterator[None]:
    """As pytest.raises, whose messages are lost between processes."""
    try:
        yield
    except kind as error:
        assert words in str(error), f"{type(error).__name__}: {error}"  # noqa: PT017
    else:
        raise AssertionError(f"no error that says {words!r}")


class Network(nn.Module):
    """With a buffer that differs between processes until it is broadcast."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Linear(32, 32), nn.Linear(32, 4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x)
        return found


def loss_fn(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def batches(rank: int, steps: int, length: int = 16) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(100 + rank)
    return [
        (
            torch.randn(length, 8, generator=generator),
            torch.randint(0, 4, (length,), generator=generator),
        )
        for _ in range(steps)
    ]
