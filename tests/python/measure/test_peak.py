"""Peaks of calls, and kernels' scratch apart, with and without the hook."""

import textwrap

import pytest
import torch
from test_hook import under_hook

from magis import measure


def staircase() -> torch.Tensor:
    """Holds 1000, then 3000, then 2000 bytes, and returns 500 of them."""
    a = torch.empty(1000, dtype=torch.int8)
    b = torch.empty(2000, dtype=torch.int8)
    del a
    c = torch.empty(500, dtype=torch.int8)
    del b
    return c


STAIRCASE = textwrap.dedent("""
    def staircase():
        a = torch.empty(1000, dtype=torch.int8)
        b = torch.empty(2000, dtype=torch.int8)
        del a
        c = torch.empty(500, dtype=torch.int8)
        del b
        return c
""")


def test_the_hook_measures_peak_and_what_is_held():
    out = under_hook(
        STAIRCASE
        + textwrap.dedent("""
        m = measure.measure_peak(staircase)
        print(m.method, m.peak_bytes, m.held_bytes, m.result.shape[0])
    """)
    )
    assert out == "hook 3000 500 500"


def test_the_profiler_stands_in_for_the_hook():
    if measure.available():
        pytest.skip("this process runs under the hook")
    m = measure.measure_peak(staircase)
    assert (m.method, m.peak_bytes, m.held_bytes, m.result.shape[0]) == ("profiler", 3000, 500, 500)


def test_both_agree_on_a_training_step():
    out = under_hook("""
        from magis.measure import peak
        nn = torch.nn
        model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
        x, labels = torch.randn(32, 64), torch.zeros(32, dtype=torch.int64)
        def step():
            nn.functional.cross_entropy(model(x), labels).backward()
        step()
        model.zero_grad()
        exact = measure.measure_peak(step)
        model.zero_grad()
        profiled = peak._measure_profiler(step)
        print(exact.peak_bytes == profiled.peak_bytes, exact.held_bytes == profiled.held_bytes,
              exact.held_bytes == sum(p.nbytes for p in model.parameters()))
    """)
    assert out == "True True True"


def test_scratch_is_what_is_gone_when_the_kernel_returns():
    # conv: 1 x 4 x 8 x 8 floats out = 1024 bytes; its scratch is whatever oneDNN's plan needs, more
    # than nothing. add: 1024 bytes out and no scratch, while the first 1024 are still there.
    out = under_hook("""
        x, w = torch.randn(1, 2, 8, 8), torch.randn(4, 2, 3, 3)
        def call():
            y = torch.ops.aten.convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
            return torch.ops.aten.add.Tensor(y, y)
        call()
        m = measure.measure_kernels(call)
        conv, add = m.kernels
        print(conv.name, conv.result_bytes, conv.scratch_bytes > 0)
        print(add.name, add.result_bytes, add.scratch_bytes)
        print(m.tensor_peak_bytes, m.peak_bytes == max(1024 + conv.scratch_bytes, 2048))
        print(measure.measure_peak(call).peak_bytes == m.peak_bytes)
    """)
    assert out.splitlines() == [
        "aten.convolution 1024 True",
        "aten.add.Tensor 1024 0",
        "2048 True",
        "True",
    ]


def test_in_place_and_view_operators_leave_nothing():
    out = under_hook("""
        x = torch.ones(16, 16)
        m = measure.measure_kernels(lambda: x.add_(x).view(256).relu_())
        print([(k.name, k.result_bytes, k.scratch_bytes) for k in m.kernels], m.peak_bytes)
    """)
    assert out == "[('aten.add_.Tensor', 0, 0), ('aten.view', 0, 0), ('aten.relu_', 0, 0)] 0"


def test_kernels_need_the_hook():
    if measure.available():
        pytest.skip("this process runs under the hook")
    with pytest.raises(measure.HookError):
        measure.measure_kernels(staircase)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_rounds_to_512():
    m = measure.measure_peak(
        lambda: torch.empty(1000, dtype=torch.int8, device="cuda"), device="cuda"
    )
    assert (m.method, m.peak_bytes, m.held_bytes) == ("cuda", 1024, 1024)


def test_a_log_watches_the_operators_that_it_is_given():
    out = under_hook("""
        log = measure.KernelLog()
        neg, x = log.watch(torch.ops.aten.neg.default), torch.ones(100)
        m = measure.measure_kernels(lambda: neg(neg(x)).abs(), log)
        print([(k.name, k.result_bytes) for k in m.kernels], m.tensor_peak_bytes, m.held_bytes)
    """)
    assert out == "[('aten.neg', 400), ('aten.neg', 400)] 800 400"
