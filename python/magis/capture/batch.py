"""What goes into a step and comes out of it, as flat leaves: tensors, runtime scalars, and values
frozen at capture.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from magis._torch_internals import pytree
from magis.errors import CaptureError

TreeSpec: TypeAlias = "pytree.TreeSpec"

_STATIC_TYPES = (
    bool,
    int,
    complex,
    str,
    bytes,
    type(None),
    enum.Enum,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)


@dataclass(frozen=True)
class TensorLeaf:
    """A tensor of the batch: the graph's `batch` input of this path."""

    path: str


@dataclass(frozen=True)
class ScalarLeaf:
    """A float, given anew at each call. `scalar` inputs are computed from these
    (`magis.capture.scalars`).
    """

    path: str


@dataclass(frozen=True)
class StaticLeaf:
    """Frozen at capture: another value needs another capture. In outputs: handed back as it is."""

    path: str
    value: Any


@dataclass(frozen=True)
class OutputLeaf:
    """A tensor that comes back: position in the text's outputs."""

    path: str
    index: int


@dataclass(frozen=True)
class OutputScalar:
    """A float of the batch that comes back: an expression for `magis.capture.scalars.evaluate`."""

    path: str
    expression: str


BatchLeaf = TensorLeaf | ScalarLeaf | StaticLeaf
OutLeaf = OutputLeaf | OutputScalar | StaticLeaf


def normalise_batch(batch: Any) -> tuple[Any, ...] | dict[str, Any]:
    """The batch as a tuple of positional or a dict of keyword arguments; a bare tensor is a tuple
    of one.

    Raises CaptureError for anything else.
    """
    if isinstance(batch, torch.Tensor):
        return (batch,)
    if isinstance(batch, Mapping):
        wrong = [key for key in batch if not isinstance(key, str)]
        if wrong:
            raise CaptureError(
                f"the batch is a mapping with the key {wrong[0]!r}; keys become keyword arguments"
                " and must be strings. Pass a tuple of positional arguments instead."
            )
        return dict(batch)
    if isinstance(batch, (tuple, list)):
        return tuple(batch)
    raise CaptureError(
        f"the batch is a {type(batch).__name__}; pass a tuple (loss_fn(model, *batch)), a dict"
        " (loss_fn(model, **batch)) or a tensor"
    )


def flatten_batch(batch: Any) -> tuple[list[tuple[str, Any]], TreeSpec]:
    """The batch's leaves as (path, value) in pytree order, and its structure.

    `batch` is anything that normalise_batch takes. Paths are spelled "[0]" or
    "['labels']['box'][1]".
    """
    leaves, spec = pytree.tree_flatten_with_path(normalise_batch(batch))
    return [(pytree.keystr(path), value) for path, value in leaves], spec


def classify_leaf(path: str, value: Any) -> BatchLeaf:
    """How a leaf of the batch reaches the step. Raises CaptureError for what can be neither passed
    nor frozen.
    """
    if isinstance(value, torch.Tensor):
        return TensorLeaf(path)
    if isinstance(value, float):
        return ScalarLeaf(path)
    if isinstance(value, _STATIC_TYPES):
        return StaticLeaf(path, value)
    if type(value).__module__ == "numpy":
        raise CaptureError(
            f"batch{path} is a numpy.{type(value).__name__}; convert it with torch.from_numpy"
            " or to a Python number"
        )
    raise CaptureError(
        f"batch{path} is a {type(value).__name__}, which is neither a tensor, a number, a string"
        " nor a container that torch.utils._pytree knows. Pass the tensors in it as a tuple or"
        " dict, or register the class with torch.utils._pytree.register_pytree_node."
    )


def is_static(value: Any) -> bool:
    """Whether a value other than a tensor or a float may be frozen into a capture."""
    return isinstance(value, _STATIC_TYPES)
