"""The operators of a graph as its text defines them: results, operands, shapes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_OPERATION = re.compile(r"^%(\w+)((?:, %\w+)*) = ([\w.]+)\((.*)\) : (.*)$")
_INPUT = re.compile(r'^(?:param|buffer|batch|const|state|grad) %(\w+) "(?:[^"\\]|\\.)*" : (\S+)')
_SITE = re.compile(r'^site @(\d+) ("(?:[^"\\]|\\.)*") ("(?:[^"\\]|\\.)*")')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_VALUE = re.compile(r"%(\w+)")
_TAIL = re.compile(r"(?: @(\d+))?( backward)?(?: scratch \d+)?$")
_BETWEEN_TYPES = re.compile(r", (?=[a-z])")


@dataclass(frozen=True)
class Definition:
    """A line of a graph that computes something, a view included."""

    operator: str  # "aten.mm"
    results: tuple[str, ...]
    operands: tuple[str, ...]  # values that it reads, in the order of its arguments
    types: tuple[str, ...]  # of the results
    operand_types: tuple[str, ...]  # "" for runtime scalars
    module: str
    source: str  # "modeling_bert.py:110"
    backward: bool

    @property
    def shapes(self) -> str:
        """ "f32[8,64], f32[64,32] -> f32[8,32]"."""
        read = ", ".join(kind for kind in self.operand_types if kind)
        return f"{read} -> {', '.join(self.types)}" if read else ", ".join(self.types)


def definitions(text: str) -> Iterator[Definition]:
    """From canonical text of a graph or a plan, in the text's order."""
    types: dict[str, str] = {}
    sites: dict[str | None, tuple[str, str]] = {None: ("", "")}
    for line in text.split("\n"):
        if line == "program":
            return
        if site := _SITE.match(line):
            sites[site[1]] = (json.loads(site[2], strict=False), json.loads(site[3], strict=False))
        elif entry := _INPUT.match(line):
            types[entry[1]] = entry[2]
        match = _OPERATION.match(line)
        if match is None:
            continue
        results = (match[1], *match[2].replace(" %", "").split(",")[1:])
        tail = _TAIL.search(match[5])
        assert tail is not None  # it matches nothing, too
        own = tuple(_BETWEEN_TYPES.split(match[5][: tail.start()]))
        types.update(zip(results, own, strict=False))
        operands = tuple(_VALUE.findall(_STRING.sub("", match[4])))
        read = tuple(types.get(name, "") for name in operands)
        place = (*sites[tail[1]], bool(tail[2]))
        yield Definition(match[3], results, operands, own, read, *place)
