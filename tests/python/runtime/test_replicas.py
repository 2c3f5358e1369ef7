"""Several processes train one model as DistributedDataParallel does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import replica_failures as failures
import replica_training as training
import torch
import torch.distributed as dist
from replica_support import Network, batches, loss_fn, run
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import magis
from magis.errors import MagisError


def test_two_processes(tmp_path: Path) -> None:
    run(
        *(2, tmp_path),
        (training.train, 1, [16], {}),
        (training.train, 2, [16], {}),
        (training.train, 1, [16, 24], {}),  # each has plans of its own
        (training.train, 1, [16], {"gradient_as_bucket_view": True}),
        (training.train, 1, [16], {"static_graph": True}),
        (training.branch,),
        (training.frozen_for_a_while,),
        (training.hooks,),
        (training.uneven,),
        (training.planners,),
        (training.without_gradients,),
    )


def test_two_processes_with_the_optimizer_in_the_step(tmp_path: Path) -> None:
    run(
        *(2, tmp_path),
        (training.update_in_step, training.adamw, None, [16], 1.0),
        (training.update_in_step, training.sgd, 0.1, [16, 24], 1.5),
        (training.update_eagerly,),
        (failures.other_gradients,),
    )


def test_four_processes(tmp_path: Path) -> None:
    # Adam would tell apart gradients that are noise, such as that of a bias before batch norm.
    run(
        *(4, tmp_path),
        (training.train, 1, [16], {}),
        (training.update_in_step, training.sgd, 0.1, [16], 1.5),
    )


def test_averaging_begins_before_the_last_gradient_is_computed(tmp_path: Path) -> None:
    run(2, tmp_path, (training.overlap, False), (training.overlap, True))


def test_processes_that_fail(tmp_path: Path) -> None:
    run(
        *(2, tmp_path),
        (failures.fails_before_its_step,),
        (failures.fails_in_the_middle,),
        (failures.cannot_plan,),
    )


@pytest.mark.parametrize(
    "scenario",
    [
        (failures.ends,),
        (failures.ends_while_averaging, False),
        (failures.ends_while_averaging, True),
    ],
)
def test_a_process_that_ends(scenario: Any, tmp_path: Path) -> None:
    run(2, tmp_path, scenario)


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
    with pytest.raises(MagisError, match=r"use step\.join"), model.join():
        step(*batches(0, 1)[0])
    with pytest.raises(MagisError, match="would miss its updates"):
        step.join()
    with pytest.raises(MagisError, match="processes of a DistributedDataParallel"):
        planned(Network()).join()
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
