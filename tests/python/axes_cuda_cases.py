"""Calls of operators that only CUDA has. Made where there is a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from axes_pointwise_cases import integers, signed, words
from axes_support import Case
from torch import Tensor

CUDA_OPERATORS = {
    f"aten.{name}"
    for name in words(
        """
    _fused_dropout _masked_scale _fused_rms_norm_backward mm.dtype bmm.dtype addmm.dtype
    baddbmm.dtype _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
    _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell
    _thnn_fused_gru_cell_backward
    """
    )
}
# Only oneDNN's layout for phones and Apple's GPUs have it.
ELSEWHERE = {"aten.linear_backward"}

aten = torch.ops.aten


def case(name: str, *args: Any, **kwargs: Any) -> Case:
    return Case(f"aten.{name}", list(args), kwargs, device="cuda")


def on_gpu(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return signed(*shape).to("cuda", dtype)


def attention_cases() -> Iterator[Case]:
    half = {"dtype": torch.float16}

    def qkv(heads: int = 4) -> list[Tensor]:
        return [on_gpu(2, n, rows, 8, **half) for n, rows in ((4, 5), (heads, 6), (heads, 6))]

    for causal in (False, True):
        for heads in (4, 2):
            name = "_scaled_dot_product_flash_attention"
            args = qkv(heads)
            yield case(name, *args, 0.0, causal, False)
            r = getattr(aten, name)(*args, 0.0, causal, False)
            rest = (r[0], r[1], r[2], r[3], r[4], r[5], 0.0, causal, r[6], r[7])
            yield case(f"{name}_backward", torch.ones_like(r[0]), *args, *rest)
        args = qkv()
        for bias in (None, on_gpu(2, 4, 5, 8, **half)[..., :6]):
            name = "_scaled_dot_product_efficient_attention"
            yield case(name, *args, bias, True, 0.0, causal)
            r = getattr(aten, name)(*args, bias, True, 0.0, causal)
            mask = [True, True, True, bias is not None]
            rest = (bias, r[0], r[1], r[2], r[3], 0.0, mask, causal)
            yield case(f"{name}_backward", torch.ones_like(r[0]), *args, *rest)
        name = "_scaled_dot_product_cudnn_attention"
        yield case(name, *args, None, True, 0.0, causal, False)
        r = getattr(aten, name)(*args, None, True, 0.0, causal, False)
        rest = (r[0], r[1], r[6], r[7], None, r[2], r[3], r[4], r[5], 0.0, causal)
        yield case(f"{name}_backward", torch.ones_like(r[0]), *args, *rest)


def cell_cases() -> Iterator[Case]:
    bias = [on_gpu(12), on_gpu(12)]
    gates = [on_gpu(4, 12), on_gpu(4, 12)]
    state = on_gpu(4, 3)
    yield case("_thnn_fused_lstm_cell", *gates, state, *bias)
    hy, cy, workspace = aten._thnn_fused_lstm_cell(*gates, state, *bias)
    grads = [torch.ones_like(hy), torch.ones_like(cy)]
    yield case("_thnn_fused_lstm_cell_backward_impl", *grads, state, cy, workspace, True)
    bias = [on_gpu(9), on_gpu(9)]
    gates = [on_gpu(4, 9), on_gpu(4, 9)]
    yield case("_thnn_fused_gru_cell", *gates, state, *bias)
    hy, workspace = aten._thnn_fused_gru_cell(*gates, state, *bias)
    yield case("_thnn_fused_gru_cell_backward", torch.ones_like(hy), workspace, True)


def cuda_cases() -> Iterator[Case]:
    a = on_gpu(3, 4, 5)
    yield Case("aten._fused_dropout", [a, 0.5], compared=False, device="cuda")
    yield case("_masked_scale", a, integers(3, 4, 5, end=2).to("cuda", torch.uint8), 2.0)
    for shape in ([6], [3, 6]):
        x, weight = on_gpu(4, 3, 6), on_gpu(*shape)
        _, rms = aten._fused_rms_norm(x, shape, weight, 1e-5)
        yield case("_fused_rms_norm_backward", x, x, shape, rms, weight, [True, True])
    half = {"dtype": torch.bfloat16}
    x, w = on_gpu(16, 8, **half), on_gpu(8, 24, **half)
    bx, bw = on_gpu(2, 16, 8, **half), on_gpu(2, 8, 24, **half)
    bias = on_gpu(16, 24, dtype=torch.float32)
    yield case("mm.dtype", x, w, torch.float32)
    yield case("bmm.dtype", bx, bw, torch.float32)
    yield case("addmm.dtype", bias, x, w, torch.float32)
    yield case("baddbmm.dtype", torch.stack([bias, bias]), bx, bw, torch.float32)
    yield from attention_cases()
    yield from cell_cases()
