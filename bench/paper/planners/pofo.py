"""Recomputing and offloading on the chain of stages, by one dynamic programme."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from planners import rotor
from planners.budgets import Candidates, program_order_range, rewritten_problem, search_budgets
from planners.chain import Chain, ChainStep, chain_of, figures_of
from planners.planner import Outcome, Task
from planners.problem import Problem, Step
from planners.recompute import crossing, eager_order
from planners.rotor import RotorOfChain
from planners.swaps import Gap, place, squeezed, with_swaps

STAGES = 26
UNITS = 200  # of memory, in rotor's table
BEAM = 100  # states of each stage
SHARES = (1.0, 0.85, 0.7)  # of the room that there is


@dataclass(frozen=True)
class ChainOffloading:
    name: ClassVar[str] = "pofo"
    published: ClassVar[str] = "Beaumont et al., NeurIPS 2021"
    simplified: ClassVar[str] = (
        "Its setting: a chain, each stage's results kept, offloaded, or recomputed from the last"
        " ones that are not, and within what is recomputed rotor's table. The dynamic programme is"
        " ours: over stages, what is kept, what waits for the link going forward and what going"
        f" backward; {BEAM} states a stage are kept, {STAGES} stages at most. It waits for the link"
        " where memory asks for that. Within what is recomputed nothing is offloaded."
    )

    def plan(self, task: Task) -> Outcome:
        problem = rewritten_problem(task)
        candidates = Candidates(task)
        candidates.add(problem, eager_order(problem), "everything stays")
        limits = program_order_range(problem)
        alone = RotorOfChain(chain_of(problem, rotor.STAGES))  # if nothing is offloaded
        search_budgets(candidates, problem, alone.program, *limits, task.seconds / 5)
        offloading = OffloadingOfChain(
            chain_of(problem, STAGES), lambda: candidates.seconds_left > 0
        )
        search_budgets(candidates, problem, offloading.program, *limits)
        return candidates.outcome()


class State(NamedTuple):
    """When a stage has gone forward. In bytes: what is kept of the stages up to it, what of it is
    on its way to the host, and, seen from the end of the step, what has come back before it is
    needed."""

    seconds: float  # beside all stages going forward and backward once
    kept: float
    leaving: float
    back_early: float


class Block(NamedTuple):
    """Stages first .. last; alone, if all is saved, and then the last one is `first`."""

    first: int
    last: int
    saves_all: bool
    offloads: bool
    units: int  # of memory for rotor's table


Path = tuple["Path | None", Block]


class OffloadingOfChain:
    """`go_on` is asked before anything but the first try at a budget."""

    def __init__(self, chain: Chain, go_on: Callable[[], bool] = lambda: True) -> None:
        self.chain = chain
        self.go_on = go_on
        self.problem: Problem = chain.problem
        self.figures = figures_of(chain)
        self.rotor = RotorOfChain(chain, UNITS)
        self.leaves = self._what_may_leave()
        moved = [t for tensors in self.leaves for t in tensors]
        size = sum(self.problem.bytes[t] for t in moved)
        seconds = sum(self.problem.copy_seconds[t] for t in moved)
        # Bytes a second, latency included; 0: nothing is offloaded.
        self.rate = size / seconds if seconds and self.problem.copies_overlap else 0.0

    def program(self, budget: int) -> tuple[Sequence[Step], str] | None:
        """What leaves does so as a whole, not byte by byte as the dynamic programme takes it: where
        that makes the step wait, it is asked again for less room."""
        room = budget - self.problem.persistent_bytes
        found: list[tuple[bool, float, int, tuple[Sequence[Step], str]]] = []
        for share in SHARES:
            if found and not self.go_on():
                break
            blocks = self.best(int(room * share))
            if blocks is None:
                break
            for waits in (False, True):
                made = self._placed(blocks, room, waits)
                footprint = self.problem.footprint(made[0])
                over = footprint.peak_bytes > budget
                found.append((over, footprint.seconds, len(found), made))
                if not over and footprint.exposed_seconds == 0:
                    return min(found)[3]
        return min(found)[3] if found else None

    def _placed(
        self, blocks: Sequence[Block], room: int, waits: bool
    ) -> tuple[Sequence[Step], str]:
        """What cannot leave in time stays; or, with `waits`, it is away for a moment, which is made
        as long as it has to be."""
        steps = self.chain.program(self._chain_steps(blocks))
        turn = self._turn(steps)
        placed = []
        for p in place(self.problem, steps, list(self._gaps(blocks, steps))):
            if p.release < p.load:
                placed.append(p)
            elif waits and p.gap.after < turn and turn + 1 <= p.gap.before:
                placed.append(replace(p, release=turn, load=turn + 1, hidden=False))
        placed = squeezed(self.problem, steps, placed, room)
        again = sum(block.last - block.first + 1 for block in blocks if not block.saves_all)
        note = f"{len(placed)} tensors offloaded, {again} of {len(self.figures)} stages recomputed"
        return with_swaps(self.problem, steps, placed), note

    def best(self, room: int) -> list[Block] | None:
        """The least time in `room` bytes beside the inputs; None: nothing fits."""
        count = len(self.figures)
        fronts: list[list[tuple[State, Path | None]]] = [[] for _ in range(count + 1)]
        fronts[0] = [(State(0.0, 0.0, 0.0, 0.0), None)]
        for first in range(count):
            for state, path in self._thinned(fronts[first], room):
                for block, after in self._steps_from(state, first, room):
                    fronts[block.last + 1].append((after, (path, block)))
        if not fronts[count]:
            return None
        path = min(fronts[count], key=lambda entry: entry[0].seconds)[1]
        blocks = []
        while path is not None:
            path, block = path
            blocks.append(block)
        return blocks[::-1]

    # ---- one block

    def _steps_from(self, state: State, first: int, room: int) -> Iterator[tuple[Block, State]]:
        ahead = self._saving_all(state, first, room)
        if ahead is not None:
            left = self.figures[first].saved
            may = sum(self.problem.bytes[t] for t in self.leaves[first])
            yield Block(first, first, True, False, 0), _left(ahead, left, 0)
            if may and self.rate and first < len(self.figures) - 1:
                yield Block(first, first, True, True, 0), _left(ahead, left - may, may)
        walked: State | None = state
        for last in range(first, len(self.figures) - 1):
            walked = self._passing(walked, first, last, room)
            if walked is None:
                return
            units = int((room - walked.kept - walked.back_early) // self.rotor.unit)
            back = self._recomputing_seconds(first, last, units)
            if np.isinf(back):
                continue
            once = sum(self.figures[i].backward for i in range(first, last + 1))
            after = walked._replace(
                seconds=walked.seconds + back - once,
                back_early=max(0.0, walked.back_early - back * self.rate),
            )
            left = self.figures[last].activation
            yield Block(first, last, False, False, units), _left(after, left, 0)
            if self.chain.stages[last].waist in self.leaves[last] and self.rate:
                yield Block(first, last, False, True, units), _left(after, 0, left)

    def _saving_all(self, state: State, stage: int, room: int) -> State | None:
        figures = self.figures[stage]
        state = self._forward(state, figures.forward, figures.forward_memory, room)
        over = state.kept + state.back_early + figures.backward_memory - room
        if over > state.back_early or state.seconds == np.inf:
            return None
        if over > 0:
            state = self._wait(state, over)._replace(back_early=state.back_early - over)
        drained = max(0.0, state.back_early - figures.backward * self.rate)
        return state._replace(back_early=drained)

    def _passing(self, state: State | None, first: int, stage: int, room: int) -> State | None:
        if state is None:
            return None
        before = self.figures[stage - 1].activation if stage > first else 0
        memory = before + self.figures[stage].passing_memory
        state = self._forward(state, self.figures[stage].forward, memory, room)
        return state if state.seconds < np.inf else None

    def _forward(self, state: State, seconds: float, memory: float, room: int) -> State:
        over = state.kept + state.leaving + memory - room
        if over > state.leaving:
            return state._replace(seconds=np.inf)
        if over > 0:
            state = self._wait(state, over)._replace(leaving=state.leaving - over)
        return state._replace(leaving=max(0.0, state.leaving - seconds * self.rate))

    def _wait(self, state: State, size: float) -> State:
        return state._replace(seconds=state.seconds + (size / self.rate if size else 0.0))

    def _recomputing_seconds(self, first: int, last: int, units: int) -> float:
        if units < 0:
            return float("inf")
        return self.rotor.rotor.part_seconds(first, last, min(units, UNITS))

    def _thinned(
        self, front: list[tuple[State, Path | None]], room: int
    ) -> list[tuple[State, Path | None]]:
        """Of equal figures the fastest, without what is behind another in everything."""
        unit = room / 64
        best: dict[tuple[int, ...], tuple[State, Path | None]] = {}
        for entry in sorted(front, key=lambda entry: entry[0]):
            state = entry[0]
            key = tuple(int(x // unit) for x in state[1:])
            best.setdefault(key, entry)
        kept: list[tuple[State, Path | None]] = []
        figures = np.empty((len(best), len(State._fields)))
        for entry in best.values():
            count = len(kept)
            if not (figures[:count] <= entry[0]).all(axis=1).any():
                figures[count] = entry[0]
                kept.append(entry)
        if len(kept) <= BEAM:
            return kept
        kept.sort(key=lambda entry: sum(entry[0][1:]))
        return [kept[i * (len(kept) - 1) // (BEAM - 1)] for i in range(BEAM)]

    # ---- the plan

    def _chain_steps(self, blocks: Sequence[Block]) -> list[ChainStep]:
        steps = [ChainStep(False, i) for i in range(len(self.figures))]
        for block in reversed(blocks):
            if block.saves_all:
                steps.append(ChainStep(True, block.first))
                continue
            units = min(block.units, UNITS)
            part = self.rotor.rotor.part_steps(block.first, block.last, units)
            steps += [ChainStep(step.backward, step.stage) for step in part]
        return steps

    def _what_may_leave(self) -> list[list[int]]:
        """By stage: what it saves for the backward pass, and its waist."""
        stage_of = {op: i for i, stage in enumerate(self.chain.stages) for op in stage.forward}
        leaves: list[list[int]] = [[] for _ in self.chain.stages]
        waists = set(self.chain.waists)
        for tensor in dict.fromkeys([*crossing(self.problem), *waists]):
            stage = stage_of.get(self.problem.producer[tensor])
            if stage is not None and self.problem.tensors[tensor].swappable:
                leaves[stage].append(tensor)
        return leaves

    def _turn(self, steps: Sequence[Step]) -> int:
        """The last step going forward."""
        last_stage = set(self.chain.stages[-1].forward)
        return max(i for i, step in enumerate(steps) if step.subject in last_stage)

    def _gaps(self, blocks: Sequence[Block], steps: Sequence[Step]) -> Iterator[Gap]:
        """Around the end of the forward pass."""
        turn = self._turn(steps)
        leaving: set[int] = set()
        for block in blocks:
            if block.offloads and block.saves_all:
                leaving.update(self.leaves[block.first])
            elif block.offloads:
                leaving.add(self.chain.stages[block.last].waist)
        uses: dict[int, list[int]] = {tensor: [] for tensor in leaving}
        for position, (_, op) in enumerate(steps):
            for tensor in {*self.problem.reads[op], *self.problem.makes[op]} & leaving:
                uses[tensor].append(position)
        for tensor, at in sorted(uses.items()):
            before = [position for position in at if position <= turn]
            after = [position for position in at if position > turn]
            again = after and steps[after[0]].subject == self.problem.producer[tensor]
            if before and after and not again:
                yield Gap(tensor, before[-1], after[0])


def _left(state: State, kept: float, moved: float) -> State:
    return State(state.seconds, state.kept + kept, state.leaving + moved, state.back_early + moved)
