"""A training step as a chain of stages, cut where one tensor alone leads on through the forward
pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from planners.memory import Profile, profile, without_dead_runs
from planners.phases import phases_of
from planners.problem import Problem, Step, run
from planners.recompute import Demand, may_run_again
from planners.remember import remembered

WAIST = 0.95  # of the bytes that cross a cut are one tensor's: the rest is carried along


@dataclass(frozen=True)
class Stage:
    forward: list[int]
    backward: list[int]
    waist: int  # tensor that the next stage reads; -1: the last stage


@dataclass(frozen=True)
class ChainStep:
    backward: bool
    stage: int


@dataclass(frozen=True)
class Chain:
    problem: Problem
    stages: list[Stage]
    # Backward operators that use nothing of the forward pass: in program order at the end.
    tail: list[int]

    @property
    def waists(self) -> list[int]:
        return [stage.waist for stage in self.stages[:-1]]

    @property
    def carried(self) -> set[int]:
        """The small tensors that cross cuts beside the waists."""
        problem = self.problem
        stage_of = {op: i for i, stage in enumerate(self.stages) for op in stage.forward}
        return {
            tensor
            for op, i in stage_of.items()
            for tensor in problem.makes[op]
            if tensor != self.stages[i].waist
            and any(stage_of.get(reader, i) > i for reader in problem.readers[tensor])
        }

    def program(self, steps: Sequence[ChainStep]) -> list[Step]:
        """Stages going forward, again too, and backward; each reads what was made last."""
        phases = phases_of(self.problem)
        demand = Demand(self.problem)
        for op in phases.before:
            demand.run(op)
        for step in steps:
            stage = self.stages[step.stage]
            for op in stage.backward if step.backward else stage.forward:
                if op not in demand.has_run:
                    demand.run(op)
                elif may_run_again(self.problem, op, demand.has_run):
                    demand.steps.append(run(op))
        for op in self.tail + phases.after:
            if op not in demand.has_run:
                demand.run(op)
        return without_dead_runs(self.problem, demand.steps)

    @property
    def all_saved(self) -> list[ChainStep]:
        count = len(self.stages)
        forward = [ChainStep(False, i) for i in range(count)]
        return forward + [ChainStep(True, i) for i in reversed(range(count))]


@dataclass(frozen=True)
class StageFigures:
    """In bytes and seconds; what a stage holds beside what stages before it left there."""

    forward: float
    backward: float
    activation: int  # the waist
    saved: int  # for the backward pass, the waist included
    waiting: int  # when all later stages have gone backward: gradients, outputs
    forward_memory: int
    passing_memory: int  # going forward with nothing saved
    backward_memory: int


@remembered
def chain_of(problem: Problem, most: int) -> Chain:
    """Of at most `most` stages."""
    forward = phases_of(problem).forward
    cuts = _fewer(problem, forward, _cuts(problem, forward), most)
    bounds = [0, *(position + 1 for position, _ in cuts), len(forward)]
    pieces = [forward[a:b] for a, b in pairwise(bounds)]
    waists = [tensor for _, tensor in cuts] + [-1]
    backward, tail = _backward_stages(problem, pieces, waists)
    stages = [Stage(*parts) for parts in zip(pieces, backward, waists, strict=True)]
    return Chain(problem, stages, tail)


def _cuts(problem: Problem, forward: Sequence[int]) -> list[tuple[int, int]]:
    """(position after which it is, tensor that crosses it)."""
    position = {op: i for i, op in enumerate(forward)}
    last = {}  # position of the last forward reader
    for i, op in enumerate(forward):
        for tensor in problem.reads[op]:
            if problem.producer[tensor] in position:
                last[tensor] = i
    cuts = []
    alive: set[int] = set()
    for i, op in enumerate(forward[:-1]):
        alive.update(t for t in problem.makes[op] if last.get(t, -1) > i)
        alive = {t for t in alive if last[t] > i}
        total = sum(problem.bytes[t] for t in alive)
        largest = max(alive, key=lambda t: problem.bytes[t], default=None)
        if largest is None or not problem.bytes[largest] or op != problem.producer[largest]:
            continue
        if problem.bytes[largest] >= WAIST * total:
            cuts.append((i, largest))
    return cuts


def _fewer(
    problem: Problem, forward: Sequence[int], cuts: list[tuple[int, int]], most: int
) -> list[tuple[int, int]]:
    """Drops cuts beside the smallest stages until there are few enough."""
    weights = [sum(problem.bytes[t] for t in problem.makes[op]) for op in forward]
    cuts = list(cuts)
    while len(cuts) >= most:
        bounds = [-1, *(position for position, _ in cuts), len(forward) - 1]
        sizes = [
            sum(weights[bounds[i] + 1 : bounds[i + 2] + 1]) for i in range(len(cuts))
        ]  # of the two stages around each cut
        del cuts[min(range(len(cuts)), key=lambda i: sizes[i])]
    return cuts


def _backward_stages(
    problem: Problem, pieces: Sequence[Sequence[int]], waists: Sequence[int]
) -> tuple[list[list[int]], list[int]]:
    """Each backward operator as early as everything that it reads is there: what a stage made is
    there when it goes backward, a waist when the next one does."""
    phases = phases_of(problem)
    count = len(pieces)
    there: dict[int, int] = {}  # stage in whose turn a tensor is there
    for number, piece in enumerate(pieces):
        for op in piece:
            there.update(dict.fromkeys(problem.makes[op], number))
    for number, waist in enumerate(waists[:-1]):
        there[waist] = number + 1
    stage_of: dict[int, int] = {}
    uses_forward = {}
    for op in phases.backward:
        known = [there[t] for t in problem.reads[op] if t in there]
        before = [stage_of[p] for p in problem.predecessors[op] if p in stage_of]
        stage_of[op] = min(known + before, default=count - 1)
        there.update(dict.fromkeys(problem.makes[op], stage_of[op]))
        uses_forward[op] = bool(known)
    forward = {op for piece in pieces for op in piece}
    last = max(
        (
            i
            for i, op in enumerate(phases.backward)
            if any(problem.producer[t] in forward for t in problem.reads[op])
        ),
        default=-1,
    )
    stages: list[list[int]] = [[] for _ in pieces]
    for op in phases.backward[: last + 1]:
        if op not in phases.free_to_wait:
            stages[stage_of[op]].append(op)
    tail = [op for op in phases.backward[last + 1 :] if op not in phases.free_to_wait]
    return stages, tail


def figures_of(chain: Chain) -> list[StageFigures]:
    """Measured on two programs: the step with all saved, and the forward pass alone."""
    problem = chain.problem
    steps = chain.program(chain.all_saved)
    whole = profile(problem, steps)
    spans = _spans(chain, steps)
    forward_end = spans[len(chain.stages) - 1][1]
    alone_steps = steps[:forward_end]
    alone = profile(problem, alone_steps)
    saved_until = [0]  # bytes at the end of each stage going forward
    for number in range(len(chain.stages)):
        saved_until.append(whole.live_after[spans[number][1] - 1])
    figures = []
    for number, stage in enumerate(chain.stages):
        ahead, back = spans[number], spans[2 * len(chain.stages) - 1 - number]
        left = saved_until[number]
        waiting = whole.live_after[back[0] - 1] - saved_until[number + 1]
        last = number == len(chain.stages) - 1
        figures.append(
            StageFigures(
                forward=_seconds(problem, steps, ahead),
                backward=_seconds(problem, steps, back),
                activation=0 if last else problem.bytes[stage.waist],
                saved=max(0, saved_until[number + 1] - left),
                waiting=0 if last else max(0, waiting),
                forward_memory=max(0, _peak(whole, ahead) - left),
                passing_memory=max(0, _peak(alone, ahead) - alone.live_after[ahead[0] - 1])
                if number
                else _peak(alone, ahead),
                backward_memory=max(0, _peak(whole, back) - left),
            )
        )
    return figures


def _spans(chain: Chain, steps: Sequence[Step]) -> list[tuple[int, int]]:
    """Of the steps that all stages take with all saved; what runs on demand belongs to the one for
    which it runs, and what stands before the loop to the first."""
    owner: dict[int, int] = {}
    for number, step in enumerate(chain.all_saved):
        stage = chain.stages[step.stage]
        owner.update(dict.fromkeys(stage.backward if step.backward else stage.forward, number))
    spans = [[0, 0] for _ in chain.all_saved]
    begin = 0
    for number in range(len(spans)):
        mine = [i for i, step in enumerate(steps) if owner.get(step.subject) == number]
        end = mine[-1] + 1 if mine else begin
        spans[number] = [begin, end]
        begin = end
    return [(a, b) for a, b in spans]


def _seconds(problem: Problem, steps: Sequence[Step], span: tuple[int, int]) -> float:
    return sum(problem.seconds[step.subject] for step in steps[span[0] : span[1]])


def _peak(moments: Profile, span: tuple[int, int]) -> int:
    return max(moments.moments[span[0] : span[1]], default=0)
