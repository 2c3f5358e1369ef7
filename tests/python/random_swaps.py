"""Random absences from the device, put into any plan's text without the core.

A tensor of the plan is stored once, somewhere after it is complete; before some of its later uses
it is let go and loaded back as a new copy. All of it happens in the body in which the tensor is
made.
"""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from magis.verify.document import Copy, Document, Free, Run, Type
from magis.verify.text import parse


@dataclass
class _Lifetime:
    """One copy: the statement that completes it, the runs that read it, where it ends."""

    copy: Copy
    level: str  # the loop in whose body it is made; "": outside all
    made: int
    uses: list[int] = field(default_factory=list)
    end: int | None = None  # the free, or the run that overwrites it; none: never


class _Swapper:
    def __init__(self, document: Document, seed: int, share: float) -> None:
        assert document.program is not None
        self.document, self.program = document, document.program
        self.random = random.Random(seed)
        self.share = share
        self.levels: list[str] = []  # of the place before each statement
        self.lifetimes: dict[Copy, _Lifetime] = {}
        self.copies: Counter[str] = Counter()  # of each operator's results
        # Put in before each statement, in this order: what takes memory comes last, so that the
        # run which follows tells of it.
        self.leaving: defaultdict[int, list[str]] = defaultdict(list)
        self.loading: defaultdict[int, list[str]] = defaultdict(list)
        self.arriving: defaultdict[int, list[str]] = defaultdict(list)
        self.names: dict[tuple[int, Copy], Copy] = {}  # (statement, copy) -> what it is called now

    def text(self) -> str:
        self._read_program()
        chosen: set[str] = set()
        for copy, lifetime in self.lifetimes.items():
            worth_it = copy.tensor not in chosen and self.random.random() < self.share
            if worth_it and self._swappable(copy) and self._swap(lifetime):
                chosen.add(copy.tensor)
        lines = []
        for number, statement in enumerate(self.program):
            lines += [*self.leaving[number], *self.loading[number], *self.arriving[number]]
            lines.append(self._renamed(number, statement))
        return "\n".join(lines)

    def _operands(self, run: Run) -> list[Copy]:
        named = {copy.tensor: copy for copy in run.reading}
        operation = self.document.operators[run.operation]
        return [named.get(t, Copy(t)) for t in self.document.read_tensors(operation)]

    def _read_program(self) -> None:
        stack = [""]
        begins = {loop.begin.results[0]: name for name, loop in self.document.loops.items()}
        ends = {loop.end.results[0]: name for name, loop in self.document.loops.items()}
        for number, statement in enumerate(self.program):
            self.levels.append(stack[-1])
            if isinstance(statement, Free):
                for copy in statement.copies:
                    self.lifetimes[copy].end = number
                continue
            for copy in self._operands(statement):
                if copy in self.lifetimes:
                    self.lifetimes[copy].uses.append(number)
            if statement.over is not None:
                self.lifetimes[statement.over].end = number
            if statement.operation in ends:
                stack.pop()
                for result in self.document.loops[ends[statement.operation]].results:
                    lifetime = self.lifetimes[Copy(result)]
                    lifetime.made, lifetime.uses = number, []
            self.copies[statement.operation] = max(
                self.copies[statement.operation], statement.copy + 1
            )
            operation = self.document.operators[statement.operation]
            for result, type_ in zip(operation.results, operation.types, strict=True):
                if type_ is not None:
                    copy = Copy(result, statement.copy)
                    self.lifetimes[copy] = _Lifetime(copy, stack[-1], number)
            if statement.operation in begins:
                stack.append(begins[statement.operation])

    def _swappable(self, copy: Copy) -> bool:
        outputs = {self.document.owner(output.name) for output in self.document.outputs}
        type_ = self.document.types[copy.tensor]
        return copy.tensor not in outputs and type_ is not None and _is_dense(type_)

    def _swap(self, lifetime: _Lifetime) -> bool:
        """Puts in one gap or several, each before a use."""
        producer = next(
            op for op in self.document.operators.values() if lifetime.copy.tensor in op.results
        ).results[0]
        held, since = lifetime.copy, lifetime.made
        uses = [use for use in lifetime.uses if self.levels[use] == lifetime.level]
        for use in uses:
            gap = self._gap(lifetime, since, use)
            if gap is not None:
                release, load = gap
                if held == lifetime.copy:
                    stored = self.random.choice(self._places(lifetime.level, since, release))
                    self.leaving[stored].append(f"store {held}")
                self.leaving[release] += [f"await {held}", f"free {held}"]
                held = Copy(held.tensor, self.copies[producer])
                self.copies[producer] += 1
                self.loading[load].append(f"load %{held.tensor} as .{held.number}")
                self.arriving[use].append(f"await {held}")
            since = use
            for number in lifetime.uses:  # those in loops inside, too
                if number >= use:
                    self.names[number, lifetime.copy] = held
        if held != lifetime.copy and lifetime.end is not None:
            self.names[lifetime.end, lifetime.copy] = held
        return held != lifetime.copy

    def _gap(self, lifetime: _Lifetime, since: int, use: int) -> tuple[int, int] | None:
        """(let go before this statement, loaded before that one), none in most cases."""
        places = self._places(lifetime.level, since, use)
        # What takes memory back is told by the next run: a free in between would hide it.
        loads = [place for place in places if isinstance(self.program[place], Run)]
        inside = [n for n in lifetime.uses if since < n < use]
        if not loads or inside or self.random.random() < 0.3:
            return None
        load = self.random.choice(loads)
        return self.random.choice([place for place in places if place <= load]), load

    def _places(self, level: str, since: int, last: int) -> list[int]:
        """Statements of that body, after `since` and not after `last`."""
        return [n for n in range(since + 1, last + 1) if self.levels[n] == level]

    def _renamed(self, number: int, statement: Run | Free) -> str:
        def now(copy: Copy) -> Copy:
            return self.names.get((number, copy), copy)

        if isinstance(statement, Free):
            copies = [now(copy) for copy in statement.copies]
            return str(replace(statement, copies=tuple(copies)))
        operands = [now(copy) for copy in self._operands(statement)]
        over = None if statement.over is None else now(statement.over)
        reading = tuple(copy for copy in operands if copy.number)
        return str(replace(statement, reading=reading, over=over))


def _is_dense(type_: Type) -> bool:
    """Its elements fill its storage from the beginning, each at a place of its own."""
    dims = [(s, d) for s, d in zip(type_.strides, type_.shape, strict=True) if d != 1]
    step = 1
    for stride, length in sorted(dims):
        if stride != step or length == 0:
            return False
        step *= length
    minimal = Type.minimal_storage(type_.dtype, type_.shape, type_.strides, type_.offset)
    return type_.offset == 0 and type_.storage == minimal


def random_swaps(plan_text: str, seed: int, *, share: float = 0.3) -> str:
    """The plan with about `share` of its tensors absent for a while."""
    head, _, _ = plan_text.partition("\nprogram\n")
    return f"{head}\nprogram\n{_Swapper(parse(plan_text), seed, share).text()}\n"
