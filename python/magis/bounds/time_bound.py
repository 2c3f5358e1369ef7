"""A certified bound on the time of a plan within a limit on memory (magis/report/time_bound.py)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from magis import _core
from magis.bounds.programme import Programme, require_solver
from magis.bounds.recomputation import Facts, Relaxation
from magis.report.time_bound import TimeBound

MOST_OPERATORS = 200  # about as many as take seconds
SECONDS = 10.0  # for each programme, of which there are at most two
# Shares that are taken for 0.
_NOTHING = 1e-9


def time_bound(plan: _core.Plan, device: _core.Device, memory_limit: int) -> TimeBound:
    """Of plans like `plan` within `memory_limit` bytes, inputs included.

    Raises MissingExtraError if HiGHS is not installed.
    """
    require_solver()
    if plan.host_bytes:
        return TimeBound(missing="the plan swaps, which may be faster than any that does not")
    count = plan.graph.operator_count
    if count > MOST_OPERATORS:
        return TimeBound(missing=f"{count:,} operators; it is found for {MOST_OPERATORS} at most")
    structure = _core.structure(plan.graph, device=device)
    facts = Facts.of(structure, first_runs(plan, structure))
    bound = bound_within(facts, memory_limit - structure.persistent_bytes)
    if bound.least_bytes is not None:
        bound = replace(bound, least_bytes=bound.least_bytes + structure.persistent_bytes)
    peak, seconds, _ = plan.footprint(device)
    if bound.seconds and peak <= memory_limit:
        bound = replace(bound, gap=max(0.0, seconds / bound.seconds - 1))
    return replace(bound, in_parts=plan.graph.loop_count > 0)


def bound_within(facts: Facts, limit: int) -> TimeBound:
    """Of an order, within `limit` bytes without inputs; a plan's gap is not known here."""
    limit = max(limit, 1)
    found = _solve(Relaxation(facts, limit).programme)
    if found.end == "none may fit":
        excess = _solve(Relaxation(facts, limit, excess=True).programme)
        if excess.proven > _NOTHING:
            return TimeBound(least_bytes=math.ceil(limit * (1 + excess.proven)))
    elif found.end == "too long" and found.proven < _NOTHING:
        return TimeBound(missing=f"it was not found within {SECONDS:.0f} s")
    again = found.proven if found.proven > _NOTHING else 0.0
    return TimeBound(seconds=math.fsum(facts.seconds) * (1 + again))


def first_runs(plan: _core.Plan, structure: _core.Structure) -> list[int]:
    """Every operator's number once, in the order in which a plan first runs them."""
    number = {op.name: i for i, op in enumerate(structure.operators)}
    # A copy's name has its number behind a dot.
    named = (statement.name.split(".")[0] for statement in plan.statements if statement.name)
    return list(dict.fromkeys(number[name] for name in named))


class _Solved(NamedTuple):
    end: Literal["optimal", "none may fit", "too long"]
    proven: float  # no solution costs less; 0 at least, as no cost is negative


def _solve(programme: Programme) -> _Solved:
    import highspy

    status = highspy.HighsModelStatus
    solver = programme.solve(SECONDS)
    # Rows without columns are not looked at: the programme of what the limit lacks has one.
    if solver.getModelStatus() in (status.kInfeasible, status.kModelEmpty):
        return _Solved("none may fit", 0.0)
    multipliers = np.array(solver.getSolution().row_dual)
    proven = programme.proven_minimum(multipliers) if multipliers.size else 0.0
    optimal = solver.getModelStatus() == status.kOptimal
    return _Solved("optimal" if optimal else "too long", max(0.0, proven))
