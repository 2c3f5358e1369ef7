"""Random swapping put into a plan's text, without the core: tensors leave for the host between two
uses, and come back.

Everything that the language allows, also what no search would do: stores long after a tensor is
made, awaits at any moment, loads while the original is still there, one tensor away several times.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from magis.verify.document import Copy, Document, Run
from magis.verify.text import parse


@dataclass
class Swapped:
    """A plan whose tensors leave the device `gaps` times."""

    text: str
    gaps: int


@dataclass
class _Gap:
    """Of `copy`, between the runs `previous` and `use`; places are in front of runs."""

    copy: Copy
    previous: int
    use: int
    release: int
    load: int
    body: str | None
    loaded: Copy = field(default_factory=lambda: Copy(""))  # what comes back


@dataclass
class _Place:
    """What is said in front of a run."""

    stores: list[str] = field(default_factory=list)
    releases: list[Copy] = field(default_factory=list)  # awaited
    loads: list[str] = field(default_factory=list)
    arrivals: list[Copy] = field(default_factory=list)  # awaited


def swapped(text: str, rng: random.Random, *, share: float = 0.3) -> Swapped:
    """`text`, a plan that swaps nothing, with about `share` of the gaps that it has room for."""
    document = parse(text)
    program = _Program(document)
    chosen = [gap for gap in program.gaps(rng) if rng.random() < share]
    graph = text.partition("\nprogram\n")[0]
    return Swapped("\n".join([graph, "program", *program.lines(chosen, rng), ""]), len(chosen))


class _Program:
    """The runs of a plan, and which copies each reads, makes and overwrites."""

    def __init__(self, document: Document) -> None:
        assert document.program is not None
        self.document = document
        self.runs = [s for s in document.program if isinstance(s, Run)]
        assert len(self.runs) == sum(not str(s).startswith("free") for s in document.program)
        self.operators = [document.operators[run.operation] for run in self.runs]
        self.inputs = {value.name for value in document.inputs}
        self.outputs = {document.owner(output.name) for output in document.outputs}
        self.reads = [self._reads(position) for position in range(len(self.runs))]
        self.makes = [
            [Copy(r, run.copy) for r in op.results if document.types[r] is not None]
            for run, op in zip(self.runs, self.operators, strict=True)
        ]
        self.bodies = [self._body_of_place(position) for position in range(len(self.runs))]
        self.maker = {r: name for name, op in document.operators.items() for r in op.results}
        self.numbers: dict[str, int] = defaultdict(int)  # the highest copy of each operator's
        for run in self.runs:
            self.numbers[run.operation] = max(self.numbers[run.operation], run.copy)
        self.read_apart: dict[tuple[int, Copy], Copy] = {}  # by a run: a copy loaded for it alone

    def _reads(self, position: int) -> list[Copy]:
        numbers = dict(self.runs[position].reading)
        owners = self.document.read_tensors(self.operators[position])
        return [Copy(tensor, numbers.get(tensor, 0)) for tensor in owners]

    def _body(self, operation: str) -> str | None:
        return next(iter(self.document.loops_around(operation)[::-1]), None)

    def _body_of_place(self, position: int) -> str | None:
        """The loop in which what stands in front of a run stands."""
        operator = self.operators[position]
        if operator.operator == "magis.end":
            return str(operator.args[0])
        return self._body(operator.results[0])

    def gaps(self, rng: random.Random) -> list[_Gap]:
        """One at a random place for every two uses of a copy that leave room for it."""
        uses: dict[Copy, list[int]] = defaultdict(list)
        for position in range(len(self.runs)):
            for copy in [*self.reads[position], *self.makes[position]]:
                uses[copy].append(position)
        found = []
        for copy, positions in uses.items():
            if not self._may_leave(copy.tensor):
                continue
            body = self._body(self.maker[copy.tensor])
            for previous, use in pairwise(positions):
                if self.bodies[use] != body or not self._is_outside(previous, body):
                    continue
                places = [p for p in range(previous + 1, use + 1) if self.bodies[p] == body]
                release, load = sorted(rng.choices(places, k=2))
                found.append(_Gap(copy, previous, use, release, load, body))
        return found

    def _is_outside(self, position: int, body: str | None) -> bool:
        """What follows a run stands in `body`."""
        return self._body(self.runs[position].operation) == body

    def _may_leave(self, tensor: str) -> bool:
        type_ = self.document.types[tensor]
        if type_ is None or tensor in self.inputs or tensor in self.outputs:
            return False
        sizes = [(s, n) for s, n in zip(type_.strides, type_.shape, strict=True) if n != 1]
        step = 1
        for stride, length in sorted(sizes):
            if stride != step:
                return False
            step *= length
        whole = type_.minimal_storage(type_.dtype, type_.shape, type_.strides, 0)
        return type_.offset == 0 and type_.storage == whole > 0

    def lines(self, gaps: list[_Gap], rng: random.Random) -> list[str]:
        """The program with these gaps."""
        for gap in sorted(gaps, key=lambda gap: gap.load):
            gap.loaded = self._new_copy(gap.copy.tensor)
        places = [_Place() for _ in self.runs]
        for gap in gaps:
            self._come_back(gap.loaded, gap.load, gap.use, places, rng)
        tensors: dict[str, list[_Gap]] = defaultdict(list)
        for gap in gaps:
            tensors[gap.copy.tensor].append(gap)
        for group in tensors.values():
            self._leave(sorted(group, key=lambda gap: gap.release), places, rng)
        return self._with_frees(self._statements(gaps, places, rng))

    def _new_copy(self, tensor: str) -> Copy:
        self.numbers[self.maker[tensor]] += 1
        return Copy(tensor, self.numbers[self.maker[tensor]])

    def _held(self, gaps: list[_Gap], copy: Copy, position: int) -> Copy:
        """Which copy is there, of what was `copy`, when the run at `position` reads it."""
        passed = [gap for gap in gaps if gap.copy == copy and gap.use <= position]
        if not passed:
            return copy
        return max(passed, key=lambda gap: gap.use).loaded

    def _now(self, gaps: list[_Gap], copy: Copy, position: int) -> Copy:
        """What the run at `position` reads in place of `copy`."""
        return self.read_apart.get((position, copy)) or self._held(gaps, copy, position)

    def _places(self, first: int, last: int, body: str | None) -> list[int]:
        return [p for p in range(first, last + 1) if self.bodies[p] == body]

    def _come_back(
        self, copy: Copy, load: int, use: int, places: list[_Place], rng: random.Random
    ) -> None:
        """`copy` is loaded in front of one run and has to be there for another."""
        places[load].loads.append(f"load %{copy.tensor} as .{copy.number}")
        within = self._places(load, use, self.bodies[load])
        places[use if rng.random() < 0.5 else rng.choice(within)].arrivals.append(copy)

    def _leave(self, gaps: list[_Gap], places: list[_Place], rng: random.Random) -> None:
        """`gaps` of one tensor, first release first: that one waits for the store."""
        first = gaps[0]
        made = max(
            position
            for position in range(first.release)
            if first.copy in self.makes[position]
            or (first.copy in self.reads[position] and self._writes_or_ends(position, first.copy))
        )
        since = made + 1
        earlier = [g for g in gaps if g.copy == first.copy and g.use <= first.previous]
        assert not earlier
        stored = rng.choice(self._places(since, first.release, first.body))
        places[stored].stores.append(f"store {first.copy}")
        awaited = first.release
        if rng.random() < 0.25:
            awaited = rng.choice(self._places(stored, first.release, first.body))
        places[awaited].releases.append(first.copy)
        for gap in gaps[1:]:
            held = self._held(gaps, gap.copy, gap.previous)
            if rng.random() < 0.6:
                places[gap.release].releases.append(held)
        self._read_some_apart(gaps, stored, places, rng)

    def _read_some_apart(
        self, gaps: list[_Gap], stored: int, places: list[_Place], rng: random.Random
    ) -> None:
        """A few runs read a copy that is loaded for them alone, whatever else is there."""
        tensor, body = gaps[0].copy.tensor, gaps[0].body
        for position in range(stored, len(self.runs)):
            copies = [copy for copy in self.reads[position] if copy.tensor == tensor]
            taken = any(gap.use == position for gap in gaps) or self.bodies[position] != body
            begins = self.operators[position].operator == "magis.begin"
            if not copies or taken or begins or rng.random() > 0.15:
                continue
            apart = self._new_copy(tensor)
            self.read_apart[position, copies[0]] = apart
            load = rng.choice(self._places(stored, position, body))
            self._come_back(apart, load, position, places, rng)

    def _writes_or_ends(self, position: int, copy: Copy) -> bool:
        """A loop's result is complete where the loop ends."""
        operator = self.operators[position]
        loops = self.document.loops.values()
        begun = next((loop for loop in loops if copy.tensor in loop.results), None)
        return begun is not None and operator is begun.end

    def _statements(
        self, gaps: list[_Gap], places: list[_Place], rng: random.Random
    ) -> list[tuple[str, list[Copy], Copy | None]]:
        """Lines, the copies that each names, and what it runs over."""
        said: list[tuple[str, list[Copy], Copy | None]] = []
        for position, place in enumerate(places):
            rng.shuffle(place.stores)
            said += [(line, _named(line), None) for line in place.stores]
            moves = [*place.loads, *_awaits(place.releases, rng)]
            rng.shuffle(moves)
            said += [(line, _named(line), None) for line in moves]
            said += [(line, _named(line), None) for line in _awaits(place.arrivals, rng)]
            run = self.runs[position]
            reads = [self._now(gaps, copy, position) for copy in self.reads[position]]
            line = f"run %{run.operation}" + (f" as .{run.copy}" if run.copy else "")
            numbered = [str(copy) for copy in reads if copy.number]
            line += f" reading {', '.join(numbered)}" if numbered else ""
            over = None
            if run.over is not None:
                over = self._now(gaps, run.over, position)
            said.append((line, [*reads, *self.makes[position]], over))
        return said

    def _with_frees(self, said: list[tuple[str, list[Copy], Copy | None]]) -> list[str]:
        last = {copy: i for i, (_, copies, _) in enumerate(said) for copy in copies}
        lines = []
        for index, (line, copies, over) in enumerate(said):
            dying = [copy for copy in dict.fromkeys(copies) if last[copy] == index]
            dying = [copy for copy in dying if copy.tensor not in self.inputs]
            dying = [copy for copy in dying if copy.tensor not in self.outputs or copy.number]
            lines.append(line + (f" over {over}" if over in dying else ""))
            dying = [copy for copy in dying if copy != over]
            if dying:
                lines.append(f"free {', '.join(map(str, dying))}")
        return lines


def _awaits(copies: list[Copy], rng: random.Random) -> list[str]:
    """One statement for all, or one for each."""
    words = [str(copy) for copy in copies]
    if len(words) > 1 and rng.random() < 0.5:
        words = [", ".join(words)]
    return [f"await {word}" for word in words]


def _named(line: str) -> list[Copy]:
    """The copies in a line that moves some."""
    _, *words = line.replace(",", "").split()
    if len(words) == 3 and words[1] == "as":
        return [Copy(words[0][1:], int(words[2][1:]))]
    return [_copy(word) for word in words]


def _copy(word: str) -> Copy:
    name, _, number = word[1:].partition(".")
    return Copy(name, int(number or 0))


def count(lines: Iterable[str], word: str) -> int:
    """Statements that begin with this word."""
    return sum(line.startswith(word + " ") for line in lines)
