"""Calls of every operator that has an axis signature and is not elementwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from axes_pointwise_cases import floats, integers, signed
from axes_support import Case
from torch import Tensor

aten = torch.ops.aten


def case(name: str, *args: Any, **kwargs: Any) -> Case:
    return Case(f"aten.{name}", list(args), kwargs)


def indices(*shape: int, end: int) -> Tensor:
    return integers(*shape, end=end)


def product_cases() -> Iterator[Case]:
    x, w = signed(4, 3), signed(3, 5)
    bx, bw = signed(2, 4, 3), signed(2, 3, 5)
    yield case("mm", x, w)
    yield case("bmm", bx, bw)
    for bias in (signed(5), signed(4, 5), signed(4, 1), signed(1, 5), signed()):
        yield case("addmm", bias, x, w)
    yield case("addmm", signed(5), x, w, beta=2, alpha=3)
    yield case("baddbmm", signed(2, 4, 5), bx, bw)
    yield case("baddbmm", signed(4, 1), bx, bw)
    yield case("addbmm", signed(4, 5), bx, bw)
    yield case("mv", x, signed(3))
    yield case("addmv", signed(4), x, signed(3))
    yield case("dot", signed(5), signed(5))
    yield case("vdot", signed(5), signed(5))
    yield case("linear", signed(2, 4, 3), signed(5, 3), signed(5))
    yield case("linear", x, signed(5, 3))
    yield case("_addmm_activation", signed(5), x, w)
    yield case("_int_mm", integers(20, 16).to(torch.int8), integers(16, 24).to(torch.int8))
    yield case("addr", signed(4, 5), signed(4), signed(5))
    yield case("outer", signed(4), signed(5))
    yield case("linalg_cross", signed(4, 3, 5), signed(4, 3, 5), dim=1)
    yield case("_cdist_forward", signed(2, 4, 3), signed(2, 5, 3), 2.0, None)
    a, b = signed(2, 4, 3), signed(2, 5, 3)
    distances = aten._cdist_forward(a, b, 2.0, None)
    yield case("_cdist_backward", signed(2, 4, 5), a, b, 2.0, distances)
    yield case("_euclidean_dist", signed(4, 3), signed(5, 3))


def linear_algebra_cases() -> Iterator[Case]:
    root = signed(4, 3, 3)
    matrix = root @ root.mT + 3 * torch.eye(3, dtype=torch.float64)
    yield case("linalg_inv_ex", matrix)
    yield case("linalg_cholesky_ex", matrix)
    yield case("cholesky_inverse", torch.linalg.cholesky(matrix))
    yield case("linalg_solve_triangular", matrix, signed(4, 3, 2), upper=True)
    yield case("_linalg_det", matrix)
    yield case("_linalg_slogdet", matrix)
    yield case("_linalg_solve_ex", matrix, signed(4, 3, 2))
    yield case("_linalg_eigh", matrix)
    yield case("linalg_eig", matrix)
    yield case("_linalg_svd", root)
    yield case("linalg_qr", root)
    yield case("linalg_matrix_exp", root)
    factors, tau = torch.geqrf(root)
    yield case("linalg_householder_product", factors, tau)
    yield case("linalg_lu_factor_ex", matrix)
    lu, pivots, _ = torch.linalg.lu_factor_ex(matrix)
    yield case("linalg_lu_solve", lu, pivots, signed(4, 3, 2))
    complex_x = torch.complex(signed(3, 4, 6), signed(3, 4, 6))
    yield case("_fft_r2c", signed(3, 4, 6), [2], 0, True)
    yield case("_fft_c2r", complex_x, [1, 2], 0, 10)
    yield case("_fft_c2c", complex_x, [1], 0, True)


def softmax_cases() -> Iterator[Case]:
    x, grad = signed(3, 4, 5), signed(3, 4, 5)
    for dim in (-1, 1):
        yield case("_softmax", x, dim, False)
        yield case("_log_softmax", x, dim, False)
        yield case("_safe_softmax", x, dim)
        yield case("_softmax_backward_data", grad, x.softmax(dim), dim, torch.float64)
        yield case("_log_softmax_backward_data", grad, x.log_softmax(dim), dim, torch.float64)
        for name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "_logcumsumexp"):
            yield case(name, x, dim)
        yield case("sort", x, dim)
        yield case("argsort", x, dim)
        yield case("sort.stable", x, stable=True, dim=dim)
        yield case("argsort.stable", x, stable=True, dim=dim)
        yield case("topk", x, 2, dim)
        yield case("kthvalue", x, 2, dim)
        yield case("cumprod_backward", grad, x, dim, x.cumprod(dim))
        yield case("cummaxmin_backward", grad, x, x.cummax(dim).indices, dim)
        yield case("glu", signed(3, 4, 6), dim)
        yield case("glu_backward", signed(3, 4, 3), signed(3, 4, 6), -1)
    yield case("sort.stable", x, stable=True)
    yield case("topk", x, 2)
    yield case("kthvalue", x, 2)
    yield case("glu", signed(3, 4, 6))
    yield case("msort", x)


def reduction_cases() -> Iterator[Case]:
    x = signed(3, 4, 5)
    bits = x > 0
    for name in ("sum", "nansum", "mean", "nanmean", "prod", "max", "min", "median", "nanmedian"):
        yield case(name, x)
    for name in ("any", "all", "argmax", "argmin", "var", "std", "count_nonzero"):
        yield case(name, bits if name in ("any", "all") else x)
    for dims in ([1], [0, -1], [-1]):
        for keepdim in (False, True):
            for name in ("sum.dim_IntList", "nansum", "mean.dim", "amax", "amin", "logsumexp"):
                yield case(name, x, dims, keepdim)
            for name in ("any.dims", "all.dims"):
                yield case(name, bits, dims, keepdim)
            for name in ("var.correction", "std.correction", "var_mean.correction"):
                yield case(name, x, dims, keepdim=keepdim)
            yield case("std_mean.correction", x, dims, keepdim=keepdim)
            for name in ("var.dim", "std.dim", "var_mean.dim"):
                yield case(name, x, dims, True, keepdim)
            yield case("linalg_vector_norm", x, 2.0, dims, keepdim)
            yield case("norm.ScalarOpt_dim", x, 2.0, dims, keepdim)
            yield case("norm.ScalarOpt_dim_dtype", x, 2.0, dims, keepdim, dtype=torch.float64)
        yield case("count_nonzero.dim_IntList", x, dims)
    yield case("sum.dim_IntList", x, None)
    yield case("norm.Scalar", x, 2.0)
    yield case("renorm", x, 2.0, 1, 1.0)
    for dim in (1, -1):
        for keepdim in (False, True):
            for name in ("prod.dim_int", "max.dim", "min.dim", "argmax", "argmin", "median.dim"):
                yield case(name, x, dim, keepdim)
            for name in ("nanmedian.dim", "mode"):
                yield case(name, x, dim, keepdim)
            yield case("any.dim", bits, dim, keepdim)
            yield case("all.dim", bits, dim, keepdim)
            yield case("aminmax", x, dim=dim, keepdim=keepdim)
            picked, where = x.max(dim, keepdim)
            args = (torch.ones_like(picked), dim, where, [3, 4, 5], keepdim)
            yield case("value_selecting_reduction_backward", *args)
    yield case("mode", x)
    yield case("aminmax", x)


def loss_cases() -> Iterator[Case]:
    for reduction in (0, 1, 2):
        for shape in ((4, 5), (4, 5, 2, 3)):
            kind = "nll_loss2d" if len(shape) == 4 else "nll_loss"
            scores = signed(*shape).log_softmax(1)
            target = indices(shape[0], *shape[2:], end=5)
            target[0] = 1
            for weight in (None, floats(5)):
                for ignored in (-100, 1):
                    args = [scores, target, weight, reduction, ignored]
                    yield case(f"{kind}_forward", *args)
                    loss, total = getattr(aten, f"{kind}_forward")(*args)
                    yield case(f"{kind}_backward", torch.ones_like(loss), *args, total)
        x, y = floats(4, 5) / 2, floats(4, 5) / 2
        for name in ("mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss"):
            yield case(name, x, y, reduction)
            loss = getattr(aten, name)(x, y, reduction)
            extra = [1.0] if name in ("smooth_l1_loss", "huber_loss") else []
            yield case(f"{name}_backward", torch.ones_like(loss), x, y, reduction, *extra)
        yield case("l1_loss", x, y, reduction)
        yield case("kl_div", x, y, reduction)
        yield case("binary_cross_entropy", x, y, floats(5), reduction)
        loss = aten.binary_cross_entropy(x, y, None, reduction)
        grad = torch.ones_like(loss)
        yield case("binary_cross_entropy_backward", grad, x, y, None, reduction)
        yield case("binary_cross_entropy_with_logits", x, y, None, floats(5), reduction)


def norm_cases() -> Iterator[Case]:
    x, grad = signed(4, 3, 6), signed(4, 3, 6)
    for shape in ([6], [3, 6]):
        weight, bias = signed(*shape), signed(*shape)
        yield case("native_layer_norm", x, shape, weight, bias, 1e-5)
        yield case("native_layer_norm", x, shape, None, None, 1e-5)
        _, mean, rstd = aten.native_layer_norm(x, shape, weight, bias, 1e-5)
        rest = (weight, bias, [True, True, True])
        yield case("native_layer_norm_backward", grad, x, shape, mean, rstd, *rest)
        yield case("_fused_rms_norm", x, shape, weight, 1e-5)
    for groups in (1, 2, 3):
        image, image_grad = signed(4, 6, 2, 3), signed(4, 6, 2, 3)
        weight, bias = signed(6), signed(6)
        yield case("native_group_norm", image, weight, bias, 4, 6, 6, groups, 1e-5)
        yield case("native_group_norm", image, None, None, 4, 6, 6, groups, 1e-5)
        _, mean, rstd = aten.native_group_norm(image, weight, bias, 4, 6, 6, groups, 1e-5)
        statistics = (image, mean, rstd, weight, 4, 6, 6, groups, [True, True, True])
        yield case("native_group_norm_backward", image_grad, *statistics)
    yield from batch_norm_cases()


def batch_norm_cases() -> Iterator[Case]:
    x, grad = signed(4, 3, 2, 5), signed(4, 3, 2, 5)
    affine = (signed(3), signed(3))
    running = (signed(3), floats(3))
    for training in (True, False):
        args = (x, *affine, *running, training, 0.1, 1e-5)
        yield case("_native_batch_norm_legit_functional", *args)
        results = aten._native_batch_norm_legit_functional(*args)
        saved = (results[1], results[2])
        tail = (affine[0], *running, *saved, training, 1e-5, [True, True, True])
        yield case("native_batch_norm_backward", grad, x, *tail)
        reserve = torch.empty(0, dtype=torch.uint8)
        yield case("batch_norm_backward", grad, x, *tail, reserve)
    yield case("_native_batch_norm_legit.no_stats", x, *affine, True, 0.1, 1e-5)
    yield case("_native_batch_norm_legit_no_training", x, *affine, *running, 0.1, 1e-5)
    yield case("_batch_norm_no_update", x, *affine, *running, 0.1, 1e-5)
    yield case("_batch_norm_with_update_functional", x, *affine, *running, 0.1, 1e-5)


def attention_cases() -> Iterator[Case]:
    name = "_scaled_dot_product_flash_attention_for_cpu"
    for heads in (4, 2):
        q, k, v = signed(2, 4, 5, 8), signed(2, heads, 6, 8), signed(2, heads, 6, 8)
        for causal, mask in (
            (False, None),
            (True, None),
            (False, signed(5, 6)),
            (False, signed(2, 1, 5, 6)),
        ):
            kwargs = {} if mask is None else {"attn_mask": mask}
            yield Case(f"aten.{name}", [q, k, v, 0.0, causal], kwargs)
            if heads == 2:
                continue
            out, logsumexp = getattr(aten, name)(q, k, v, 0.0, causal, **kwargs)
            args = [signed(2, 4, 5, 8), q, k, v, out, logsumexp, 0.0, causal]
            yield Case(f"aten.{name}_backward", args, kwargs)


def all_cases() -> list[Case]:
    from axes_image_cases import image_cases, mover_cases
    from axes_pointwise_cases import pointwise_cases

    families = (
        product_cases,
        linear_algebra_cases,
        softmax_cases,
        reduction_cases,
        loss_cases,
        norm_cases,
        attention_cases,
        image_cases,
        mover_cases,
    )
    return [*pointwise_cases(), *(case for family in families for case in family())]
