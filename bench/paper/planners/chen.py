"""Square-root checkpointing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from planners.budgets import Candidates, rewritten_problem
from planners.chain import Chain, chain_of
from planners.planner import Outcome, Task
from planners.recompute import crossing, eager_order, saving

STAGES = 200


@dataclass(frozen=True)
class SquareRoot:
    name: ClassVar[str] = "chen"
    published: ClassVar[str] = "Chen et al., arXiv 2016"
    simplified: ClassVar[str] = (
        "Its memory planning with a budget a segment: going forward, a segment ends at the first"
        " tensor that alone leads on once its results are larger than the budget, and only such"
        " tensors are saved. All segment counts that budgets give are tried, in the place of the"
        " publication's search around the square root. Recursion within segments is left out."
    )

    def plan(self, task: Task) -> Outcome:
        problem = rewritten_problem(task)
        candidates = Candidates(task)
        candidates.add(problem, eager_order(problem), "nothing is recomputed")
        chain = chain_of(problem, STAGES)
        for ends in segmentations(chain):
            if candidates.seconds_left <= 0:
                break
            note = f"{len(ends) + 1} segments of {len(chain.stages)} stages"
            candidates.add(problem, saving(problem, saved_by(chain, ends)), note)
        return candidates.outcome()


def segmentations(chain: Chain) -> list[list[int]]:
    """Stages after which segments end, the last segment's left out; the fewest segments first."""
    sizes = [
        sum(chain.problem.bytes[t] for op in stage.forward for t in chain.problem.makes[op])
        for stage in chain.stages
    ]
    total, count = sum(sizes), len(sizes)
    found: dict[tuple[int, ...], None] = {}
    for segments in range(1, count + 1):
        found.setdefault(tuple(_ends(sizes, total / segments)))
    return [list(ends) for ends in sorted(found, key=len)]


def _ends(sizes: Sequence[int], budget: float) -> list[int]:
    ends, held = [], 0
    for stage, size in enumerate(sizes[:-1]):
        held += size
        if held >= budget:
            ends.append(stage)
            held = 0
    return ends


def saved_by(chain: Chain, ends: Sequence[int]) -> set[int]:
    """The segments' ends, and all of the last segment, which goes backward at once."""
    problem = chain.problem
    saved = {chain.stages[stage].waist for stage in ends} | chain.carried
    last = {op for stage in chain.stages[(ends[-1] + 1 if ends else 0) :] for op in stage.forward}
    return saved | {t for t in crossing(problem) if problem.producer[t] in last}
