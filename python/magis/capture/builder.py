"""Builds the captured graph statement by statement, with readable names and layouts found by
running on fakes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from magis import _torch_internals as internals
from magis._torch_internals import OpOverload
from magis.capture.ir import Graph, Input, InputKind, Site, Statement, Value, map_values
from magis.capture.names import wished_name
from magis.capture.text import contiguous_strides

_aten = torch.ops.aten


class Builder:
    """Appends to `graph`. Statements carry the site and direction set by `at`."""

    def __init__(self, fake_mode: internals.FakeTensorMode, device: torch.device) -> None:
        self.graph = Graph()
        self.fake_mode = fake_mode
        self.device = device
        self._site: Site | None = None
        self._backward = False

    def fake_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """A fake of `tensor`'s dtype, shape and strides, for an input."""
        return internals.fake_like(self.fake_mode, tensor, self.device)

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
        values = [Value(wished_name(operator, i), _tensor(r)) for i, r in enumerate(flat)]
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
