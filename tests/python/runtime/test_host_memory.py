"""Steps whose tensors leave for the host: its memory, a file in its place, and what is refused."""

from __future__ import annotations

import errno
import gc
import os
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from runtime_support import (
    Line,
    Network,
    assert_same,
    cross_entropy,
    eager,
    plan,
    squares,
    state_of,
    token_batch,
    twin,
)
from swap_support import swapping
from torch import nn

import magis
from magis.errors import HostMemoryError, MagisError
from magis.runtime import host_pool, offload, planner
from magis.runtime.host_pool import HostPool
from magis.runtime.offload import Offload, choose_offload
from magis.runtime.plan_file import read_plan

CPU = torch.device("cpu")


def swapping_step(**options: Any) -> magis.Step:
    with swapping():
        return plan(Network(), cross_entropy, token_batch(), **options)


def test_training_equals_eager_and_the_pool_is_made_once(monkeypatch):
    made = []
    allocate = HostPool._allocate
    monkeypatch.setattr(
        HostPool, "_allocate", lambda pool, size: made.append(size) or allocate(pool, size)
    )
    model = Network()
    other = twin(model)
    batches = [token_batch() for _ in range(3)]
    with swapping():
        step = plan(model, cross_entropy, batches[0])
        assert made == [step.plan.host_bytes]
        states = []
        for net, run in ((model, step), (other, lambda *b: eager(other, cross_entropy, *b))):
            torch.manual_seed(3)
            for batch in batches:  # the second adds into gradients, with a plan of its own
                run(*batch)
            states.append(state_of(net))
    assert_same(*states)
    assert len(made) <= 2
    assert step.report.replayed == "on the batch: bitwise equal to eager"


def test_the_search_swaps_if_it_may():
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.GELU())]
    model = nn.Sequential(*layers)
    batch = (torch.randn(256, 256),)

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x).square().mean()

    def planned(**options: Any) -> magis.Step:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="the limit was not met")
            return plan(model, loss, batch, memory_limit="62%", exact=True, **options)

    assert planned().plan.host_bytes == 0
    step = planned(swap=True)
    assert step.report.host_bytes == step.plan.host_bytes > 0
    assert step.report.replayed == "on the batch: bitwise equal to eager"
    assert 0 < planned(host_memory="600KiB").plan.host_bytes <= 600 * 1024
    assert planned(host_memory="1 MiB", swap=True).plan.host_bytes <= 2**20
    assert planned(swap=False).plan.host_bytes == 0


def test_plans_of_other_shapes_share_the_pool():
    with swapping():
        step = plan(Network(), cross_entropy, token_batch())
        first = step._workshop.host.at_least(1).data_ptr()
        step(*token_batch(2))
        assert step.plan.host_bytes > 0
        assert step._workshop.host.at_least(1).data_ptr() == first


def test_the_report_and_the_file_tell_of_the_host(tmp_path):
    step = swapping_step()
    found = step.plan.simulate("cpu")
    assert step.report.host_bytes == step.plan.host_bytes == found.host_peak_bytes > 0
    assert step.report.bytes_to_host == found.bytes_to_host > 0
    assert step.report.exposed_seconds == pytest.approx(step.report.copy_seconds)
    assert "swapped: " in str(step.report)
    step.save(tmp_path / "plan.json")
    read = read_plan(tmp_path / "plan.json")
    assert read.promise["host_bytes"] == step.plan.host_bytes
    assert read.report == step.report
    assert read.text == step.plan.text()


def test_a_step_that_fails_halfway_leaves_all_as_before_and_runs_again():
    model = Network()
    batch = token_batch()
    with swapping():
        step = plan(model, cross_entropy, batch)
    compiled = step._current.step.base
    last = [name for name in compiled._names if name.startswith("aten_")][-1]
    working = compiled._names[last]

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no")

    before = state_of(model)
    compiled._names[last] = broken
    with pytest.raises(RuntimeError, match="no"):
        step(*batch)
    assert_same(before, state_of(model))
    compiled._names[last] = working
    torch.manual_seed(5)
    step(*batch)
    other = twin(model)
    other.zero_grad()
    for name, buffer in other.named_buffers():
        buffer.copy_(before[f"{name} (buffer)"])
    torch.manual_seed(5)
    eager(other, cross_entropy, *batch)
    assert_same(state_of(model), state_of(other))


def test_a_broken_step_waits_for_its_copies_before_it_lets_go_of_tensors():
    """Copies of a GPU's streams still write to them."""
    model, batch = Network(), token_batch()
    with swapping():
        step = plan(model, cross_entropy, batch)
    compiled = step._current.step.base
    held: list[weakref.ref[torch.Tensor]] = []
    alive: list[bool] = []

    class Stream:
        def synchronize(self) -> None:
            alive.append(held[-1]() is not None)
            raise RuntimeError("the device has failed, too")

    def remembered(operator: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(held) == 9:
                raise ValueError("no")
            result = operator(*args, **kwargs)
            held.append(weakref.ref(result if isinstance(result, torch.Tensor) else result[0]))
            return result

        return call

    for name, value in list(compiled._names.items()):
        if isinstance(value, torch._ops.OpOverload):
            compiled._names[name] = remembered(value)
    compiled._names |= {"to_host": Stream(), "from_host": Stream()}
    with pytest.raises(ValueError, match="no"):
        step(*batch)
    assert alive == [True, True]
    assert held[-1]() is None


# ---- a file in place of memory


def mapped_files(directory: Path) -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if str(directory) in line]


def test_a_step_with_a_file(tmp_path):
    model, other = Network(), Network()
    other.load_state_dict(model.state_dict())
    batch = token_batch()
    with swapping():
        step = plan(model, cross_entropy, batch, offload_to="disk", offload_directory=str(tmp_path))
    states = []
    for net, run in ((model, step), (other, lambda *b: eager(other, cross_entropy, *b))):
        torch.manual_seed(3)
        run(*batch)
        states.append(state_of(net))
    assert_same(*states)
    assert len(mapped_files(tmp_path)) == 1
    left = [path.name for path in tmp_path.iterdir()]
    assert left == ["magis-cache"]  # the file has no name: whatever happens, nothing is left
    del step, run
    gc.collect()
    assert mapped_files(tmp_path) == []


def test_a_file_has_all_its_blocks_before_the_first_step(tmp_path):
    size = 3 * 2**20
    before = os.statvfs(tmp_path)
    pool = HostPool(CPU, tmp_path)
    pool.at_least(size)
    after = os.statvfs(tmp_path)
    # Others write to this disk, too: most of it is what counts.
    assert (before.f_bfree - after.f_bfree) * before.f_frsize > size // 2


# ---- the pool


def test_a_pool_grows_and_forgets():
    pool = HostPool(CPU)
    small = pool.at_least(100)
    assert small.dtype == torch.uint8
    assert pool.at_least(60).data_ptr() == small.data_ptr()
    del small
    large = pool.at_least(10_000)
    assert large.numel() >= 10_000
    assert large.data_ptr() % 4096 == 0
    assert pool.at_least(100).data_ptr() == large.data_ptr()


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_forked_process_has_a_pool_of_its_own(tmp_path, on_disk):
    pool = HostPool(CPU, tmp_path if on_disk else None)
    ours = pool.at_least(64)
    ours.fill_(1)
    child = os.fork()
    if child == 0:
        pool.at_least(64).fill_(2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert ours[:64].eq(1).all()


class Runtime:
    """CUDA's, as far as the pool calls it."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.pinned: dict[int, int] = {}

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:
        if self.status == 0:
            self.pinned[address] = size
        return self.status

    def cudaHostUnregister(self, address: int) -> int:
        del self.pinned[address]
        return 0


def on_a_gpu(monkeypatch: pytest.MonkeyPatch, runtime: Runtime) -> HostPool:
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: None)
    return HostPool(torch.device("cuda"))


def test_on_a_gpu_the_pool_is_pinned_to_the_byte_and_let_go(monkeypatch):
    runtime = Runtime()
    pool = on_a_gpu(monkeypatch, runtime)
    first = pool.at_least(100_000).data_ptr()
    assert runtime.pinned == {first: 100_000}
    second = pool.at_least(200_000).data_ptr()
    assert runtime.pinned == {second: 200_000}
    del pool
    assert runtime.pinned == {}


def test_pinning_refused(monkeypatch):
    pool = on_a_gpu(monkeypatch, Runtime(status=2))
    with pytest.raises(HostMemoryError, match=r"CUDA refuses to pin 1\.00 MiB.*\(error 2\)"):
        pool.at_least(2**20)


# ---- refused before the first step


def test_too_little_memory(monkeypatch):
    monkeypatch.setattr(host_pool, "free_host_bytes", lambda: 100)
    with pytest.raises(
        HostMemoryError,
        match=r"keeps \d.* in the host's memory, where 100 B are free; a smaller host_memory",
    ):
        swapping_step()


def test_a_plan_for_which_there_was_no_room_is_not_searched_for_again(monkeypatch):
    model, larger = Network(), token_batch(12)
    # Undone before swapping() undoes its own.
    with swapping(), monkeypatch.context() as counted:
        step = plan(model, cross_entropy, token_batch())
        searches = []
        search = planner._optimize
        counted.setattr(planner, "_optimize", lambda *words: searches.append(1) or search(*words))
        with monkeypatch.context() as patch:
            patch.setattr(host_pool, "free_host_bytes", lambda: 100)
            for _ in range(3):
                with pytest.raises(HostMemoryError, match=r"where 100 B are free"):
                    step(*larger)
        assert len(searches) == 1
        # There is room again: the plan found then is run now, and kept.
        other = twin(model)
        for net, run in ((model, step), (other, lambda *b: eager(other, cross_entropy, *b))):
            torch.manual_seed(3)
            run(*larger)
            net.final = state_of(net)
        assert_same(model.final, other.final)
        model.zero_grad()
        step(*larger)
        assert len(searches) == 1


def test_the_system_refuses_memory(monkeypatch):
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(host_pool.mmap, "mmap", refuse)
    with pytest.raises(HostMemoryError, match=r"refuses 1\.00 MiB of the host's memory"):
        HostPool(CPU).at_least(2**20)


def test_a_disk_without_room(tmp_path):
    total = os.statvfs(tmp_path)
    size = 4 * total.f_blocks * total.f_frsize + 2**40
    with pytest.raises(HostMemoryError, match="which has no room for it"):
        HostPool(CPU, tmp_path).at_least(size)
    assert list(tmp_path.iterdir()) == []


def test_a_pool_that_could_not_grow_is_made_anew_for_the_next_call(monkeypatch):
    pool = HostPool(CPU)
    pool.at_least(100)
    with monkeypatch.context() as patch:
        patch.setattr(host_pool, "free_host_bytes", lambda: 1000)
        with pytest.raises(HostMemoryError):
            pool.at_least(2000)
        assert pool.at_least(100).numel() >= 100


@pytest.mark.parametrize("kind", ["missing", "a file", "read-only"])
def test_a_directory_that_cannot_be_used_is_refused_before_the_capture(tmp_path, kind):
    directory = tmp_path / "there"
    if kind == "a file":
        directory.write_text("")
    if kind == "read-only":
        if os.geteuid() == 0:
            pytest.skip("nothing is read-only for root")
        directory.mkdir(mode=0o500)

    def never(*args: Any) -> None:
        raise AssertionError("captured")

    with pytest.raises(HostMemoryError, match="no file can be made in the offload directory"):
        magis.optimize(Line(), never, (), offload_to="disk", offload_directory=directory)


# ---- what a user may say

FREE, DISK, PROFILE = 1000, 500, 1 << 36


def chosen(monkeypatch, **words: Any) -> Offload:
    monkeypatch.setattr(offload, "free_host_bytes", lambda: FREE)
    monkeypatch.setattr(offload, "free_disk_bytes", lambda directory: DISK)
    default = {"swap": None, "host_memory": None, "offload_to": "host", "offload_directory": None}
    return choose_offload(**{**default, "profile": "cpu", **words})


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ({}, None),
        ({"swap": False}, 0),
        ({"swap": False, "host_memory": 0}, 0),
        ({"swap": True}, FREE // 2),
        ({"host_memory": "2 KiB"}, 2048),
        ({"host_memory": 0}, 0),
        ({"swap": True, "host_memory": 7}, 7),
        ({"swap": True, "profile": "a100"}, None),
        ({"profile": "a100", "is_cuda": True}, FREE // 2),
        ({"profile": "a100", "is_cuda": True, "swap": False}, 0),
        ({"profile": "a100", "is_cuda": True, "host_memory": "1GB"}, 10**9),
    ],
)
def test_how_much_the_host_may_keep(monkeypatch, words, most):
    assert chosen(monkeypatch, **words) == Offload(most)


def test_how_much_a_disk_may_keep(monkeypatch, tmp_path):
    words = {"offload_to": "disk", "offload_directory": str(tmp_path)}
    assert chosen(monkeypatch, **words) == Offload(DISK // 2, tmp_path)
    assert chosen(monkeypatch, host_memory=3, **words) == Offload(3, tmp_path)
    assert chosen(monkeypatch, profile="a100", is_cuda=True, **words).host_memory == DISK // 2
    monkeypatch.chdir(tmp_path)
    words["offload_directory"] = "."
    assert chosen(monkeypatch, **words).directory == tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"swap": "yes"}, "swap='yes' is not understood; give True, False or None"),
        ({"swap": 1}, "swap=1 is not understood"),
        ({"swap": False, "host_memory": 5}, "swap=False keeps every tensor on the device"),
        ({"swap": True, "host_memory": "0"}, "swap=True needs host memory"),
        ({"host_memory": "40%"}, r"host memory \'40%\' is not understood; give a number of bytes"),
        ({"host_memory": "8 Gib per step"}, "host memory '8 Gib per step' is not understood"),
        ({"host_memory": -1}, "host memory -1 is not understood"),
        ({"host_memory": 1.5}, "host memory 1.5 is not understood"),
        ({"host_memory": True}, "host memory True is not understood"),
        ({"host_memory": 2**63}, "host memory 9223372036854775808 is not understood"),
        ({"host_memory": "9" * 30}, "is not understood"),
        ({"offload_to": "cloud"}, "offload_to='cloud' is not understood; choose one of host, disk"),
        ({"offload_to": "disk"}, 'offload_to="disk" needs an offload directory'),
        ({"offload_directory": "."}, 'an offload directory goes with offload_to="disk"'),
        ({"offload_to": "disk", "offload_directory": 3}, "the offload directory 3 is no path"),
        (
            {"swap": False, "offload_to": "disk", "offload_directory": "."},
            "swap=False keeps every tensor on the device",
        ),
    ],
)
def test_words_that_are_refused(words, said):
    with pytest.raises(MagisError, match=said):
        magis.optimize(Line(), squares, (torch.ones(2),), **words)
