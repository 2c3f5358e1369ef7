"""Several processes train one model as DistributedDataParallel does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import replica_failures
import replica_training
import torch
import torch.distributed as dist
from replica_support import Network, batches, loss_fn, run
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import magis
from magis.errors import MagisError


@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_processes(accumulate: int, tmp_path: Path) -> None:
    run(replica_training.train, 2, tmp_path, accumulate, [16], {})


def test_four_processes(tmp_path: Path) -> None:
    run(replica_training.train, 4, tmp_path, 1, [16], {})


def test_batches_of_different_lengths_have_plans_of_their_own(tmp_path: Path) -> None:
    run(replica_training.train, 2, tmp_path, 1, [16, 24], {})


@pytest.mark.parametrize("option", ["gradient_as_bucket_view", "static_graph"])
def test_options_of_the_wrapper(option: str, tmp_path: Path) -> None:
    run(replica_training.train, 2, tmp_path, 1, [16], {option: True})


@pytest.mark.parametrize(
    ("count", "make", "clip", "lengths", "limit"),
    [
        (2, replica_training.adamw, None, [16], 1.0),
        (2, replica_training.sgd, 0.1, [16, 24], 1.5),
        # Adam would tell apart gradients that are noise, such as that of a bias before batch norm.
        (4, replica_training.sgd, 0.1, [16], 1.5),
    ],
)
def test_the_optimizer_in_the_step(
    count: int, make: Any, clip: float | None, lengths: list[int], limit: float, tmp_path: Path
) -> None:
    run(replica_training.update_in_step, count, tmp_path, make, clip, lengths, limit)


@pytest.mark.parametrize("in_step", [False, True])
def test_averaging_begins_before_the_last_gradient_is_computed(
    in_step: bool, tmp_path: Path
) -> None:
    run(replica_training.overlap, 2, tmp_path, in_step)


@pytest.mark.parametrize(
    "scenario",
    [
        replica_training.branch,
        replica_training.hooks,
        replica_training.planners,
        replica_training.without_gradients,
        replica_failures.ends,
        replica_failures.fails_before_its_step,
        replica_failures.fails_in_the_middle,
        replica_failures.cannot_plan,
        replica_failures.other_gradients,
    ],
)
def test_two_processes_with(scenario: Any, tmp_path: Path) -> None:
    run(scenario, 2, tmp_path)


@pytest.mark.parametrize("in_step", [False, True])
def test_a_process_that_ends_while_it_averages(in_step: bool, tmp_path: Path) -> None:
    run(replica_failures.ends_while_averaging, 2, tmp_path, in_step)


# ---- one process is enough


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/one", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def planned(model: nn.Module, **options: Any) -> magis.Step:
    batch = batches(0, 1)[0]
    return magis.optimize(model, loss_fn, batch, latency_limit=1.5, time_budget=0.1, **options)


@pytest.mark.usefixtures("alone")
def test_what_a_planned_step_cannot_follow() -> None:
    model = DistributedDataParallel(Network())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = planned(model, optimizer=optimizer)
    with model.no_sync(), pytest.raises(MagisError, match="leave no_sync"):
        step(*batches(0, 1)[0])
    with pytest.raises(MagisError, match="give all processes equally many batches"), model.join():
        step(*batches(0, 1)[0])
    model.register_comm_hook(None, lambda _, bucket: bucket)
    with pytest.raises(MagisError, match="has a communication hook"):
        planned(model)
    first, *_ = model.module.named_parameters()
    late = DistributedDataParallel(
        model.module, delay_all_reduce_named_params=[first], param_to_hook_all_reduce=first[1]
    )
    with pytest.raises(MagisError, match="has delay_all_reduce_named_params"):
        planned(late)


@pytest.mark.usefixtures("alone")
def test_the_code_says_when_a_gradient_is_final() -> None:
    step = planned(DistributedDataParallel(Network()), exact=True)
    told = [line for line in step.source.splitlines() if "gradient_is_final(" in line]
    assert len(told) == len(list(Network().parameters()))
    assert "gradient_is_final" not in planned(Network(), exact=True).source
