"""A plan's operators timed while it runs: its generated code with a clock read after every
statement.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from magis import _core

MARK = "magis_mark"
PART = "magis_part"


class Marks(Protocol):
    """What marked code calls."""

    def start(self, statements: int) -> None:
        """Before a step of a program with so many statements."""

    def mark(self, statement: int) -> None:
        """What was done since the last call is of that statement; below 0: of none."""

    def part(self, begin: int) -> None:
        """A part of the loop that this statement begins starts."""


class StepClock:
    """Sums up seconds by statement of the program."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last = 0.0
        self.seconds: list[float] = []

    def start(self, statements: int) -> None:
        self.seconds = [0.0] * statements
        self._last = self._now()

    def mark(self, statement: int) -> None:
        now = self._now()
        if statement >= 0:
            self.seconds[statement] += now - self._last
        self._last = now

    def part(self, begin: int) -> None:
        self.mark(-1)


def seconds_of_runs(statements: Sequence[_core.Statement], seconds: Sequence[float]) -> list[float]:
    """Of what `Plan.run_costs` lists, from seconds by statement. Giving memory back counts for the
    operator before; what bounds a loop is left out.
    """
    runs: list[float] = []
    for statement, taken in zip(statements, seconds, strict=True):
        if statement.kind == "run":
            runs.append(taken)
        elif statement.kind == "free" and runs:
            runs[-1] += taken
    return runs


def marked_code(
    source: str, lines: list[int], statements: Sequence[_core.Statement], file_name: str
) -> CodeType:
    """`source`, a plan's code, compiled with a call of `magis_mark` after what each statement of
    its program makes, and one of `magis_part` where a part of a loop starts. lines: at which the
    statements begin.
    """
    module = ast.parse(source)
    step = next(
        node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "step"
    )
    _Marker(lines, loop_ends(statements)).mark_body(step.body)
    code: CodeType = compile(ast.fix_missing_locations(module), file_name, "exec")
    return code


class _Marker:
    def __init__(self, lines: list[int], ends: dict[int, int]) -> None:
        self._lines = lines  # at which statements begin
        self._ends = ends  # begin of a loop -> its end

    def mark_body(self, body: list[ast.stmt]) -> None:
        marked: list[ast.stmt] = []
        for node in body:
            statement = bisect_right(self._lines, node.lineno) - 1
            marked.append(node)
            if isinstance(node, ast.For):
                self.mark_body(node.body)
                node.body.insert(0, _call(PART, statement))
                marked.append(_call(MARK, self._ends[statement]))
            elif not isinstance(node, ast.Return):
                marked.append(_call(MARK, statement))
        body[:] = marked


def loop_ends(statements: Sequence[_core.Statement]) -> dict[int, int]:
    """Of loops, by the statements that begin them."""
    ends: dict[int, int] = {}
    open_loops: list[int] = []
    for number, statement in enumerate(statements):
        if statement.kind == "begin":
            open_loops.append(number)
        elif statement.kind == "end":
            ends[open_loops.pop()] = number
    return ends


def _call(name: str, statement: int) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), [ast.Constant(statement)], []))
