"""What lists of a plan's tensors do not say: what a view reads, which operator reads a tensor last.

Views are read off the text language (ARCHITECTURE.md, "The text language"), whose lines are regular
by design.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magis import _core

_DEFINITION = re.compile(r"^(%\w+)(?:, %\w+)* = [\w.]+\((%\w+)?")


def tensor_of(copy: str) -> str:
    """`mm_3.1` is a copy of `mm_3`."""
    return copy.partition(".")[0]


def output_tensors(graph: _core.Graph) -> dict[str, str]:
    """The tensor behind each output: its name -> the output's kind ("grad", "loss", ...).

    An output may be a view; its tensor is found through the chain of views. Where several outputs
    read one tensor the first counts.
    """
    storage = storage_of(graph)
    kinds: dict[str, str] = {}
    for output in graph.outputs:
        kinds.setdefault(storage(output.name), output.kind)
    return kinds


def storage_of(graph: _core.Graph) -> Callable[[str], str]:
    """The tensor or input whose storage a value reads, by name; found through the chain of views.

    A name that the graph does not have is given back as it is.
    """
    tensors = {tensor.name for tensor in graph.tensors}
    base: dict[str, str] = {}
    for line in graph.text().split("\n"):
        match = _DEFINITION.match(line)
        if match and match[2] and match[1][1:] not in tensors:
            base[match[1][1:]] = match[2][1:]

    def storage(name: str) -> str:
        while name not in tensors and name in base:
            name = base[name]
        return name

    return storage


def last_readers(plan: _core.Plan) -> dict[str, str]:
    """Tensor or copy that dies ("mm_3", "mm_3.1") -> its last reader, by its first result.

    What is stored is read by whoever reads it last after it is back.
    """
    readers: dict[str, str] = {}
    away: dict[str, list[str]] = {}  # copies that leave or come back, by tensor
    running = ""
    for statement in plan.statements:
        if statement.operator:
            running = tensor_of(statement.name)
            if statement.over:  # its storage lives on, as the result's
                readers[statement.over] = running
        elif statement.kind == "free":
            readers.update(dict.fromkeys(statement.copies, running))
        elif statement.kind in ("store", "load"):
            (name,) = statement.copies
            if statement.kind == "store":
                away[tensor_of(name)] = []
            away[tensor_of(name)].append(name)
    for copies in away.values():
        readers.update(dict.fromkeys(copies, readers[copies[-1]]))
    return readers
