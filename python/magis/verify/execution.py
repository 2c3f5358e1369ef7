"""The order in which a text is executed: a program's or a graph's, bodies of loops once an
iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magis.errors import PlanError
from magis.verify.document import Await, Document, Free, Load, Operation, Run, Statement, Store
from magis.verify.loops import BEGIN, END
from magis.verify.operators import check_bodies

if TYPE_CHECKING:
    from magis.verify.evaluator import Machine


def statements(document: Document) -> list[Statement]:
    """The program, or each operator of the graph once; loops not unrolled. Raises PlanError naming
    the statement if it runs what is no operator."""
    if document.program is None:
        return [Run(name, op.line) for name, op in document.operators.items()]
    for statement in document.program:
        if isinstance(statement, Run) and statement.operation not in document.operators:
            raise PlanError(f"line {statement.line}: {statement} names no operator's first result")
    return document.program


def execute(machine: Machine) -> None:
    """Runs all that the machine's document says, bodies of loops once an iteration."""
    document = machine.document
    check_bodies(document)
    sequence = statements(document)

    def bound(position: int, operator: str) -> Operation | None:
        """The operator that runs there, if it is this one."""
        statement = sequence[position]
        if not isinstance(statement, Run):
            return None
        operation = document.operators[statement.operation]
        return operation if operation.operator == operator else None

    ends = {end.results[0]: i for i in range(len(sequence)) if (end := bound(i, END))}

    def walk(position: int, stop: int) -> None:
        while position < stop:
            statement = sequence[position]
            _step(machine, statement)
            begin = bound(position, BEGIN)
            if begin is None:
                position += 1
                continue
            loop = document.loops[str(begin.args[0])]
            end = ends.get(loop.end.results[0], -1)
            if not position < end < stop:
                where = f"line {statement.line}: {statement}"
                raise PlanError(f"{where}: the program does not end {loop.name}")
            last = sequence[end]
            assert isinstance(last, Run)
            for _ in machine.iterate(loop, last):
                walk(position + 1, end)
            position = end

    walk(0, len(sequence))


def _step(machine: Machine, statement: Statement) -> None:
    match statement:
        case Run():
            machine.run(machine.document.operators[statement.operation], statement)
        case Free():
            machine.free(statement)
        case Store():
            machine.host.store(statement)
        case Load():
            machine.host.load(statement)
        case Await():
            machine.host.arrive(statement)
