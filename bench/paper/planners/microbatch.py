"""Gradient accumulation: the batch in equal parts, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import magis._core as core
from planners.budgets import (
    Candidates,
    Made,
    program_order_range,
    rewritten_problem,
    search_budgets,
)
from planners.chain import chain_of
from planners.planner import Outcome, Task
from planners.pofo import STAGES, OffloadingOfChain
from planners.problem import Problem
from planners.recompute import eager_order


@dataclass(frozen=True)
class MicroBatches:
    parts: tuple[int, ...] = ()  # numbers of parts to choose from; none: 2, 4, 8, ...
    name: str = "microbatch"
    published: str = "Huang et al. (GPipe's micro-batches), NeurIPS 2019"
    simplified: str = (
        "The forward and the backward pass of each part in turn, nothing recomputed; gradients are"
        " added up into one accumulator each, without a temporary where a product allows it, which"
        " is better than PyTorch's accumulation. Numbers of parts are powers of two unless one is"
        " asked for. What normalises over the batch would compute something else in parts: it is"
        " left whole, and with it what stands on its other side."
    )

    def plan(self, task: Task) -> Outcome:
        candidates = Candidates(task)
        whole = rewritten_problem(task)
        if not self.parts:
            candidates.add(whole, eager_order(whole), "one part")
        for count, problem in splits(whole, self.parts):
            candidates.add(problem, problem.program_order, f"{count} parts")
            candidates.add(problem, eager_order(problem), f"{count} parts")
        return candidates.outcome("the batch cannot run in parts")


@dataclass(frozen=True)
class MicroBatchesOffloaded:
    parts: tuple[int, ...] = ()
    name: str = "microbatch+pofo"
    published: str = "Huang et al., NeurIPS 2019, and Beaumont et al., NeurIPS 2021"
    simplified: str = (
        "Each part's step as pofo plans it, all parts alike, as they are one loop; copies of one"
        " part do not overlap with the next one's operators. Numbers of parts as for microbatch,"
        " those that are left when time is up not tried."
    )

    def plan(self, task: Task) -> Outcome:
        candidates = Candidates(task)
        whole = rewritten_problem(task)
        counts = self.parts or PARTS
        if not self.parts:
            candidates.add(whole, eager_order(whole), "one part")
        for tried, (count, problem) in enumerate(splits(whole, counts)):
            candidates.add(problem, eager_order(problem), f"{count} parts, nothing recomputed")
            share = candidates.seconds_left / max(1, len(counts) - tried)
            if share <= 0:
                break
            until = candidates.elapsed + share
            offloading = OffloadingOfChain(
                chain_of(problem, STAGES), lambda until=until: candidates.elapsed < until
            )

            def make(budget: int, count: int = count, of: OffloadingOfChain = offloading) -> Made:
                made = of.program(budget)
                return None if made is None else (made[0], f"{count} parts, {made[1]}")

            search_budgets(candidates, problem, make, *program_order_range(problem), share)
        return candidates.outcome("the batch cannot run in parts")


PARTS = (2, 4, 8, 16, 32)


def splits(problem: Problem, parts: tuple[int, ...]) -> Iterator[tuple[int, Problem]]:
    """The graph with the batch in that many parts, as far as that goes."""
    regions = core.fission_regions(problem.graph, device=problem.device, limit=1)
    for count in parts or (2**i for i in range(1, 12)):
        try:
            graph = regions.split_batch(count)
        except core.UserError:
            if parts:
                continue
            return
        yield count, Problem.of(graph, problem.device)
