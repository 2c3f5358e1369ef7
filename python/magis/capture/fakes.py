"""Fake tensors with the dtypes that PyTorch's CPU kernels really give.

The formulas for fake tensors in PyTorch 2.13 are wrong for normalisation in reduced precision on
the CPU: statistics come out in the input's dtype, while the kernels keep them in the weight's. And
batch norm's gradient with respect to its input comes out even where nobody asked for it, while that
of a convolution's weight does not, which oneDNN makes whenever the bias's is asked for.

A PyTorch without CUDA cannot differentiate fake CUDA tensors (it aborts). A step for a GPU is then
traced on fakes of the meta device: the same operators but for attention, which comes out as matrix
products and softmax instead of a fused kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from magis import _torch_internals as internals
from magis._torch_internals import FakeTensorMode, OpOverload
from magis.capture.reads import shaped_by_data
from magis.capture.true_layouts import (
    Layout,
    has_no_formula,
    is_doubtful,
    layouts_of,
    true_layouts,
)

_aten = torch.ops.aten

Dtypes = Sequence["torch.dtype | None"]  # of the results; None: as PyTorch says


def _layer_norm(args: Sequence[Any]) -> Dtypes:
    statistics = _statistics_dtype(args[0], args[2])
    return None, statistics, statistics


def _group_norm(args: Sequence[Any]) -> Dtypes:
    statistics = _statistics_dtype(args[0], args[1])
    return None, statistics, statistics


def _group_norm_backward(args: Sequence[Any]) -> Dtypes:
    return args[1].dtype, None, None


def _batch_norm(args: Sequence[Any]) -> Dtypes:
    statistics = _statistics_dtype(args[0], args[1])
    return None, statistics, statistics


def _batch_norm_functional(args: Sequence[Any]) -> Dtypes:
    statistics = _statistics_dtype(args[0], args[1])
    return None, statistics, statistics, args[3].dtype, args[4].dtype


def _statistics_dtype(x: torch.Tensor, weight: torch.Tensor | None) -> torch.dtype:
    return x.dtype if weight is None else weight.dtype


_TRUE_DTYPES: dict[OpOverload, Callable[[Sequence[Any]], Dtypes]] = {
    _aten.native_layer_norm.default: _layer_norm,
    _aten.native_group_norm.default: _group_norm,
    _aten.native_group_norm_backward.default: _group_norm_backward,
    _aten.native_batch_norm.default: _batch_norm,
    _aten._native_batch_norm_legit_functional.default: _batch_norm_functional,
}


_VIEWS_BY_SHAPE = frozenset({_aten.view.default, _aten._unsafe_view.default})


class TrueFakeTensorMode(FakeTensorMode):  # type: ignore[misc]
    """FakeTensorMode, corrected where it differs from the CPU kernels.

    `promised` holds, while an operator runs whose shapes depend on data, real results of the shapes
    that come out.
    """

    promised: list[torch.Tensor] | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if self.promised is not None and shaped_by_data(func, kwargs or {}):
            return self._as_promised(args)
        if _weight_comes_along(func, args):
            return self._with_gradient_of_weight(func, args)
        if has_no_formula(func) and _on_cpu(args):
            layouts = true_layouts(func, args, kwargs or {})
            if layouts is not None:
                return self._laid_out(layouts, func)
        results = super().__torch_dispatch__(func, types, args, kwargs)
        if func in _VIEWS_BY_SHAPE:
            return self._as_viewed(args[0], results)
        if isinstance(func, OpOverload) and is_doubtful(func, args, kwargs or {}):
            layouts = true_layouts(func, args, kwargs or {})
            if layouts is not None and layouts != layouts_of(results):
                return self._laid_out(layouts, func)
        if func is _aten.native_batch_norm_backward.default and not args[9][0]:
            return None, *results[1:]
        dtypes_of = _TRUE_DTYPES.get(func)
        if dtypes_of is None or args[0].device.type != "cpu":
            return results
        with self:
            return tuple(
                result
                if dtype is None or result is None or result.dtype == dtype
                else torch.empty_strided(result.shape, result.stride(), dtype=dtype)
                for result, dtype in zip(results, dtypes_of(args), strict=True)
            )

    def _with_gradient_of_weight(self, func: OpOverload, args: tuple[Any, ...]) -> Any:
        asked = args[10]
        results = self.__torch_dispatch__(func, (), (*args[:10], [asked[0], True, asked[2]]))
        if args[2].dim() != 3:
            return results
        with self:  # lines run as images, and what nobody asked for stays one
            return results[0], results[1].unsqueeze(2), results[2]

    def _as_viewed(self, base: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        """`view` with the strides that views really get. They differ from the formula's where a
        dimension has length 1, and kernels go by these strides when they choose a layout.
        """
        with internals.without_modes():
            plain = torch.empty_strided(base.shape, base.stride(), dtype=base.dtype, device="meta")
            strides = plain.view(view.shape).stride()
        if strides == view.stride():
            return view
        with self:
            return base.as_strided(view.shape, strides, base.storage_offset())

    def _laid_out(self, layouts: Sequence[Layout | None], func: OpOverload) -> Any:
        with self:
            results = [
                None
                if layout is None
                else torch.empty_strided(layout[1], layout[2], dtype=layout[0])
                for layout in layouts
            ]
        return results[0] if len(func._schema.returns) == 1 else tuple(results)

    def _as_promised(self, args: tuple[Any, ...]) -> Any:
        assert self.promised is not None
        device = next(arg.device for arg in args if isinstance(arg, torch.Tensor))
        with self:
            results = [
                torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)
                for like in self.promised
            ]
        return results[0] if len(results) == 1 else tuple(results)


def _weight_comes_along(func: Any, args: Sequence[Any]) -> bool:
    """Whether a convolution makes the gradient of its weight although nobody asks for it."""
    return (
        func is _aten.convolution_backward.default
        and bool(args[10][2])
        and not args[10][1]
        and internals.runs_in_onednn(*args[1:10])
    )


def _on_cpu(args: Sequence[Any]) -> bool:
    return all(arg.device.type == "cpu" for arg in args if isinstance(arg, torch.Tensor))


def device_to_trace_on(device: torch.device) -> torch.device:
    """`device`, or what stands in for a GPU where PyTorch knows none."""
    if device.type == "cuda" and not torch.backends.cuda.is_built():
        return torch.device("meta")
    return device


def make_fake_mode() -> TrueFakeTensorMode:
    return TrueFakeTensorMode(allow_non_fake_inputs=True)


class DropoutOfGpus(TorchFunctionMode):  # type: ignore[misc]
    """Dropout runs as the fused operator that GPUs have, on any device."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.dropout, nn.functional.dropout):
            return _fused_dropout(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _fused_dropout(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    if inplace or not training or not 0 < p < 1 or input.numel() == 0:
        return nn.functional.dropout(input, p, training, inplace)
    return torch.native_dropout(input, p, True)[0]
