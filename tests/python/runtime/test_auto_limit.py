"""memory_limit="auto": what the device has free, and what of it a plan may take."""

from __future__ import annotations

import pytest
import torch
from runtime_support import Line, Network, cross_entropy, plan, squares, token_batch

from magis import _core
from magis.errors import LimitError
from magis.limits import MemoryLimit, parse_limit
from magis.runtime import auto_limit
from magis.runtime.auto_limit import room_now, room_of_profile

MIB = 2**20
GIB = 2**30


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch):
    """Sets what is free on every device."""

    def set_free(count: int) -> None:
        monkeypatch.setattr(auto_limit, "free_bytes", lambda _: count)
        monkeypatch.setattr(auto_limit, "free_host_bytes", lambda: count)

    return set_free


@pytest.mark.parametrize("word", ["auto", " Auto ", "AUTO"])
def test_the_word_and_what_it_reads_as(word):
    limit = parse_limit(memory_limit=word)
    assert isinstance(limit, MemoryLimit)
    assert limit.auto
    assert str(limit) == "memory at most what the device has free"
    known = limit.known(5000)
    assert known.resolve(baseline_peak_bytes=7) == 5000
    assert str(known) == "memory at most what the device has free, 5,000 bytes"


def test_a_tenth_of_what_a_cpu_has_free_stays_free(free):
    free(1_000_000)
    assert room_now(torch.device("cpu"), "cpu") == 900_000
    # The host's memory is the same memory.
    assert room_now(torch.device("cpu"), "cpu", host_memory=300_000) == 600_000


def test_a_twentieth_of_what_cuda_has_free_stays_free_but_256_mib_at_least(monkeypatch):
    def cuda_has(free: int, reserved: int, allocated: int) -> int:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 80 * GIB))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: reserved)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: allocated)
        return room_now(torch.device("cuda", 0), "a100")

    # What PyTorch's pool holds and does not use is free, too.
    assert cuda_has(18 * GIB, 5 * GIB, 3 * GIB) == 19 * GIB
    assert cuda_has(1 * GIB, 0, 0) == GIB - 256 * MIB


def test_a_device_that_is_not_here_has_the_memory_of_its_profile():
    assert room_of_profile("a100") == 76 * GIB
    assert room_of_profile("rtx3090") == int(24 * GIB - 0.05 * 24 * GIB) + 1
    assert room_now(torch.device("meta"), "h200") == 133 * GIB
    for profile in ("reference", "reference-h2", "cpu"):
        with pytest.raises(LimitError, match=r"no particular device.*rtx3090, a100, h100, h200"):
            room_of_profile(profile)


def test_what_is_free_on_other_devices_is_not_known():
    with pytest.raises(LimitError, match="a device of type 'mps' has free is not known"):
        room_now(torch.device("mps"), "reference")


def test_the_limit_is_what_is_free_and_what_is_there_already(free):
    model, x = Line(), torch.ones(2)
    free(1_000_000)
    step = plan(model, squares, (x,), memory_limit="auto")
    # Two parameters and the batch of 8 bytes each.
    assert step.report.limit == "memory at most what the device has free, 900,024 bytes"
    assert step.report.met
    assert float(step(x)) == 25.0


def test_a_plan_that_adds_into_gradients_counts_them_as_there(free):
    model, x = Line(), torch.ones(2)
    free(1_000_000)
    step = plan(model, squares, (x,), memory_limit="auto")
    step(x)
    free(500_000)
    step(x)
    # Parameters, batch, two gradients: 40 bytes; what is free is looked up again.
    assert step.report.limit == "memory at most what the device has free, 450,040 bytes"
    assert model.w.grad is not None
    assert model.w.grad.tolist() == [12.0, 16.0]


def test_a_new_shape_gets_what_is_free_then(free):
    model = Network()
    free(1_000_000)
    step = plan(model, cross_entropy, token_batch(6), memory_limit="auto", verify="off")
    before = step.report.limit
    free(2_000_000)
    step(*token_batch(4))
    assert step.report.limit != before
    assert "has free, 1,80" in step.report.limit


def test_a_tight_device_is_planned_for(free):
    model, batch = Network(), token_batch(64)
    wide = plan(model, cross_entropy, batch, memory_limit="auto").report
    kept = wide.persistent_bytes
    needed = wide.captured_peak_bytes - kept
    free(int(0.98 * needed / 0.9))
    tight = plan(model, cross_entropy, batch, memory_limit="auto", time_budget=1.0).report
    assert tight.met
    assert tight.promised_peak_bytes < wide.promised_peak_bytes
    assert tight.promised_peak_bytes <= kept + int(0.98 * needed) + 1


def test_too_little_quotes_the_lower_bound(free):
    free(100)
    with pytest.raises(LimitError, match=r"has free, .* lies below the certified lower bound"):
        plan(Network(), cross_entropy, token_batch(64), memory_limit="auto")


def test_nothing_free_at_all(free):
    free(0)
    with pytest.raises(LimitError, match=r"nothing is free on the device.*limit in bytes"):
        plan(torch.nn.Tanh(), None, (torch.ones(0),), memory_limit="auto")


def test_weights_on_meta_are_planned_for_the_whole_device():
    with torch.device("meta"):
        model, x = Line(), torch.ones(2)
    report = plan(model, squares, (x,), memory_limit="auto", device="h100").report
    assert report.limit == f"memory at most what the device has free, {76 * GIB:,} bytes"
    with pytest.raises(LimitError, match="'reference' is no particular device"):
        plan(model, squares, (x,), memory_limit="auto")


def test_what_is_free_here_and_now_is_known():
    limit = plan(Line(), squares, (torch.ones(2),), memory_limit="auto").report
    assert limit.met
    assert _core.device_memory("cpu") == 0
    assert room_now(torch.device("cpu"), "cpu") > 0
