"""The same on a GPU, where there is one: streams, generators and the caching allocator differ."""

from __future__ import annotations

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

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


def cuda_batch():
    return tuple(tensor.cuda() for tensor in token_batch(64))


def test_training_equals_eager_with_the_generator_of_the_device():
    model = Network().cuda()
    other = twin(model)
    batches = [cuda_batch() for _ in range(3)]
    step = plan(model, cross_entropy, batches[0])
    assert step.report.replayed == "on the batch: bitwise equal to eager"
    states = []
    for net, run in ((model, step), (other, lambda *b: eager(other, cross_entropy, *b))):
        torch.cuda.manual_seed(3)
        for batch in batches:
            run(*batch)
        states.append({**state_of(net), "cuda": torch.cuda.get_rng_state()})
    assert_same(*states)


def test_the_promise_is_what_the_allocator_hands_out():
    model, batch = Network().cuda(), cuda_batch()
    step = plan(model, cross_entropy, batch)
    step(*batch)
    model.zero_grad()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(*batch)
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() - before == step.report.transient_peak_bytes
