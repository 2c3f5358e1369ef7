"""A plan's operators timed while it runs."""

from __future__ import annotations

import torch

from magis import _core
from magis.runtime.compiled import CompiledPlan
from magis.timing.in_step import StepClock, seconds_of_runs

CPU = torch.device("cpu")

TEXT = """magis 1
device cpu
batch %x "x" : f32[8,4]
param %w "w" : f32[4,4]
%a = aten.mm(%x, %w) : f32[8,4]
%b = aten.relu(%a) : f32[8,4]
%y, %s = magis.begin("r1", 3, 8, [%b]) : f32[8,4], f32[4]
%p = magis.part(%b, 0, 1*r1) : f32[3,4]/128
%e = aten.exp(%p) : f32[3,4]
%t = aten.sum.dim_IntList(%e, [0]) : f32[4]
%n = magis.write_part(%y, 0, 1*r1, %e) : none
%m = magis.add_part(%s, %t) : none
%end = magis.end("r1", [%y, %s], [%b]) : none
output loss "" %s
output aux "" %y
"""
RUNS = ["aten.mm", "aten.relu", "aten.exp", "aten.sum.dim_IntList", "magis.write_part"]
RUNS += ["magis.add_part"]


class Ticking:
    """A clock that goes on by one at each reading."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 1.0
        return self.time


def test_every_operator_has_its_own_time() -> None:
    plan = _core.Plan.program_order(_core.Graph.parse(TEXT))
    costs = plan.run_costs("cpu")
    assert [key.partition("(")[0] for key, _ in costs] == RUNS
    compiled = CompiledPlan(plan, CPU)
    inputs = [torch.ones(8, 4), torch.eye(4)]
    plain = compiled(inputs)
    clock = StepClock(Ticking())
    with compiled.instrumented(clock):
        timed = compiled(inputs)
    for one, other in zip(plain, timed, strict=True):
        assert torch.equal(one, other)
    # Each mark reads the clock once. Memory given back after an operator takes one more reading;
    # what stands in the loop runs three times.
    seconds = seconds_of_runs(plan.statements, clock.seconds)
    assert len(seconds) == len(RUNS)
    assert seconds[0] == 1.0
    assert all(taken >= 3.0 for taken in seconds[2:])
    compiled(inputs)
    assert clock.seconds[0] == 1.0  # not timed any more


def test_every_statement_says_at_which_line_its_code_begins() -> None:
    plan = _core.Plan.program_order(_core.Graph.parse(TEXT))
    lines = plan.source("a heading\nof two lines").splitlines()
    begins = plan.source_lines("a heading\nof two lines")
    statements = plan.statements
    assert [(s.kind, s.name or s.copies) for s in statements] == [
        ("run", "a"),
        ("run", "b"),
        ("begin", "y"),
        ("run", "e"),
        ("run", "t"),
        ("run", "n"),
        ("free", ["e"]),
        ("run", "m"),
        ("free", ["t"]),
        ("end", "end"),
        ("free", ["b"]),
    ]
    assert statements[1].over == "a"
    assert (statements[2].loop, statements[2].iterations) == ("r1", 3)
    code = {}
    for statement, first, end in zip(statements, begins, [*begins[1:], len(lines)], strict=True):
        code[statement.name or f"free {statement.copies[0]}"] = "\n".join(
            lines[first - 1 : end - 1]
        )
    assert "aten_mm(x, w)" in code["a"]
    assert "relu_(a)" in code["b"]
    assert "torch.empty((8, 4)" in code["y"]
    assert "for " in code["y"]
    assert "aten_exp(" in code["e"]
    assert "copy_(e)" in code["n"]
    assert code["free e"].strip() == "del e"
    assert code["end"].strip() == ""
