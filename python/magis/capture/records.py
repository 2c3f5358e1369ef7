"""Dataclasses among a step's results: taken apart into tensors, and put together again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from magis._torch_internals import pytree


class Record:
    """A dataclass instance as a node of a tree. Putting the tree together gives the instance."""

    def __init__(self, instance: Any) -> None:
        self.instance = instance


def opened(tree: Any) -> Any:
    """`tree` with a Record around each dataclass that PyTorch does not take apart by itself."""
    return pytree.tree_map(_opened_leaf, tree)


def _opened_leaf(leaf: Any) -> Any:
    instance = dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)
    return Record(leaf) if instance else leaf


def _flatten(record: Record) -> tuple[list[Any], Any]:
    names = [field.name for field in dataclasses.fields(record.instance)]
    values = [opened(getattr(record.instance, name)) for name in names]
    return values, (type(record.instance), tuple(names))


def _flatten_with_keys(record: Record) -> tuple[list[tuple[Any, Any]], Any]:
    values, context = _flatten(record)
    keys = [pytree.GetAttrKey(name) for name in context[1]]
    return list(zip(keys, values, strict=True)), context


def _unflatten(values: Sequence[Any], context: Any) -> Any:
    kind, names = context
    instance = object.__new__(kind)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(instance, name, value)
    return instance


pytree.register_pytree_node(Record, _flatten, _unflatten, flatten_with_keys_fn=_flatten_with_keys)
