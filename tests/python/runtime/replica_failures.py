"""Several processes of which one fails: what one of them does in test_replicas."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import torch
from replica_support import Network, batches, loss_fn, raises
from torch.nn.parallel import DistributedDataParallel

import magis
from magis.errors import GuardError, MagisError, ReplicaError, TornStep
from magis.runtime import averaging, planner


def planned(model: DistributedDataParallel, batch: Any, **options: Any) -> magis.Step:
    limit = {"latency_limit": 1.5, "time_budget": 0.1}
    return magis.optimize(model, loss_fn, batch, **limit, **options)


def ends(rank: int) -> None:
    """A process that is gone is an error in the others, not a wait without end."""
    model = DistributedDataParallel(Network())
    data = batches(rank, 2)
    step = planned(model, data[0])
    step(*data[0])
    if rank == 1:
        sys.stdout.flush()
        os._exit(0)
    with raises(ReplicaError, "2 processes failed at broadcasting buffers"):
        step(*data[1])
    os._exit(0)  # the group cannot be left in an orderly way any more


def ends_while_averaging(rank: int, in_step: bool) -> None:
    """So is one that goes in the middle of a step."""
    model = DistributedDataParallel(Network())
    optimizer = torch.optim.SGD(model.parameters(), 0.1) if in_step else None
    batch = batches(rank, 1)[0]
    step = planned(model, batch, optimizer=optimizer)
    if rank == 1:
        averaging.Averaging._send = lambda *_: os._exit(0)  # type: ignore[method-assign]
    begun = time.monotonic()
    with raises(ReplicaError, "2 processes failed at averaging gradients"):
        step(*batch)
    assert time.monotonic() - begun < 30  # the group's patience is twice as long
    os._exit(0)


def fails_before_its_step(rank: int) -> None:
    """All hear of a call that is refused, and go on with the next one."""
    model = DistributedDataParallel(Network())
    data = batches(rank, 2)
    step = planned(model, data[0], on_new_shape="error")
    short = [tensor[:8] for tensor in data[0]]
    if rank == 1:
        with raises(GuardError, "shape"):
            step(*short)
        with raises(GuardError, "structure"):
            step(*data[0], 1.0)
    else:
        for why in ("GuardError", "GuardError: the batch's structure"):
            with raises(
                ReplicaError, f"process 1 failed in this step; its gradients are of no use: {why}"
            ):
                step(*data[0])
    model.zero_grad()
    step(*data[1])


def fails_in_the_middle(rank: int) -> None:
    """Others whose optimizer is in the step have made their updates by the time they hear of it."""
    model = DistributedDataParallel(Network())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch = batches(rank, 1)[0]
    step = planned(model, batch, optimizer=optimizer)
    send = averaging.Averaging._send
    sent: list[int] = []

    def fails(self: averaging.Averaging, gradient: torch.Tensor) -> None:
        sent.append(1)
        if len(sent) == 3:
            raise ValueError("out of something")
        send(self, gradient)

    if rank == 1:
        averaging.Averaging._send = fails  # type: ignore[method-assign]
        with raises(ValueError, "out of something"):
            step(*batch)
        averaging.Averaging._send = send  # type: ignore[method-assign]
    else:
        try:
            step(*batch)
        except TornStep as error:
            assert "process 1 failed in this step" in str(error)  # noqa: PT017
            assert "go back to a checkpoint" in str(error)  # noqa: PT017
            assert len(error.touched) == len(list(model.parameters()))  # noqa: PT017
        else:
            raise AssertionError("no error")


def cannot_plan(rank: int) -> None:
    """One process's error while planning is everybody's, wherever it comes."""
    model = DistributedDataParallel(Network())
    batch = batches(rank, 1)[0]

    def fails(*_: object) -> None:
        raise MagisError("no time")

    search = planner._optimize
    planner._optimize = fails if rank == 0 else None  # type: ignore[assignment]
    words = "process 0 failed at planning the step: MagisError: no time"
    with raises(MagisError, "no time" if rank == 0 else words):
        planned(model, batch)
    planner._optimize = search
    # One that cannot even capture, and one that is not content with the plan.
    with raises(MagisError, "sparse" if rank == 1 else "process 1 failed at planning the step"):
        planned(model, [*batch, torch.sparse_coo_tensor(size=(1,))] if rank == 1 else batch)
    verify = planner._verify
    if rank == 1:
        planner._verify = fails  # type: ignore[assignment]
    with raises(MagisError, "no time" if rank == 1 else "process 1 failed at planning the step"):
        planned(model, batch)
    planner._verify = verify
    # Arguments that are no good in one of them.
    for wrong, words in (
        ({"offload_directory": "/nowhere", "offload_to": "disk"}, "/nowhere"),
        ({"plan_cache": 0}, "plan_cache=0"),
        ({"device": "no such profile"}, "no such profile"),
    ):
        begun = time.monotonic()
        with raises(MagisError, words if rank == 1 else "process 1 failed at planning the step"):
            planned(model, batch, **(wrong if rank == 1 else {}))
        assert time.monotonic() - begun < 30  # the group's patience is twice as long
    planned(model, batch)


def other_gradients(rank: int) -> None:
    """With the optimizer in the step all need the same gradients."""
    model = DistributedDataParallel(Network(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def loss(model: torch.nn.Module, x: torch.Tensor, which: int) -> torch.Tensor:
        layers = model.layers  # type: ignore[attr-defined]
        found: torch.Tensor = layers[0](x).sum() if which else layers(x).sum()
        return found

    x = batches(rank, 1)[0][0]
    with raises(MagisError, "all processes must have the same gradients"):
        magis.optimize(
            *(model, loss, (x, rank)), optimizer=optimizer, latency_limit=1.5, time_budget=0.1
        )
