"""Operators that ATen lacks, as `torch.ops.magis.*`. Importing this module registers them.

magis::bernoulli(size, stride, p, *, dtype, device=None)
    A dense tensor of zeros and ones laid out by `stride`, drawn from the default generator in
    memory order: what `torch.empty_like(x).bernoulli_(p)` does in eager mode. ATen's functional
    `bernoulli` draws in another order when x is not contiguous, hence other bits.

magis::begin_average(gradient), magis::end_average(begun, later)
    Averages a gradient over all processes: the first begins, the second waits, for what the others
    in `later` have begun before it; `_` forms do it in place. Outside of `averaged_by` there is one
    process, and they change nothing.

magis_compile::outside(Tensor[] returned, Tensor[] overwritten) -> Tensor[]
    All that happens between the forward half of a compiled graph, which returns tensors to its
    caller, and the backward half, which gets their gradients from autograd. It never runs: a plan's
    code is cut there.

magis_compile::overwrite_(Tensor(a!)[] inputs) -> ()
    That these inputs hold something else from here on. It never runs, either.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Protocol

import torch

from magis._torch_internals import OpOverload

_library = torch.library.Library("magis", "FRAGMENT")
_library.define(
    "bernoulli(int[] size, int[] stride, float p, *, ScalarType dtype, Device? device=None)"
    " -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)


def _bernoulli(
    size: list[int],
    stride: list[int],
    p: float,
    *,
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device=device).bernoulli_(p)


def _bernoulli_fake(
    size: list[int],
    stride: list[int],
    p: float,
    *,
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


_library.impl("bernoulli", _bernoulli, "CompositeExplicitAutograd")
torch.library.register_fake("magis::bernoulli", _bernoulli_fake, lib=_library)


class Averager(Protocol):
    """The processes that average."""

    def begin(self, gradient: torch.Tensor) -> None: ...
    def end(self, gradient: torch.Tensor) -> None: ...


_averager: ContextVar[Averager | None] = ContextVar("averager", default=None)


@contextlib.contextmanager
def averaged_by(averager: Averager) -> Iterator[None]:
    token = _averager.set(averager)
    try:
        yield
    finally:
        _averager.reset(token)


def _begin_average_(gradient: torch.Tensor) -> torch.Tensor:
    averager = _averager.get()
    if averager is not None:
        averager.begin(gradient)
    return gradient


def _end_average_(begun: torch.Tensor, later: list[torch.Tensor]) -> torch.Tensor:
    averager = _averager.get()
    if averager is not None:
        averager.end(begun)
    return begun


def _begin_average(gradient: torch.Tensor) -> torch.Tensor:
    return _begin_average_(gradient.clone())


def _end_average(begun: torch.Tensor, later: list[torch.Tensor]) -> torch.Tensor:
    return _end_average_(begun, later).clone()


# Seeded, as what draws random numbers is: they keep their order, and never run again.
for _name, _rest, _function in (
    ("begin_average", "gradient", _begin_average),
    ("end_average", "begun, Tensor[] later", _end_average),
):
    _library.define(f"{_name}(Tensor {_rest}) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
    _library.impl(_name, _function, "CompositeExplicitAutograd")
for _name, _rest, _in_place in (
    ("begin_average_", "gradient", _begin_average_),
    ("end_average_", "begun, Tensor[] later", _end_average_),
):
    _library.define(
        f"{_name}(Tensor(a!) {_rest}) -> Tensor(a!)",
        tags=(torch.Tag.nondeterministic_seeded,),
    )
    _library.impl(_name, _in_place, "CompositeExplicitAutograd")

_rnn = torch.library.Library("magis_rnn", "FRAGMENT")
_rnn.define(
    str(torch.ops.aten.mkldnn_rnn_layer.default._schema)
    .removeprefix("aten::")
    .replace("mkldnn_rnn_layer", "layer", 1)
)


def _rnn_layer(*args: Any) -> Any:
    with torch.enable_grad():
        results = torch.ops.aten.mkldnn_rnn_layer(*args)
    return tuple(None if result is None else result.detach() for result in results)


_rnn.impl("layer", _rnn_layer, "CompositeExplicitAutograd")

rnn_layer: OpOverload = torch.ops.magis_rnn.layer.default
bernoulli: OpOverload = torch.ops.magis.bernoulli.default
begin_average: OpOverload = torch.ops.magis.begin_average.default
end_average: OpOverload = torch.ops.magis.end_average.default

_compile = torch.library.Library("magis_compile", "FRAGMENT")
_compile.define("outside(Tensor[] returned, Tensor[] overwritten) -> Tensor[]")
_compile.define("overwrite_(Tensor(a!)[] inputs) -> ()")
torch.library.register_fake("magis_compile::overwrite_", lambda inputs: None, lib=_compile)

outside: OpOverload = torch.ops.magis_compile.outside.default
overwrite: OpOverload = torch.ops.magis_compile.overwrite_.default
OUTSIDE = "magis_compile.outside"
OVERWRITE = "magis_compile.overwrite_"
