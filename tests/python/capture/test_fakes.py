"""Fakes have the dtypes, shapes and strides that the CPU's kernels give."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from magis.capture.fakes import TrueFakeTensorMode

aten = torch.ops.aten
HALF = [torch.bfloat16, torch.float16]


def describe(results: Any) -> list[Any]:
    return [None if r is None else (r.dtype, tuple(r.shape), r.stride()) for r in results]


def assert_faked(operator: Any, *args: Any) -> Any:
    real = operator(*args)
    mode = TrueFakeTensorMode()
    with mode:
        fake = operator(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
    assert describe(fake) == describe(real)
    assert all(isinstance(f, torch._subclasses.FakeTensor) for f in fake if f is not None)
    return real


@pytest.mark.parametrize("dtype", [*HALF, torch.float32])
@pytest.mark.parametrize("mixed", [True, False])
class TestNormalisation:
    """Weights in float32 and input in half precision, as under autocast, or all alike."""

    def test_layer_norm(self, dtype: torch.dtype, mixed: bool) -> None:
        x = torch.randn(4, 6, 8).to(dtype)
        w = torch.randn(8).to(torch.float32 if mixed else dtype)
        _, mean, rstd = assert_faked(aten.native_layer_norm.default, x, [8], w, w, 1e-5)
        backward = aten.native_layer_norm_backward.default
        assert_faked(backward, x, x, [8], mean, rstd, w, w, [True] * 3)
        assert_faked(aten.native_layer_norm.default, x, [8], None, None, 1e-5)

    def test_group_norm(self, dtype: torch.dtype, mixed: bool) -> None:
        x = torch.randn(4, 8, 5).to(dtype)
        w = torch.randn(8).to(torch.float32 if mixed else dtype)
        _, mean, rstd = assert_faked(aten.native_group_norm.default, x, w, w, 4, 8, 5, 2, 1e-5)
        backward = aten.native_group_norm_backward.default
        assert_faked(backward, x, x, mean, rstd, w, 4, 8, 5, 2, [True] * 3)

    def test_batch_norm(self, dtype: torch.dtype, mixed: bool) -> None:
        x = torch.randn(4, 8, 5).to(dtype)
        w = torch.randn(8).to(torch.float32 if mixed else dtype)
        running = torch.ones(8, dtype=w.dtype)
        functional = aten._native_batch_norm_legit_functional.default
        results = assert_faked(functional, x, w, w, running, running, True, 0.1, 1e-5)
        backward = aten.native_batch_norm_backward.default
        saved = (running, running, results[1], results[2])
        for mask in itertools.product([True, False], repeat=3):
            assert_faked(backward, x, x, w, *saved, True, 1e-5, list(mask))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions_that_come_out_though_nobody_asks(
    dims: int, transposed: bool, dtype: torch.dtype
) -> None:
    x = torch.randn(2, 3, *[6] * dims, dtype=dtype)
    w = torch.randn(*((3, 4) if transposed else (4, 3)), *[2] * dims, dtype=dtype)
    how = ([1] * dims, [0] * dims, [1] * dims, transposed, [0] * dims, 1)
    grad = torch.randn_like(aten.convolution.default(x, w, None, *how))
    for mask in itertools.product([True, False], repeat=3):
        if any(mask):
            assert_faked(aten.convolution_backward.default, grad, x, w, [4], *how, list(mask))
