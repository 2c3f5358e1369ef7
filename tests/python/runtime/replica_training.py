"""Several processes that train well: what one of them does in test_replicas."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from replica_support import Network, batches, loss_fn, raises
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import magis
from magis._torch_internals import TorchDispatchMode
from magis.errors import MagisError, TornStep
from magis.measure import measure_peak
from magis.runtime.replicas import Replicas

Optimizer = Callable[[Any], torch.optim.Optimizer]


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def trained(model: nn.Module, data: Any, step: Any, accumulate: int) -> dict[str, torch.Tensor]:
    """The wrapper's state after training by `step`, or by eager without one."""
    optimizer = sgd(model.parameters())
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


def train(rank: int, accumulate: int, lengths: list[int], options: dict[str, bool]) -> None:
    """Planned and eager training agree, and so do the processes' plans where they can."""
    count = dist.get_world_size()
    torch.manual_seed(rank)  # DistributedDataParallel makes them equal
    plain = Network()
    ours = DistributedDataParallel(copy.deepcopy(plain), **options)
    theirs = DistributedDataParallel(plain, **options)
    data = batches(rank, 4, lengths[rank % len(lengths)])
    step = magis.optimize(ours, loss_fn, data[0], latency_limit=1.5, time_budget=0.2)
    found = trained(ours, data, step, accumulate)
    expected = trained(theirs, data, None, accumulate)
    # Plans that add into gradients are other plans.
    bitwise = count == 2 and accumulate == 1 and not step.plan.graph.altered
    check_equal(found, expected, bitwise)
    ours.zero_grad()
    check_promise(step, data[0])
    texts: list[Any] = [None] * count
    dist.all_gather_object(texts, step.plan.text())
    assert (len(set(texts)) == 1) == (len(set(lengths)) == 1)
    kept = Path(os.environ["MAGIS_CACHE_DIR"]) / "plans"
    searched = kept.exists() and any(kept.glob("*.json"))
    # The others were given the plan; adding into gradients is planned by each.
    assert searched == (rank == 0 or len(set(lengths)) > 1 or accumulate > 1)


def check_equal(
    found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], bitwise: bool
) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if bitwise:
            assert torch.equal(found[name], value), name
        else:
            torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6, msg=name)


def check_promise(step: magis.Step, batch: Any) -> None:
    measured = measure_peak(lambda: step(*batch))
    over = measured.peak_bytes - step.report.transient_peak_bytes
    assert over <= 0, f"{over} bytes more than promised"


def update_in_step(
    rank: int, make: Optimizer, clip: float | None, lengths: list[int], limit: float
) -> None:
    """Updates from averages, each gradient gone once it is used."""
    torch.manual_seed(rank)
    plain = Network()
    ours = DistributedDataParallel(copy.deepcopy(plain))
    theirs = DistributedDataParallel(plain)
    data = batches(rank, 4, lengths[rank % len(lengths)])
    mine, other = make(ours.parameters()), make(theirs.parameters())
    step = magis.optimize(
        *(ours, loss_fn, data[0]),
        optimizer=mine,
        clip_grad_norm=clip,
        latency_limit=limit,
        time_budget=0.2,
    )
    for x, y in data:
        step(x, y)
        assert all(parameter.grad is None for parameter in ours.parameters())
        loss_fn(theirs, x, y).backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip)
        other.step()
        other.zero_grad()
    bitwise = dist.get_world_size() == 2 and not step.plan.graph.altered
    assert bitwise or limit > 1 or dist.get_world_size() > 2
    check_equal(ours.state_dict(), theirs.state_dict(), bitwise)
    check_promise(step, data[0])


def branches(model: nn.Module, x: torch.Tensor, which: int) -> torch.Tensor:
    found: torch.Tensor = model(x, which).square().sum()
    return found


def update_eagerly(rank: int) -> None:
    """A call without a plan makes the updates that the others make, or none."""
    torch.manual_seed(0)
    plain = Branches()
    ours = DistributedDataParallel(copy.deepcopy(plain), find_unused_parameters=True)
    theirs = DistributedDataParallel(plain, find_unused_parameters=True)
    mine, other = sgd(ours.parameters()), sgd(theirs.parameters())
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(rank))
    step = magis.optimize(
        *(ours, branches, (x, 0)),
        optimizer=mine,
        on_new_shape="eager",
        memory_limit=1.0,
        time_budget=0.1,
    )
    for _ in range(2):
        short = x[: 16 - 4 * rank]  # no batch of the second process's plan
        step(short, 0)
        branches(theirs, short, 0).backward()
        other.step()
        other.zero_grad()
    assert step.eager_calls == 2 * rank
    check_equal(ours.state_dict(), theirs.state_dict(), bitwise=True)
    before = copy.deepcopy(ours.state_dict())
    if rank == 0:
        with raises(TornStep, "process 1 failed in this step"):
            step(x, 0)
    else:
        with raises(MagisError, "second.weight has a gradient"):
            step(x, 1)
        check_equal(ours.state_dict(), before, bitwise=True)
        ours.zero_grad()


def uneven(rank: int) -> None:
    """A process that has no more batches takes part in the others' steps."""
    torch.manual_seed(rank)
    plain = Network()
    ours, theirs = (DistributedDataParallel(m) for m in (copy.deepcopy(plain), plain))
    data = batches(rank, 4)
    step = magis.optimize(ours, loss_fn, data[0], memory_limit=1.0, exact=True, time_budget=0.1)
    for model, run in ((ours, step), (theirs, lambda x, y: loss_fn(theirs, x, y).backward())):
        optimizer = sgd(model.parameters())
        with step.join() if model is ours else model.join():
            for x, y in data[: 2 if rank == 0 else 4]:
                run(x, y)
                optimizer.step()
                optimizer.zero_grad()
    check_equal(ours.state_dict(), theirs.state_dict(), bitwise=True)
    step(*data[0])  # nobody waits for anything more than before


class Events(TorchDispatchMode):
    """What a step computes and sends, in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(func)
        if "allreduce" in name:
            name = "send" if args[0][0].is_floating_point() else "end"
        self.seen.append("send" if "begin_average" in name else name)
        return func(*args, **kwargs or {})


def overlap(rank: int, in_step: bool) -> None:
    """The first gradient is on its way before the last one is computed, and is waited for last."""
    model = DistributedDataParallel(Network())
    batch = batches(rank, 1)[0]
    optimizer = sgd(model.parameters()) if in_step else None
    step = magis.optimize(
        model, loss_fn, batch, optimizer=optimizer, memory_limit=1.0, exact=True, time_budget=0.2
    )
    assert not step.plan.graph.loop_count
    with Events() as events:
        step(*batch)
    sent = [i for i, name in enumerate(events.seen) if name == "send"]
    products = [i for i, name in enumerate(events.seen) if name.startswith("aten.mm")]
    assert len(sent) == len(list(model.parameters()))
    assert sent[0] < products[-1]
    between = sum(sent[0] < product for product in products)
    assert between >= 2, events.seen  # the gradients of two more layers
    if in_step:
        update = next(i for i, n in enumerate(events.seen) if n.startswith("aten.add_.Tensor"))
        assert sent[0] < update


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(8, 4) for _ in range(3))

    def forward(self, x: torch.Tensor, which: int) -> torch.Tensor:
        found: torch.Tensor = (self.first, self.second)[which](x)
        return found


def branch(rank: int) -> None:
    """Parameters that one process alone uses, or none, as planned together and otherwise."""
    torch.manual_seed(0)
    plain = Branches()
    ours = DistributedDataParallel(copy.deepcopy(plain), find_unused_parameters=True)
    theirs = DistributedDataParallel(plain, find_unused_parameters=True)
    x = torch.randn(16, 8)
    step = magis.optimize(
        *(ours, lambda m, x, which: m(x, which).sum(), (x, 0)), latency_limit=1.5, time_budget=0.1
    )
    for which in (rank, 0, 1 - rank, 1):
        step(x, which)
        theirs(x, which).sum().backward()
        for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None), (which, name)
            if b.grad is not None:
                assert torch.equal(a.grad, b.grad), (which, name)
        ours.zero_grad()
        theirs.zero_grad()


def frozen_for_a_while(rank: int) -> None:
    """Layers that are frozen after planning, in one process or in all, and thawed again."""
    torch.manual_seed(0)
    plain = Network()
    ours = DistributedDataParallel(copy.deepcopy(plain), find_unused_parameters=True)
    theirs = DistributedDataParallel(plain, find_unused_parameters=True)
    data = batches(rank, 1)[0]
    step = magis.optimize(ours, loss_fn, data, exact=True, memory_limit=1.0, time_budget=0.1)
    for frozen in ([], [0, 1], [1], []):
        for model in (ours, theirs):
            model.module.layers[3].requires_grad_(rank not in frozen)
            model.zero_grad()
        step(*data)
        loss_fn(theirs, *data).backward()
        for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None), (frozen, name)
            if b.grad is not None:
                assert torch.equal(a.grad, b.grad), (frozen, name)


def hooks(rank: int) -> None:
    """Hooks see gradients of this process, as under DistributedDataParallel."""
    torch.manual_seed(0)
    plain = Network()
    ours, theirs = (DistributedDataParallel(m) for m in (copy.deepcopy(plain), plain))
    data = batches(rank, 1)[0]
    seen: dict[str, list[torch.Tensor]] = {"ours": [], "theirs": []}
    step = magis.optimize(ours, loss_fn, data, exact=True, memory_limit=1.0, time_budget=0.1)
    for name, model in (("ours", ours), ("theirs", theirs)):
        first, _, _, second, _ = model.module.layers
        first.weight.register_hook(lambda gradient: gradient * 3)
        second.weight.register_post_accumulate_grad_hook(
            lambda p, name=name: seen[name].append(p.grad.clone())
        )
    step(*data)
    loss_fn(theirs, *data).backward()
    assert torch.equal(seen["ours"][0], seen["theirs"][0])
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)


def planners(rank: int) -> None:
    """The slowest plans for all, of those with the least memory; nobody, if they differ."""
    replicas = Replicas(DistributedDataParallel(Network()), averages=True)
    assert replicas.planner("same", None, [1.0, 2.0][rank]) == 1
    assert replicas.planner("same", 1000, [2.0, 2.0][rank]) == 0
    assert replicas.planner("same", [1000, 900][rank], [2.0, 1.0][rank]) == 1
    assert replicas.planner(["this", "that"][rank], None, 1.0) is None


def without_gradients(rank: int) -> None:
    """A forward pass alone, and modules that several all-reduces would not fit."""
    model = DistributedDataParallel(Network())
    x = batches(rank, 1)[0][0]
    step = magis.optimize(model, None, (x,), latency_limit=1.5, time_budget=0.1)
    step(x)
