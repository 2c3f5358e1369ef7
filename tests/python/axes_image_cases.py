"""Calls of convolutions, pools, movers and gathers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from axes_pointwise_cases import floats, integers, signed
from axes_support import Case

aten = torch.ops.aten


def case(name: str, *args: Any, **kwargs: Any) -> Case:
    return Case(f"aten.{name}", list(args), kwargs)


def convolution_cases() -> Iterator[Case]:
    # image, kernel, stride, padding, dilation of each rank; then what a 1 x 1 kernel adds
    ranks = [([7], 3), ([6, 5], 3), ([4, 5, 3], 2), ([3, 4], 1)]
    for image, kernel in ranks:
        rank = len(image)
        for groups in (1, 2, 4):
            for transposed in (False, True):
                for stride, padding, dilation in ((1, 0, 1), (2, 1, 1), (1, 1, 2)):
                    if rank == 3 and dilation == 2:
                        continue
                    x = signed(3, 4, *image)
                    outputs = 8 if groups == 4 else 6
                    ends = (4, outputs // groups) if transposed else (outputs, 4 // groups)
                    weight = signed(*ends, *[kernel] * rank)
                    settings = [
                        [stride] * rank,
                        [padding] * rank,
                        [dilation] * rank,
                        transposed,
                        [0] * rank,
                        groups,
                    ]
                    bias = signed(outputs) if stride == 1 else None
                    try:
                        y = aten.convolution(x, weight, bias, *settings)
                    except RuntimeError:
                        continue  # the kernel is larger than the image
                    yield case("convolution", x, weight, bias, *settings)
                    grad = signed(*y.shape)
                    mask = [True, True, bias is not None]
                    sizes = [0] if bias is None else [outputs]
                    yield case("convolution_backward", grad, x, weight, sizes, *settings, mask)
    x = signed(3, 4, 5, 6)
    yield case("im2col", x, [2, 3], [1, 1], [0, 0], [1, 1])
    columns = aten.im2col(x, [2, 3], [1, 1], [0, 0], [1, 1])
    yield case("col2im", columns, [5, 6], [2, 3], [1, 1], [0, 0], [1, 1])
    v, g = signed(4, 3, 2), floats(4, 1, 1)
    yield case("_weight_norm_interface", v, g, 0)
    w, norms = aten._weight_norm_interface(v, g, 0)
    yield case("_weight_norm_interface_backward", signed(*w.shape), v, g, norms, 0)


def pool_cases() -> Iterator[Case]:
    for shape in ((3, 4, 6, 8), (4, 6, 8)):
        x = signed(*shape)
        settings = ([2, 2], [2, 2], [0, 0])
        yield case("max_pool2d_with_indices", x, *settings)
        y, where = aten.max_pool2d_with_indices(x, *settings)
        grad = signed(*y.shape)
        args = (grad, x, *settings, [1, 1], False, where)
        yield case("max_pool2d_with_indices_backward", *args)
        yield case("avg_pool2d", x, *settings)
        yield case("avg_pool2d_backward", grad, x, *settings, False, True, None)
        yield case("_adaptive_avg_pool2d", x, [3, 4])
        yield case("_adaptive_avg_pool2d_backward", grad, x)
        yield case("adaptive_max_pool2d", x, [3, 4])
        where = aten.adaptive_max_pool2d(x, [3, 4])[1]
        yield case("adaptive_max_pool2d_backward", grad, x, where)
        yield case("max_unpool2d", y, aten.max_pool2d_with_indices(x, *settings)[1], [*shape[-2:]])
    x = signed(2, 3, 4, 4, 6)
    cube = ([2, 2, 2], [2, 2, 2], [0, 0, 0])
    yield case("max_pool3d_with_indices", x, *cube)
    y, where = aten.max_pool3d_with_indices(x, *cube)
    grad = signed(*y.shape)
    yield case("max_pool3d_with_indices_backward", grad, x, *cube, [1, 1, 1], False, where)
    yield case("max_unpool3d", y, where, [4, 4, 6], [2, 2, 2], [0, 0, 0])
    yield case("avg_pool3d", x, *cube)
    yield case("avg_pool3d_backward", grad, x, *cube, False, True, None)
    yield case("_adaptive_avg_pool3d", x, [2, 2, 3])
    yield case("_adaptive_avg_pool3d_backward", grad, x)
    yield case("adaptive_max_pool3d", x, [2, 2, 3])
    where = aten.adaptive_max_pool3d(x, [2, 2, 3])[1]
    yield case("adaptive_max_pool3d_backward", grad, x, where)
    yield case("avg_pool1d", signed(3, 4, 6), [2])


def upsample_cases() -> Iterator[Case]:
    for rank, modes in (
        (1, ["upsample_nearest", "_upsample_nearest_exact", "upsample_linear"]),
        (
            2,
            [
                "upsample_nearest",
                "_upsample_nearest_exact",
                "upsample_bilinear",
                "upsample_bicubic",
                "_upsample_bilinear_aa",
                "_upsample_bicubic_aa",
            ],
        ),
        (3, ["upsample_nearest", "_upsample_nearest_exact", "upsample_trilinear"]),
    ):
        x = signed(3, 4, *[3] * rank)
        for mode in modes:
            aa = mode.endswith("_aa")
            name = f"{mode.removesuffix('_aa')}{rank}d{'_aa' if aa else ''}"
            corners = [] if "nearest" in mode else [False]
            yield case(name, x, [6] * rank, *corners)
            yield case(f"{name}.vec", x, None, *corners, [2.0] * rank)
            grad = signed(3, 4, *[6] * rank)
            yield case(f"{name}_backward", grad, [6] * rank, [*x.shape], *corners)


def sampling_cases() -> Iterator[Case]:
    x, grid = signed(3, 4, 5, 6), signed(3, 2, 7, 2) / 2
    yield case("grid_sampler_2d", x, grid, 0, 0, False)
    grad = signed(3, 4, 2, 7)
    yield case("grid_sampler_2d_backward", grad, x, grid, 0, 0, False, [True, True])
    x, grid = signed(2, 3, 4, 5, 3), signed(2, 3, 2, 4, 3) / 2
    yield case("grid_sampler_3d", x, grid, 0, 0, False)
    grad = signed(2, 3, 3, 2, 4)
    yield case("grid_sampler_3d_backward", grad, x, grid, 0, 0, False, [True, True])
    yield case("affine_grid_generator", signed(3, 2, 3), [3, 4, 5, 6], False)
    yield case("affine_grid_generator", signed(3, 3, 4), [3, 4, 2, 3, 4], False)


def image_cases() -> Iterator[Case]:
    yield from convolution_cases()
    yield from pool_cases()
    yield from upsample_cases()
    yield from sampling_cases()
    for rank in (1, 2, 3):
        x = signed(3, 4, *[5] * rank)
        pads = [1, 2] * rank
        for kind in ("reflection", "replication"):
            name = f"{kind}_pad{rank}d"
            yield case(name, x, pads)
            yield case(f"{name}_backward", signed(3, 4, *[8] * rank), x, pads)
    yield case("pixel_shuffle", signed(2, 12, 3, 4), 2)
    yield case("pixel_unshuffle", signed(2, 3, 6, 4), 2)
    yield case("channel_shuffle", signed(2, 6, 3, 4), 2)
    yield case("native_channel_shuffle", signed(2, 6, 3, 4), 2)


def mover_cases() -> Iterator[Case]:
    a, b = signed(3, 4, 5), signed(3, 2, 5)
    yield case("cat", [a, b], 1)
    yield case("cat", [a, a], -1)
    yield case("cat", [torch.empty(0, dtype=torch.float64), a])
    yield case("stack", [a, a], 1)
    yield case("repeat", a, [1, 2, 1])
    yield case("repeat", signed(1, 5), [4, 3, 2])
    yield case("repeat_interleave.self_int", a, 2, 1)
    yield case("flip", a, [0, 2])
    yield case("roll", a, [1], [2])
    yield case("roll", a, [1])
    yield case("rot90", a, 1, [1, 2])
    yield case("tril", signed(3, 4, 4))
    yield case("triu", signed(3, 4, 4), 1)
    yield case("constant_pad_nd", a, [0, 0, 1, 2], 0.5)
    yield case("constant_pad_nd", a, [1, -2], 0.5)
    yield case("slice_backward", b, [3, 4, 5], 1, 1, 3, 1)
    yield case("select_backward", signed(3, 5), [3, 4, 5], 1, 2)
    yield case("select_backward", signed(3, 4), [3, 4, 5], -1, 2)
    yield case("diagonal_backward", signed(3, 4), [3, 4, 5], 0, 1, 2)
    yield case("unfold_backward", signed(3, 3, 5, 2), [3, 4, 5], 1, 2, 1)
    yield case("slice_scatter", a, b, 1, 1, 3)
    yield case("select_scatter", a, signed(3, 5), 1, 2)
    yield case("isin.Tensor_Tensor", integers(3, 4), integers(5))
    yield case("bucketize.Tensor", a, torch.linspace(-1, 1, 5, dtype=torch.float64))
    yield from gather_cases()
    yield from index_cases()


def gather_cases() -> Iterator[Case]:
    a = signed(3, 4, 5)
    yield case("take", a, integers(2, 3, end=60))
    for rows in (3, 2):
        where = integers(rows, 6, 5, end=4)
        yield case("gather", a, 1, where)
        yield case("scatter_add", a, 1, where, signed(3, 6, 5))
        yield case("scatter_add", a, 1, where, signed(rows, 6, 5))
        yield case("scatter_reduce.two", a, 1, where, signed(rows, 6, 5), "amax")
        once = integers(rows, 1, 5, end=4)
        yield case("scatter.src", a, 1, once, signed(rows, 1, 5))
        yield case("scatter.value", a, 1, once, 2.0)
        yield case("scatter.reduce", a, 1, once, signed(rows, 1, 5), reduce="add")
        yield case("scatter.value_reduce", a, 1, once, 2.0, reduce="multiply")
    places = torch.tensor([2, 0])
    yield case("index_select", a, 1, integers(6, end=4))
    yield case("index_add", a, 1, integers(6, end=4), signed(3, 6, 5))
    yield case("index_add", a, 1, integers(6, end=4), signed(3, 6, 5), alpha=2)
    yield case("index_copy", a, 1, places, signed(3, 2, 5))
    yield case("index_fill.int_Scalar", a, 1, places, 2.0)
    yield case("index_fill.int_Tensor", a, 1, places, torch.tensor(2.0, dtype=torch.float64))
    yield case("index_reduce", a, 1, places, signed(3, 2, 5), "amax")
    for shape in ((4,), (4, 3)):
        yield case("embedding", signed(6, 5), integers(*shape, end=6))
        grad, words = signed(*shape, 5), integers(*shape, end=6)
        yield case("embedding_dense_backward", grad, words, 6, 2, False)
        yield case("embedding_dense_backward", grad, words, 6, -1, True)
    words, starts = integers(6, end=5), torch.tensor([0, 2, 5])
    for mode in (0, 1):
        yield case("_embedding_bag", signed(5, 4), words, starts, False, mode)
        yield case("_embedding_bag_forward_only", signed(5, 4), words, starts, False, mode)


def index_cases() -> Iterator[Case]:
    a = signed(3, 4, 5)
    rows, columns = integers(6, end=3), integers(6, end=4)
    calls = [
        ([rows], (6, 4, 5)),
        ([None, columns], (3, 6, 5)),
        ([None, integers(2, 6, end=4)], (3, 2, 6, 5)),
        ([integers(2, 1, end=3), columns], (2, 6, 5)),
        ([rows, None, integers(6, end=5)], (6, 4)),
        ([None, integers(6, 1, end=4), integers(2, end=5)], (3, 6, 2)),
    ]
    for where, shape in calls:
        yield case("index.Tensor", a, where)
        yield case("_unsafe_index.Tensor", a, where)
        for name in ("index_put", "_unsafe_index_put"):
            yield case(name, a, where, signed(*shape), True)
            yield case(name, a, where, signed(1), True)
        yield case("index_put", a, where, signed(1), False)
