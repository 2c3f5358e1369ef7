"""Several processes train one model as DistributedDataParallel does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import replica_training
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import magis
from magis.errors import MagisError


def run(function: Callable[..., None], count: int, folder: Path, *args: Any) -> None:
    torch.multiprocessing.spawn(function, args=(count, str(folder), *args), nprocs=count)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_processes(accumulate: int, tmp_path: Path) -> None:
    run(replica_training.train, 2, tmp_path, accumulate, [16])


def test_four_processes(tmp_path: Path) -> None:
    run(replica_training.train, 4, tmp_path, 1, [16])


def test_batches_of_different_lengths_have_plans_of_their_own(tmp_path: Path) -> None:
    run(replica_training.train, 2, tmp_path, 1, [16, 24])


def test_parameters_that_one_process_alone_uses(tmp_path: Path) -> None:
    run(replica_training.branch, 2, tmp_path)


def test_a_process_that_ends(tmp_path: Path) -> None:
    run(replica_training.one_ends, 2, tmp_path)


def test_a_first_process_that_cannot_plan(tmp_path: Path) -> None:
    run(replica_training.cannot_plan, 2, tmp_path)


def test_what_a_planned_step_cannot_follow(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/one", rank=0, world_size=1)
    try:
        batch = (torch.randn(4, 8),)
        model = DistributedDataParallel(nn.Linear(8, 8))
        with pytest.raises(MagisError, match="leave optimizer= out"):
            magis.optimize(model, loss, batch, optimizer=torch.optim.SGD(model.parameters(), 0.1))
        model.register_comm_hook(None, lambda _, bucket: bucket)
        with pytest.raises(MagisError, match="has a communication hook"):
            magis.optimize(model, loss, batch)
    finally:
        dist.destroy_process_group()


def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).sum()
