"""Swap what the free time hides, then what is cheapest of swapping and recomputing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, NamedTuple

from planners.budgets import Candidates, program_order_range, rewritten_problem, search_budgets
from planners.memory import profile
from planners.planner import Outcome, Task
from planners.problem import Problem, Step, run
from planners.recompute import eager_order
from planners.swaps import Gap, Placed, exposed, place, start_times, store_times, with_swaps

ROUNDS = 24


@dataclass(frozen=True)
class FreeTimeSwapping:
    name: ClassVar[str] = "capuchin"
    published: ClassVar[str] = "Peng et al., ASPLOS 2020"
    simplified: ClassVar[str] = (
        "Accesses and their times are those of the profile in program order, in the place of a"
        " measured iteration; in-triggers follow from the copies' times, in the place of feedback"
        " at run time. At the peak, first swaps whose free time hides them, the longest first; then"
        " by bytes a second whichever is cheaper, the seconds that a swap would be waited for or"
        " those of recomputing. A tensor has one gap, its longest."
    )

    def plan(self, task: Task) -> Outcome:
        problem = rewritten_problem(task)
        candidates = Candidates(task)
        candidates.add(problem, eager_order(problem), "everything stays")

        def make(budget: int) -> tuple[Sequence[Step], str] | None:
            chosen = Choice(problem)
            chosen.fit(budget - problem.persistent_bytes)
            note = (
                f"{len(chosen.hidden)} hidden swaps, {len(chosen.waited)} others,"
                f" {len(chosen.recomputed)} tensors recomputed"
            )
            return chosen.program(), note

        search_budgets(candidates, problem, make, *program_order_range(problem))
        return candidates.outcome()


class Link(NamedTuple):
    """When it is free again after each tensor that it takes, in the order in which they are made:
    places in the order."""

    made: list[int]
    free: list[float]


@dataclass
class Choice:
    problem: Problem
    hidden: dict[int, Gap] = field(default_factory=dict)  # by tensor; steps of program order
    waited: dict[int, Gap] = field(default_factory=dict)
    recomputed: dict[int, Gap] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.order = eager_order(self.problem)
        self.place = {step.subject: i for i, step in enumerate(self.order)}
        self.reads_at = [
            sorted(self.place[reader] for reader in readers) for readers in self.problem.readers
        ]
        self.starts = start_times(self.problem, self.order)
        self.gaps = longest_gaps(self.problem, self.order)

    def fit(self, budget: int) -> None:
        for _ in range(ROUNDS):
            steps, places = self._steps()
            moments = profile(self.problem, steps).moments
            peak = max(moments)
            if peak <= budget:
                return
            at = places[moments.index(peak)]
            spanning = [
                gap
                for tensor, gap in self.gaps.items()
                if gap.after < at < gap.before and not self._is_chosen(tensor)
            ]
            need = peak - budget
            need -= self._swap_hidden(spanning, at, need)
            if need > 0 and not self._pay(spanning, need):
                return

    def program(self) -> list[Step]:
        return self._steps()[0]

    def _is_chosen(self, tensor: int) -> bool:
        return tensor in self.hidden or tensor in self.waited or tensor in self.recomputed

    def _free_time(self, gap: Gap) -> float:
        idle = self.starts[gap.before] - self.starts[gap.after + 1]
        if not self.problem.copies_overlap:
            idle = 0.0
        return idle - 2 * self.problem.copy_seconds[gap.tensor]

    def _swap_hidden(self, spanning: Sequence[Gap], at: int, need: int) -> int:
        """Bytes at the peak that are swapped for nothing."""
        saved = 0
        order = sorted(spanning, key=lambda gap: (-self._free_time(gap), gap.tensor))
        for gap in order:
            if saved >= need or self._free_time(gap) <= 0:
                break
            if not self.problem.tensors[gap.tensor].swappable:
                continue
            trial = place(self.problem, self.order, [*self.hidden.values(), gap])
            if not all(p.hidden for p in trial):
                continue
            mine = next(p for p in trial if p.gap is gap)
            if mine.release <= at < mine.load:
                self.hidden[gap.tensor] = gap
                saved += self.problem.bytes[gap.tensor]
        return saved

    def _pay(self, spanning: Sequence[Gap], need: int) -> bool:
        """Swaps or recomputes until so many bytes are saved; whether there was anything to."""
        any_chosen = False
        while need > 0:
            best, best_rate, swaps = None, 0.0, False
            link = self._link()
            for gap in spanning:
                if self._is_chosen(gap.tensor):
                    continue
                size = self.problem.bytes[gap.tensor]
                if self.problem.tensors[gap.tensor].swappable:
                    rate = size / self._waiting_seconds(gap, link)
                    if rate > best_rate:
                        best, best_rate, swaps = gap, rate, True
                seconds = self._recompute_seconds(gap)
                if seconds is not None and size / seconds > best_rate:
                    best, best_rate, swaps = gap, size / seconds, False
            if best is None:
                break
            any_chosen = True
            (self.waited if swaps else self.recomputed)[best.tensor] = best
            need -= self.problem.bytes[best.tensor]
        return any_chosen

    def _waiting_seconds(self, gap: Gap, link: Link) -> float:
        """Until what is on its way before it, and then it, has left, and for its way back."""
        made = self.place[self.problem.producer[gap.tensor]]
        before = bisect_left(link.made, made)
        free = link.free[before - 1] if before else 0.0
        copy = self.problem.copy_seconds[gap.tensor]
        late = max(free, self.starts[made + 1]) + copy - self.starts[gap.after + 1]
        return (max(late, 0.0) if self.problem.copies_overlap else copy) + copy

    def _link(self) -> Link:
        """With what is chosen now."""
        swapped = [*self.hidden.values(), *self.waited.values()]
        times = store_times(self.problem, self.order, swapped)
        made = sorted((self.place[self.problem.producer[t]], free) for t, free in times.items())
        return Link([place for place, _ in made], [free for _, free in made])

    def _recompute_seconds(self, gap: Gap) -> float | None:
        """None: it cannot be recomputed."""
        chain = self._chain(gap.tensor, gap.before, {})
        return None if chain is None else sum(self.problem.seconds[op] for op in chain) + 1e-9

    def _chain(self, tensor: int, step: int, made: dict[int, int]) -> list[int] | None:
        """What runs before `step` to have the tensor again; `made`: copies, by tensor, and the step
        up to which they are there."""
        problem = self.problem
        chain = {problem.producer[tensor]}
        waiting = list(chain)
        while waiting:
            op = waiting.pop()
            late = any(self.place[writer] < step for writer in problem.overwriters[op])
            if late or not problem.recomputable[op]:
                return None
            for read in problem.reads[op]:
                source = problem.producer[read]
                if source >= 0 and source not in chain and not self._is_there(read, step, made):
                    chain.add(source)
                    waiting.append(source)
        return sorted(chain, key=lambda op: self.place[op])

    def _is_there(self, tensor: int, step: int, made: dict[int, int]) -> bool:
        if made.get(tensor, -1) >= step:
            return True
        for chosen in (self.hidden, self.waited, self.recomputed):
            gap = chosen.get(tensor)
            if gap is not None:
                return not gap.after < step <= gap.before
        reads = self.reads_at[tensor]
        return self.problem.is_output[tensor] or (bool(reads) and reads[-1] >= step)

    def _steps(self) -> tuple[list[Step], list[int]]:
        """The program, and for each of its steps that of program order for which it is there."""
        problem = self.problem
        steps: list[Step] = []
        places: list[int] = []
        place_of: dict[int, int] = {}
        made: dict[int, int] = {}
        due: dict[int, list[int]] = {}
        for tensor, gap in self.recomputed.items():
            due.setdefault(gap.before, []).append(tensor)
        for position, step in enumerate(self.order):
            for tensor in due.get(position, []):
                if made.get(tensor, -1) >= position:
                    continue
                for op in self._chain(tensor, position, made) or []:
                    steps.append(run(op))
                    places.append(position)
                    made.update(dict.fromkeys(problem.makes[op], position))
            place_of[position] = len(steps)
            steps.append(step)
            places.append(position)
        return self._swapped(steps, places, place_of)

    def _swapped(
        self, steps: list[Step], places: list[int], place_of: dict[int, int]
    ) -> tuple[list[Step], list[int]]:
        def moved(gap: Gap) -> Gap:
            return Gap(gap.tensor, place_of[gap.after], place_of[gap.before])

        placed: list[Placed] = place(self.problem, steps, [moved(g) for g in self.hidden.values()])
        placed += [exposed(moved(gap)) for gap in self.waited.values()]
        placed = [p for p in placed if p.release < p.load]
        swapped = with_swaps(self.problem, steps, placed)
        runs = iter(places)
        last = 0
        new_places = []
        for step in swapped:
            last = next(runs) if step.kind == "run" else last
            new_places.append(last)
        return swapped, new_places


def longest_gaps(problem: Problem, order: Sequence[Step]) -> dict[int, Gap]:
    """By tensor, between two accesses in this order; making it is one."""
    accesses: dict[int, list[int]] = {}
    for position, (_, op) in enumerate(order):
        for tensor in {*problem.reads[op], *problem.makes[op]}:
            if problem.producer[tensor] >= 0 and not problem.is_output[tensor]:
                accesses.setdefault(tensor, []).append(position)
    gaps = {}
    for tensor, at in accesses.items():
        pairs = [Gap(tensor, a, b) for a, b in pairwise(at)]
        if pairs and problem.bytes[tensor]:
            gaps[tensor] = max(pairs, key=lambda gap: (gap.before - gap.after, -gap.after))
    return gaps
