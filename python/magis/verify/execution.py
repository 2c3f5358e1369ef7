"""The order in which a text is executed: a program's or a graph's, bodies of loops once an
iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magis.errors import PlanError
from magis.verify.document import Copy, Document, Free, Operation, Run
from magis.verify.loops import BEGIN, END
from magis.verify.operators import check_bodies

if TYPE_CHECKING:
    from magis.verify.evaluator import Machine


class Step(NamedTuple):
    """What is executed: an operator by a statement, or the end of lifetimes."""

    operation: Operation | None
    run: Run
    freed: tuple[Copy, ...] = ()

    def is_bound(self, operator: str) -> bool:
        return self.operation is not None and self.operation.operator == operator


def steps(document: Document) -> list[Step]:
    """The program, or each operator of the graph once, loops not unrolled."""
    if document.program is None:
        return [Step(op, Run(name, op.line)) for name, op in document.operators.items()]
    found = []
    for statement in document.program:
        if isinstance(statement, Free):
            found.append(Step(None, Run("", statement.line), statement.copies))
            continue
        if statement.operation not in document.operators:
            raise PlanError(f"line {statement.line}: {statement} names no operator's first result")
        found.append(Step(document.operators[statement.operation], statement))
    return found


def execute(machine: Machine) -> None:
    """Runs all that the machine's document says, bodies of loops once an iteration."""
    document = machine.document
    check_bodies(document)
    sequence = steps(document)
    ends = {step.run.operation: i for i, step in enumerate(sequence) if step.is_bound(END)}

    def walk(position: int, stop: int) -> None:
        while position < stop:
            operation, run, freed = step = sequence[position]
            if operation is not None:
                machine.run(operation, run)
            for copy in freed:
                machine.free(copy)
            if operation is not None and step.is_bound(BEGIN):
                loop = document.loops[str(operation.args[0])]
                end = ends.get(loop.end.results[0], -1)
                if not position < end < stop:
                    raise PlanError(f"line {run.line}: {run}: the program does not end {loop.name}")
                for _ in machine.iterate(loop, sequence[end].run):
                    walk(position + 1, end)
                position = end
            else:
                position += 1

    walk(0, len(sequence))
