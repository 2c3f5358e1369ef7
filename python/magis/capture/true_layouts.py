"""Layouts of results as the CPU's kernels really give them, where formulas are not to be trusted:
the operator runs once on zeros of the operands' shapes and strides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from magis import _torch_internals as internals
from magis._torch_internals import OpOverload
from magis.capture import operators
from magis.capture.text import contiguous_strides

_aten = torch.ops.aten

# Operators on more bytes than this are not run for their layout alone.
_MOST_BYTES = 1 << 28

# Products, whose results are contiguous whatever their operands are; and long to run.
_CONTIGUOUS = frozenset(
    {
        _aten.mm.default,
        _aten.addmm.default,
        _aten.bmm.default,
        _aten.baddbmm.default,
        _aten.mv.default,
        _aten.addmv.default,
    }
)
_ARITHMETIC = frozenset({_aten.add.Tensor, _aten.sub.Tensor, _aten.mul.Tensor, _aten.div.Tensor})

Layout = tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]
_known: dict[Any, list[Layout | None] | None] = {}

# No formula: oneDNN's workspace has a size that only a run tells, and grouped products are refused
# in dtypes that the CPU has kernels for.
_WITHOUT_FORMULA = frozenset({operators.rnn_layer, _aten._grouped_mm.default})


def has_no_formula(func: OpOverload) -> bool:
    return func in _WITHOUT_FORMULA


def is_doubtful(func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether PyTorch's formula for fakes may give other strides than the kernel: it is written in
    Python, and an operand's strides are not the usual ones. Strides of dimensions of length 1 count
    too: kernels go by them when they choose a layout.
    """
    if any(isinstance(arg, torch.SymFloat) for arg in (*args, *kwargs.values())):
        return False  # a float of the batch has no value here
    tensors = list(_tensors(args))
    return (
        func not in _CONTIGUOUS
        and internals.has_python_formula(func)
        and any(t.stride() != contiguous_strides(t.shape) for t in tensors)
        and len({(tuple(t.shape), t.stride()) for t in tensors if t.dim()}) > _layouts_needed(func)
        and not func._schema.is_mutable
        and not func.is_view
        and torch.Tag.nondeterministic_seeded not in func.tags
        and torch.Tag.dynamic_output_shape not in func.tags
        and all(t.device.type == "cpu" and t.layout is torch.strided for t in tensors)
        and sum(math.prod(t.shape) * t.itemsize for t in tensors) <= _MOST_BYTES
    )


def _layouts_needed(func: OpOverload) -> int:
    """Arithmetic on operands of one layout gives that layout, by any formula."""
    return 1 if func in _ARITHMETIC else 0


def true_layouts(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Layout | None] | None:
    """One layout for each result; None if the operator refuses zeros."""
    key = func, _signature(args), _signature(tuple(sorted(kwargs.items())))
    if key not in _known:
        _known[key] = _measured(func, args, kwargs)
    return _known[key]


def _measured(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Layout | None] | None:
    with internals.without_modes(), torch.no_grad():
        try:
            results = func(*map(_zeros, args), **{k: _zeros(v) for k, v in kwargs.items()})
        except Exception:  # whatever zeros do not suit
            return None
    return layouts_of(results)


def layouts_of(results: Any) -> list[Layout | None]:
    several = results if isinstance(results, (list, tuple)) else [results]
    return [
        (r.dtype, tuple(r.shape), r.stride()) if isinstance(r, torch.Tensor) else None
        for r in several
    ]


def _zeros(arg: Any) -> Any:
    if isinstance(arg, torch.Tensor):
        extent = 1 + sum((n - 1) * s for n, s in zip(arg.shape, arg.stride(), strict=True) if n)
        return torch.zeros(extent, dtype=arg.dtype).as_strided(arg.shape, arg.stride())
    return [_zeros(item) for item in arg] if isinstance(arg, (list, tuple)) else arg


def _tensors(arg: Any) -> Iterator[torch.Tensor]:
    if isinstance(arg, torch.Tensor):
        yield arg
    elif isinstance(arg, (list, tuple)):
        for item in arg:
            yield from _tensors(item)


def _signature(arg: Any) -> Any:
    if isinstance(arg, torch.Tensor):
        return arg.dtype, tuple(arg.shape), arg.stride()
    if isinstance(arg, (list, tuple)):
        return tuple(map(_signature, arg))
    return type(arg), repr(arg)
