"""Optimal checkpointing of the chain of stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from planners.budgets import Candidates, program_order_range, rewritten_problem, search_budgets
from planners.chain import Chain, ChainStep, StageFigures, chain_of, figures_of
from planners.exact import Rotor, Stage
from planners.planner import Outcome, Task
from planners.problem import Problem, Step
from planners.recompute import eager_order

STAGES = 48
UNITS = 400  # of memory, up to the peak of program order


@dataclass(frozen=True)
class OptimalChain:
    name: ClassVar[str] = "rotor"
    published: ClassVar[str] = "Beaumont et al., Inria report 9302, 2019"
    simplified: ClassVar[str] = (
        f"Its dynamic programme, exact for chains. The chain has {STAGES} stages at most, cut where"
        " one tensor holds 95 % of the bytes that cross; what crosses beside it is kept. Memory is"
        f" counted in {UNITS} units, rounded up, and what a stage holds is measured with all else"
        " saved; gradients of weights are in the budget. Between cuts nothing is chosen."
    )

    def plan(self, task: Task) -> Outcome:
        problem = rewritten_problem(task)
        candidates = Candidates(task)
        candidates.add(problem, eager_order(problem), "nothing is recomputed")
        planner = RotorOfChain(chain_of(problem, STAGES))
        search_budgets(candidates, problem, planner.program, *program_order_range(problem))
        return candidates.outcome()


class RotorOfChain:
    """Rotor's table for all budgets up to what program order takes."""

    def __init__(self, chain: Chain, units: int = UNITS) -> None:
        self.chain = chain
        self.problem: Problem = chain.problem
        figures = figures_of(chain)
        most = self.problem.baseline.peak_bytes - self.problem.persistent_bytes
        self.unit = max(1, most // units)
        self.rotor = Rotor([self.stage(figure) for figure in figures], units)

    def stage(self, figures: StageFigures) -> Stage:
        def units(count: int) -> int:
            return -(-count // self.unit)

        return Stage(
            forward=figures.forward,
            backward=figures.backward,
            activation=units(figures.activation),
            saved=units(figures.saved),
            gradient=units(figures.waiting),
            forward_memory=units(figures.forward_memory),
            backward_memory=units(figures.backward_memory),
            passing_memory=units(figures.passing_memory),
        )

    def program(self, budget: int) -> tuple[Sequence[Step], str] | None:
        units = min(self.rotor.most, (budget - self.problem.persistent_bytes) // self.unit)
        if units < 0 or np.isinf(self.rotor.seconds(units)):
            return None
        steps = [ChainStep(step.backward, step.stage) for step in self.rotor.steps(units)]
        again = sum(not step.backward for step in steps) - len(self.chain.stages)
        note = f"{len(self.chain.stages)} stages, {again} times forward again"
        return self.chain.program(steps), note
