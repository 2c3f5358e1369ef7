"""The private PyTorch interfaces that the runtime relies on do what they are used for."""

from __future__ import annotations

import torch

from magis import _torch_internals as internals


def test_clearing_the_hooks_dictionary_silences_the_hooks_and_filling_it_wakes_them():
    seen = []
    tensor = torch.ones(2, requires_grad=True)
    assert internals.tensor_hooks(tensor) == internals.post_accumulate_hooks(tensor) == {}
    tensor.register_hook(lambda grad: seen.append("hook"))
    tensor.register_post_accumulate_grad_hook(lambda t: seen.append("post"))
    tables = [internals.tensor_hooks(tensor), internals.post_accumulate_hooks(tensor)]
    kept = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    tensor.sum().backward()
    assert seen == []
    for table, hooks in zip(tables, kept, strict=True):
        table.update(hooks)
    tensor.sum().backward()
    assert seen == ["hook", "post"]


def test_versions_count_writes_in_place():
    tensor = torch.ones(2)
    before = internals.version(tensor)
    tensor + 1
    assert internals.version(tensor) == before
    torch.ops.aten.add_.Tensor(tensor, tensor)
    assert internals.version(tensor) == before + 1


def test_the_recorder_sees_each_allocation_and_release_in_order_between_marks():
    with internals.AllocationRecorder() as recorder:
        with torch.profiler.record_function("mark"):
            a = torch.empty(100)
        b = torch.empty(1000, dtype=torch.uint8)
        del a, b
    assert list(recorder.changes()) == [400, 1000, -400, -1000]
    events = [(kind, name) for kind, name, _ in recorder.events if name == "mark" or not name]
    assert events[0] == ("push", "mark")
    first = [kind for kind, _, size in recorder.events if kind == "memory_alloc" or size]
    assert first == ["memory_alloc"] * 4


def test_allocations_are_recorded_beside_a_profiler():
    def allocate():
        assert not torch.is_grad_enabled()
        return torch.empty(100), torch.get_num_threads()

    assert not internals.profiled()
    (plain, threads), recorder = internals.recorded(allocate)
    assert list(recorder.changes()) == [400]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert internals.profiled()
        (kept, others), recorder = internals.recorded(allocate)
        assert internals.profiled()
    assert list(recorder.changes()) == [400]
    assert plain.shape == kept.shape
    assert others == threads == torch.get_num_threads()


def test_the_recorder_sees_what_backward_allocates():
    x = torch.ones(1000, requires_grad=True)
    with internals.AllocationRecorder() as recorder:
        (x * x).sum().backward()
    assert max(recorder.changes()) == 4000
    assert sum(recorder.changes()) == 4000  # the gradient
