"""The loops that a graph is split into, read off its text (ARCHITECTURE.md, "Fission")."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from math import prod

_STRING = r'("(?:[^"\\]|\\.)*")'
_SITE = re.compile(rf"^site @(\d+) {_STRING} {_STRING}")
_OPERATION = re.compile(r"^%(\w+)((?:, %\w+)*) = ([\w.]+)\(")
_BEGIN = re.compile(r'^(%.+) = magis\.begin\("(\w+)", (\d+), (\d+)((?:\*\w+)*), ')
_SLICE = re.compile(r"^%\w+ = magis\.part\(%(\w+), (\d+), (\d+)(?:\*\w+)*\*(\w+)\)")
_WRITTEN = re.compile(r"^%\w+ = magis\.(\w+_part)\(%(\w+), ")
_ATTRIBUTES = re.compile(r" : \S.*?(?: @(\d+))?( backward)?(?: scratch \d+)?$")


@dataclass(frozen=True)
class SplitLoop:
    """One loop, in units of the axis that it walks."""

    name: str
    part: int  # of an iteration; the last may be shorter
    length: int  # of the axis; in a loop inside another, for a full part of that

    @property
    def part_count(self) -> int:
        return -(-self.length // self.part)

    def __str__(self) -> str:
        return f"{self.name} ({self.part:,} of {self.length:,})"


@dataclass(frozen=True)
class Slice:
    """A loop walks this dimension of a value: a tensor, an input, or a view."""

    value: str
    dimension: int


@dataclass(frozen=True)
class LoopResult:
    """A tensor that a loop puts together; it lives from the loop's begin."""

    loop: str
    concatenated: bool  # or else combined: summed, for instance
    module: str  # of the operator whose parts it holds
    source: str
    backward: bool


@dataclass
class GraphLoops:
    loops: dict[str, SplitLoop] = field(default_factory=dict)
    # Loops in whose bodies an operator stands, by each of its results; outer before inner.
    around: dict[str, list[SplitLoop]] = field(default_factory=dict)
    # What each loop takes its parts of, by the loop's name.
    slices: defaultdict[str, list[Slice]] = field(default_factory=lambda: defaultdict(list))
    results: dict[str, LoopResult] = field(default_factory=dict)  # by name
    # Of what makes no tensor: writers of results in the backward pass, and ends of loops that hold
    # a part of it.
    backward: set[str] = field(default_factory=set)

    def parts(self, result: str) -> int:
        """How often the operator with this first result runs in a step: in all parts of the loops
        around it.
        """
        return prod(loop.part_count for loop in self.around.get(result, []))

    def place(self, result: str) -> str:
        """Where the operator with this first result runs: "in part of r1 (3 of 8)"; "" outside all
        loops."""
        around = self.around.get(result, [])
        return f"in part of {', '.join(map(str, around))}" if around else ""


def read_loops(text: str) -> GraphLoops:
    """From canonical text of a graph or a plan."""
    found = GraphLoops()
    sites = {"": ("", "")}
    open_loops: list[SplitLoop] = []
    with_backward: set[str] = set()
    for line in text.split("\n"):
        if site := _SITE.match(line):
            sites[site[1]] = tuple(json.loads(text, strict=False) for text in site.groups()[1:])
            continue
        operation = _OPERATION.match(line)
        if operation is None:
            continue
        if operation[3] == "magis.end":
            if open_loops.pop().name in with_backward:
                found.backward.add(operation[1])
            continue
        if open_loops:
            for name in (operation[1], *operation[2].replace(" %", "").split(",")[1:]):
                found.around[name] = list(open_loops)
        if sliced := _SLICE.match(line):
            found.slices[sliced[4]].append(Slice(sliced[1], int(sliced[2])))
        if begin := _BEGIN.match(line):
            open_loops.append(_loop(begin, found))
        module, source, backward = _attributes(line, sites)
        if backward:
            with_backward.update(loop.name for loop in open_loops)
        if written := _WRITTEN.match(line):
            concatenated = written[1] == "write_part"
            loop = open_loops[-1].name
            found.results[written[2]] = LoopResult(loop, concatenated, module, source, backward)
            if backward:
                found.backward.add(operation[1])
    return found


def _attributes(line: str, sites: dict[str, tuple[str, str]]) -> tuple[str, str, bool]:
    """Module and source line of an operator, and whether it is of the backward pass."""
    match = _ATTRIBUTES.search(line)
    if match is None:
        return "", "", False
    return *sites[match[1] or ""], bool(match[2])


def _loop(begin: re.Match[str], found: GraphLoops) -> SplitLoop:
    length = int(begin[4])
    for outer in begin[5].split("*")[1:]:
        length *= found.loops[outer].part
    found.loops[begin[2]] = SplitLoop(begin[2], int(begin[3]), length)
    return found.loops[begin[2]]
