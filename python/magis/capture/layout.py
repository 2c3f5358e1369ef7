"""Gives outputs the storage that eager mode would give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from magis.capture.builder import Builder, is_dense
from magis.capture.ir import Output, OutputKind, Value


def add_outputs(
    builder: Builder,
    labels: Iterable[tuple[OutputKind, str]],
    values: Iterable[Value],
    gradient_targets: Mapping[str, torch.Tensor],
) -> None:
    """Appends the outputs, with copies where two of them would share memory that eager mode keeps
    apart.

    A gradient owns dense storage that no other output and no input shares, in the layout that
    autograd's accumulation gives to `.grad`. What replaces a buffer, a parameter or a state is
    never an input itself: it is written back after the step, when that input may already hold
    something else. A constant is never handed out.
    """
    taken: set[Value] = set()
    for (kind, path), value in zip(labels, values, strict=True):
        if kind == "grad":
            value = _own_gradient(builder, value, gradient_targets[path], taken)
        elif _must_be_copied(kind, value, taken):
            value = builder.copy_dense(value, _dense_strides(value))
        # Tensors that come back beside the loss may share memory with one another, as in eager
        # mode.
        taken.add(value.root)
        builder.graph.outputs.append(Output(kind, path, value))


def _must_be_copied(kind: OutputKind, value: Value, taken: set[Value]) -> bool:
    source = value.root.input
    if kind in ("loss", "aux"):
        return source is not None and source.kind == "const"
    return source is not None or value.root in taken


def _own_gradient(builder: Builder, value: Value, target: torch.Tensor, taken: set[Value]) -> Value:
    fake = value.fake
    assert fake is not None
    wanted = gradient_strides(target)
    own = value.root.input is None and value.root not in taken and is_dense(fake)
    if own and _same_strides(fake, wanted):
        return value
    return builder.copy_dense(value, wanted)


def gradient_strides(target: torch.Tensor) -> tuple[int, ...]:
    """Strides of the `.grad` that autograd makes for `target`: its own if it is dense, else
    contiguous.
    """
    if is_dense(target):
        return tuple(target.stride())
    return tuple(torch.empty(target.shape, device="meta").stride())


def _same_strides(fake: torch.Tensor, strides: tuple[int, ...]) -> bool:
    """As far as they matter: strides of dimensions of length 1 say nothing."""
    return all(
        n == 1 or have == want
        for n, have, want in zip(fake.shape, fake.stride(), strides, strict=True)
    )


def _dense_strides(value: Value) -> tuple[int, ...]:
    assert value.fake is not None
    return tuple(torch.empty_like(value.fake, device="meta").stride())
