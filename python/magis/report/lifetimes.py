"""What only the text of a plan states: what a view reads, which operator reads a tensor last.

Both are read off the text language (ARCHITECTURE.md, "The text language"), whose lines are regular
by design.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from magis.report.statements import statements, tensor_of

if TYPE_CHECKING:
    from magis import _core

_DEFINITION = re.compile(r"^(%\w+)(?:, %\w+)* = [\w.]+\((%\w+)?")


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
    for line in graph.text().splitlines():
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
    for statement in statements(plan):
        name = statement.names[0]
        if statement.kind == "run":
            running = tensor_of(name)
            if statement.over:  # its storage lives on, as the result's
                readers[statement.over] = running
        elif statement.kind == "free":
            readers.update(dict.fromkeys(statement.names, running))
        elif statement.kind == "store":
            away[tensor_of(name)] = [name]
        elif statement.kind == "load":
            away[tensor_of(name)].append(name)
    for copies in away.values():
        readers.update(dict.fromkeys(copies, readers[copies[-1]]))
    return readers
