"""Builds the captured graph statement by statement, with readable names and layouts found by
running on fakes.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from magis import _torch_internals as internals
from magis._torch_internals import OpOverload
from magis.capture.ir import Graph, Input, InputKind, Site, Statement, Value, map_values
from magis.capture.text import contiguous_strides

_aten = torch.ops.aten
# Words that generated code uses itself.
_RESERVED = {"torch", "aten", "inputs", "device", "step", "none", "true", "false", "inf", "nan"}


class Names:
    """Distinct identifiers: mm, mm_1, mm_2, ..."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, wish: str) -> str:
        stem = re.sub(r"[^A-Za-z0-9_]+", "_", wish).strip("_") or "value"
        if stem[0].isdigit():
            stem = f"_{stem}"
        if keyword.iskeyword(stem) or stem in _RESERVED:
            stem += "_"
        name, number = stem, self._next.get(stem, 0)
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._next[stem] = number
        self._taken.add(name)
        return name


def assign_names(graph: Graph) -> None:
    """Turns wishes into names: of inputs by path, of results by operator, counted in program order.

    An operator's further results are named after the first.
    """
    names = Names()
    for item in graph.inputs:
        item.value.name = names.fresh(item.value.name)
    for statement in graph.statements:
        first, *others = statement.results
        first.name = names.fresh(first.name)
        for value in others:
            value.name = names.fresh(first.name + value.name)


class Builder:
    """Appends to `graph`. Statements carry the site and direction set by `at`."""

    def __init__(self, fake_mode: internals.FakeTensorMode, device: torch.device) -> None:
        self.graph = Graph()
        self.fake_mode = fake_mode
        self.device = device
        self._site: Site | None = None
        self._backward = False

    @contextmanager
    def at(self, site: Site | None, backward: bool) -> Iterator[None]:
        before = self._site, self._backward
        self._site, self._backward = site, backward
        try:
            yield
        finally:
            self._site, self._backward = before

    def input(
        self,
        kind: InputKind,
        path: str,
        name: str,
        fake: torch.Tensor | None,
        data: torch.Tensor | None = None,
    ) -> Value:
        value = Value(name, fake)
        value.input = Input(kind, path, value, data)
        self.graph.inputs.append(value.input)
        return value

    def run(
        self,
        operator: OpOverload,
        args: Sequence[Any],
        kwargs: dict[str, Any] | None = None,
        results: Any = None,
    ) -> list[Value]:
        """Appends an operator. `results` are its fake results if they are known; else it runs on
        its operands' fakes.
        """
        kwargs = kwargs or {}
        if results is None:
            results = self.fake_results(operator, args, kwargs)
        flat = list(results) if isinstance(results, (list, tuple)) else [results]
        values = [Value(_wish(operator, i), _tensor(r)) for i, r in enumerate(flat)]
        self.graph.statements.append(
            Statement(operator, tuple(args), kwargs, values, self._site, self._backward)
        )
        return values

    def run_one(
        self,
        operator: OpOverload,
        args: Sequence[Any],
        kwargs: dict[str, Any] | None = None,
        result: torch.Tensor | None = None,
    ) -> Value:
        return self.run(operator, args, kwargs, None if result is None else [result])[0]

    def view(
        self,
        operator: OpOverload,
        base: Value,
        *args: Any,
        result: torch.Tensor | None = None,
    ) -> Value:
        """Appends a view of `base`; where an earlier value reads the storage in the same way, gives
        that one back.
        """
        fake = self.fake_results(operator, (base, *args), {}) if result is None else result
        known: Value | None = base
        while known is not None:
            assert known.fake is not None
            if same_layout(fake, known.fake):
                return known
            known = known.base
        value = self.run_one(operator, (base, *args), result=fake)
        value.base = base
        return value

    def fake_results(
        self, operator: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        with torch.no_grad(), self.fake_mode:
            return operator(*map_values(list(args), _stand_in), **map_values(kwargs, _stand_in))

    # Spellings that several rules share.

    def permute(
        self, base: Value, dims: Sequence[int], result: torch.Tensor | None = None
    ) -> Value:
        return self.view(_aten.permute.default, base, [int(d) for d in dims], result=result)

    def full(self, like: torch.Tensor, fill: Any) -> Value:
        """A tensor of `like`'s dtype and exact layout, which must be dense."""
        order = memory_order(like)
        shape = [int(like.shape[d]) for d in order]
        kwargs = {"dtype": like.dtype, "device": like.device}
        fill = bool(fill) if like.dtype is torch.bool else fill
        return self.permute(self.run_one(_aten.full.default, (shape, fill), kwargs), inverse(order))

    def copy_dense(self, value: Value, strides: Sequence[int]) -> Value:
        """A copy of `value` in storage of its own, laid out by `strides`, which must be dense."""
        assert value.fake is not None
        layout = torch.empty_strided(value.fake.shape, tuple(strides), device="meta")
        order = memory_order(layout)
        if contiguous_strides([int(layout.shape[d]) for d in order]) != tuple(
            layout.stride(d) for d in order
        ):
            order = list(range(layout.dim()))
        permuted = self.permute(value, order)
        kwargs = {"memory_format": torch.contiguous_format}
        return self.permute(self.run_one(_aten.clone.default, (permuted,), kwargs), inverse(order))


def same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    def layout(t: torch.Tensor) -> tuple[Any, ...]:
        return t.dtype, t.shape, t.stride(), t.storage_offset()

    return layout(a) == layout(b)


def is_dense(tensor: torch.Tensor) -> bool:
    """No holes, no overlap, nothing else in the storage."""
    order = memory_order(tensor)
    expected = contiguous_strides([int(tensor.shape[d]) for d in order])
    fits = all(
        tensor.shape[d] == 1 or tensor.stride(d) == step
        for d, step in zip(order, expected, strict=True)
    )
    return fits and bool(
        tensor.untyped_storage().nbytes() == tensor.numel() * tensor.dtype.itemsize
    )


def memory_order(tensor: torch.Tensor) -> list[int]:
    """Dimensions from the slowest in memory to the fastest; the given order breaks ties."""
    return sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), d))


def inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda position: order[position])


def _stand_in(value: Value) -> Any:
    return 0.5 if value.fake is None else value.fake


def _tensor(result: Any) -> torch.Tensor | None:
    return result if isinstance(result, torch.Tensor) else None


_RESULT_NAMES: dict[str, tuple[str, ...]] = {
    "aten::native_layer_norm": ("", "mean", "rstd"),
    "aten::native_group_norm": ("", "mean", "rstd"),
    "aten::native_layer_norm_backward": ("", "weight", "bias"),
    "aten::native_group_norm_backward": ("", "weight", "bias"),
    "aten::native_batch_norm_backward": ("", "weight", "bias"),
    "aten::convolution_backward": ("", "weight", "bias"),
    "aten::native_batch_norm": ("", "mean", "rstd"),
    "aten::_native_batch_norm_legit": ("", "mean", "rstd"),
    "aten::_native_batch_norm_legit_functional": (
        *("", "mean", "rstd"),
        *("running_mean", "running_var"),
    ),
    "aten::max_pool2d_with_indices": ("", "indices"),
    "aten::native_dropout": ("", "mask"),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": ("", "key", "value"),
}


def _wish(operator: OpOverload, index: int) -> str:
    """The first result is named after the operator; others as said above, in the schema, or by
    position.
    """
    if index == 0:
        return str(operator).split(".")[1].strip("_")
    schema = operator._schema
    names = _RESULT_NAMES.get(schema.name, ())
    if index < len(names):
        return f"_{names[index]}"
    name = schema.returns[index].name if index < len(schema.returns) else ""
    return f"_{name}" if name else f"_r{index}"
