"""Loops in a plan's program: bodies run as a whole, and leave the world outside as it was."""

from __future__ import annotations

from dataclasses import dataclass, field

from magis.errors import PlanError
from magis.verify.document import (
    Await,
    Copy,
    Document,
    Free,
    Load,
    Loop,
    Operation,
    Run,
    Statement,
    Store,
)
from magis.verify.loops import BEGIN, END


@dataclass
class _Body:
    """Of a loop that has begun and not ended."""

    loop: Loop
    begin: Run
    read: dict[str, Copy]  # which copy of each tensor from outside it begins with
    made: dict[Copy, None] = field(default_factory=dict)  # inside, and still live


class OpenBodies:
    """Follows a program's statements through its loops.

    The methods raise PlanError naming the statement that breaks a rule.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.open: list[_Body] = []
        self.over: set[str] = set()  # names of the loops that have ended

    def run(self, run: Run, operation: Operation, reads: list[Copy], makes: list[Copy]) -> None:
        """Takes note of one run. An operator belongs where it stands in the graph; what it reads
        from outside is the copy that each loop began with."""
        if operation.operator == END:
            self._leave(run, operation, reads)
        self._check_place(run)
        for body in self.open:
            self._check_reads(run, body, reads)
        if self.open:
            self.open[-1].made.update(dict.fromkeys(makes))
        if operation.operator == BEGIN:
            loop = self.document.loops[str(operation.args[0])]
            self.open.append(_Body(loop, run, {copy.tensor: copy for copy in reads}))

    def move(self, statement: Store | Load | Await, copy: Copy) -> None:
        """A statement moves `copy` to the host or back: in the body in which its tensor is made."""
        belongs = self.document.loops_around(self.document.maker.get(copy.tensor, ""))
        if belongs != [body.loop.name for body in self.open]:
            place = f"inside the loop {belongs[-1]}" if belongs else "outside all loops"
            raise _error(statement, f"%{copy.tensor} is made {place} and stays there")
        if self.open and isinstance(statement, Load):
            self.open[-1].made[copy] = None

    def end(self, statement: Run | Free, copy: Copy) -> None:
        """A statement ends the lifetime of `copy`: inside a loop, of what the iteration made."""
        if not self.open:
            return
        body = self.open[-1]
        if copy not in body.made:
            message = f"{copy} was made outside the loop {body.loop.name} and is gone in its next"
            raise _error(statement, f"{message} iteration")
        del body.made[copy]

    def finish(self) -> None:
        if self.open:
            body = self.open[-1]
            raise _error(body.begin, f"the program does not end the loop {body.loop.name}")

    def _leave(self, run: Run, operation: Operation, reads: list[Copy]) -> None:
        if not self.open or self.open[-1].loop.end is not operation:
            inside = f"{self.open[-1].loop.name} is the innermost one" if self.open else "none is"
            raise _error(run, f"the loop {operation.args[0]} is not open here, {inside}")
        body = self.open.pop()
        self.over.add(body.loop.name)
        self._check_reads(run, body, reads)
        for copy in body.made:
            raise _error(
                run, f"{copy} was made in the loop {body.loop.name} and is not freed there"
            )

    def _check_place(self, run: Run) -> None:
        belongs = self.document.loops_around(run.operation)
        inside = [body.loop.name for body in self.open]
        for name in belongs:
            if name not in inside:
                state = "is over" if name in self.over else "has not begun"
                raise _error(run, f"%{run.operation} belongs to the loop {name}, which {state}")
        if belongs != inside:
            name = next(name for name in inside if name not in belongs)
            again = "again " if run.copy else ""
            raise _error(
                run, f"%{run.operation} belongs outside the loop {name}, but runs {again}inside"
            )

    def _check_reads(self, run: Run, body: _Body, reads: list[Copy]) -> None:
        for copy in reads:
            first = body.read.get(copy.tensor, copy)
            if first != copy:
                raise _error(run, f"reads {copy}, but the loop {body.loop.name} began with {first}")


def _error(statement: Statement, message: str) -> PlanError:
    return PlanError(f"line {statement.line}: {statement}: {message}")
