"""The statements of a plan's program, read off its text (ARCHITECTURE.md, "The text language")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magis import _core

_RUN = re.compile(r"^run %(\w+)(?: as (\.\d+))?(?: reading .*?)?(?: over %([\w.]+))?$")
_LOAD = re.compile(r"^load %(\w+) as (\.\d+)$")


@dataclass(frozen=True)
class Statement:
    """One line of a program; `names` are tensors, with their copies' numbers."""

    kind: str  # run free store load await
    names: tuple[str, ...]  # run: the operator's first result; load: the copy that it makes
    over: str = ""  # run: whose storage the first result takes over


def statements(plan: _core.Plan) -> Iterator[Statement]:
    """In program order."""
    lines = plan.text().splitlines()
    for line in lines[lines.index("program") + 1 :]:
        kind, _, rest = line.partition(" ")
        if run := _RUN.match(line):
            yield Statement("run", (run[1] + (run[2] or ""),), run[3] or "")
        elif load := _LOAD.match(line):
            yield Statement("load", (load[1] + load[2],))
        elif kind in ("free", "store", "await"):
            yield Statement(kind, tuple(name.removeprefix("%") for name in rest.split(", ")))


def tensor_of(copy: str) -> str:
    """`mm_3.1` is a copy of `mm_3`."""
    return copy.partition(".")[0]
