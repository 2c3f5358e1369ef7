"""Times of the operators of a plan while it runs: its generated code with a clock read after every
statement.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType

from magis.errors import PlanError

MARK = "magis_mark"


class StepClock:
    """Sums up seconds by statement of the program."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last = 0.0
        self.seconds: list[float] = []

    def start(self, statements: int) -> None:
        """Before a step."""
        self.seconds = [0.0] * statements
        self._last = self._now()

    def mark(self, statement: int) -> None:
        """What was done since the last mark is of `statement`; below 0: of none."""
        now = self._now()
        if statement >= 0:
            self.seconds[statement] += now - self._last
        self._last = now


def timed_code(source: str, statements: int, file_name: str) -> CodeType:
    """`source`, a plan's module, compiled with a call of `magis_mark(n)` after what each of its
    program's `statements` makes; n numbers those that run an operator. Giving memory back counts
    for the statement before.

    Raises PlanError if the code does not have that many.
    """
    module = ast.parse(source)
    step = next(
        node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "step"
    )
    count = _mark_body(step.body, 0)
    if count != statements:
        raise PlanError(f"the code runs {count} operators, the program {statements}")
    code: CodeType = compile(ast.fix_missing_locations(module), file_name, "exec")
    return code


def _mark_body(body: list[ast.stmt], number: int) -> int:
    marked: list[ast.stmt] = []
    for node in body:
        marked.append(node)
        if isinstance(node, ast.For):
            number = _mark_body(node.body, number)
        elif isinstance(node, ast.Delete) and number > 0:
            marked.append(_mark(number - 1))
        elif _runs_operator(node):
            marked.append(_mark(number))
            number += 1
        elif not isinstance(node, ast.Return):
            marked.append(_mark(-1))
    body[:] = marked
    return number


def _runs_operator(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):  # the first part is copied, the others are added
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    function = ast.unparse(node.value.func)
    # What allocates results of a loop, and what says how long a part is, belongs to the loop.
    is_loops = function == "min" or function.startswith("torch.empty(") or function == "torch.empty"
    return not is_loops


def _mark(number: int) -> ast.stmt:
    call = ast.Call(ast.Name(MARK, ast.Load()), [ast.Constant(number)], [])
    return ast.Expr(call)
