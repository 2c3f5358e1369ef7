"""Tensors that leave a GPU for the host: bits, bytes, races and overlap, where there is a GPU."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from runtime_support import (
    Network,
    assert_same,
    cross_entropy,
    eager,
    plan,
    state_of,
    token_batch,
    twin,
)
from swap_support import swapping

from magis import _core
from magis.runtime.compiled import CompiledPlan
from magis.runtime.host_pool import HostPool

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

# What computes takes much longer than what copies, %a is absent meanwhile.
OVERLAPPING = """magis 1
device cuda
batch %x "x" : f32[4096,4096]
%a = aten.sin(%x) : f32[4096,4096]
%b = aten.mm(%x, %x) : f32[4096,4096]
%c = aten.mm(%b, %x) : f32[4096,4096]
%d = aten.mm(%c, %x) : f32[4096,4096]
%e = aten.mm(%d, %x) : f32[4096,4096]
%f = aten.mm(%e, %x) : f32[4096,4096]
%g = aten.mm(%f, %x) : f32[4096,4096]
%y = aten.mul.Tensor(%g, %a) : f32[4096,4096]
output loss "" %y
program
run %a
store %a
run %b
run %c
free %b
run %d
free %c
await %a
free %a
load %a as .1
run %e
free %d
run %f
free %e
run %g
free %f
await %a.1
run %y reading %a.1 over %g
free %a.1
"""


def cuda_batch(size: int = 64) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.cuda() for tensor in token_batch(size))


@pytest.mark.parametrize("on_disk", [False, True])
def test_training_equals_eager(tmp_path, on_disk):
    model = Network().cuda()
    other = twin(model)
    batches = [cuda_batch() for _ in range(3)]
    where = {"offload_to": "disk", "offload_directory": tmp_path} if on_disk else {}
    with swapping():
        step = plan(model, cross_entropy, batches[0], **where)
        states = []
        for net, run in ((model, step), (other, lambda *b: eager(other, cross_entropy, *b))):
            torch.cuda.manual_seed(3)
            for batch in batches:
                run(*batch)
            states.append({**state_of(net), "cuda": torch.cuda.get_rng_state()})
    assert_same(*states)


def test_the_pool_is_pinned_to_the_byte_and_let_go():
    pool = HostPool(torch.device("cuda"))
    assert pool.at_least(100_000).is_pinned()
    assert pool.at_least(100_000).numel() == 100_000
    assert pool.at_least(200_000).is_pinned()
    del pool


def test_the_promise_is_what_the_allocator_hands_out():
    model, batch = Network().cuda(), cuda_batch()
    with swapping():
        step = plan(model, cross_entropy, batch)
    step(*batch)
    model.zero_grad()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(*batch)
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() - before == step.report.transient_peak_bytes


def poisoned_memory() -> None:
    """What PyTorch holds in reserve on the device is full of nans."""
    junk = [torch.full((1 << size,), float("nan"), device="cuda") for size in range(4, 20)]
    del junk


def delayed(compiled: CompiledPlan, seed: int) -> dict[str, Any]:
    """The plan's names, in which before some operators some stream sleeps for a while."""
    chance = random.Random(seed)
    names = dict(compiled._names)
    streams = [names["to_host"], names["from_host"]]

    def watched(operator: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if chance.random() < 0.5:
                with torch.cuda.stream(chance.choice([torch.cuda.current_stream(), *streams])):
                    torch.cuda._sleep(chance.randrange(2_000_000))
            return operator(*args, **kwargs)

        return call

    for name, value in names.items():
        if isinstance(value, torch._ops.OpOverload):
            compiled._names[name] = watched(value)
    return names


@pytest.mark.parametrize("seed", range(8))
def test_no_race_whatever_stream_is_late(seed):
    model, batch = Network().cuda(), cuda_batch(512)
    other = twin(model)
    with swapping(seed, share=0.8):
        step = plan(model, cross_entropy, batch, seed=seed)
    compiled = step._current.step.base
    usual = delayed(compiled, seed)
    states = []
    for net, run in ((model, step), (other, lambda *b: eager(other, cross_entropy, *b))):
        torch.cuda.manual_seed(seed)
        for _ in range(2):
            torch.cuda.synchronize()
            step._workshop.host.at_least(compiled.host_bytes).fill_(0xFF)
            poisoned_memory()
            net.zero_grad()
            run(*batch)
        states.append(state_of(net))
    compiled._names.update(usual)
    assert_same(*states)


def test_copies_run_while_the_step_computes(tmp_path):
    compiled = CompiledPlan(_core.Plan.parse(OVERLAPPING), torch.device("cuda"))
    x = torch.randn(4096, 4096, device="cuda") / 64
    with torch.no_grad():
        compiled([x])
        torch.cuda.synchronize()
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            compiled([x])
            torch.cuda.synchronize()
    trace = tmp_path / "trace.json"
    profile.export_chrome_trace(str(trace))
    kernels, copies = intervals(trace, "kernel"), intervals(trace, "gpu_memcpy")
    assert len(copies) == 2
    for begin, end in copies:
        beside = sum(max(0.0, min(end, e) - max(begin, b)) for b, e in kernels)
        assert beside > 0.5 * (end - begin)


def intervals(trace: Path, category: str) -> list[tuple[float, float]]:
    """Begin and end of the device's events of that kind, in microseconds."""
    events = json.loads(trace.read_text())["traceEvents"]
    found = [event for event in events if event.get("cat") == category]
    return [(event["ts"], event["ts"] + event["dur"]) for event in found]
