"""What has to run again within a memory limit, as a linear programme that relaxes all programs.

After Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization"
(MLSys 2020): stage t ends with the first run of the t-th operator of an order; before it earlier
operators may run again. Checkmate's stages run each operator at most once, in the given order, and
hold memory to that. A bound must not: a program may run them again in any order and several times
between two first runs. So what is said here of a stage holds whatever happens inside it. For every
program that makes no use of the host, frees and overwrites as the simulator allows, and whose first
runs have this order, read

    runs[t, i]    operator i < t runs again in stage t, once or more;
    there[t, x]   a copy of tensor x made before stage t is read in it or later;
    kept[t, x]    a copy made before stage t is read by the first run that ends it, or later.

Each is 0 or 1 for a program, and keeps every row below; between 0 and 1 they relax it. Rows on
memory are about two kinds of moments:

    the first run of t: its operands, results and scratch are there, and every other tensor of which
        a copy that exists by then is read later (there[t + 1]);
    a run of i within stage t: its operands, results and scratch are there, and what is kept through
        the stage. A tensor that is kept, and made again all the same, is there twice.

A result may take over the memory of one operand, if no copy of that is held on to. Inputs take
none; outputs stay from their first run on, and nobody gains by making them again. What nobody reads
later is not made again: `Facts.last_use`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magis.bounds.programme import Programme

if TYPE_CHECKING:
    from magis import _core

    Terms = list[tuple[int, float]]


@dataclass
class Facts:
    """Operators by their place in the order; of tensors, those that are no inputs."""

    order: Sequence[int]
    seconds: list[float] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)
    reads: list[list[int]] = field(default_factory=list)  # outputs left out: they are there anyway
    makes: list[list[int]] = field(default_factory=list)
    over: list[list[int]] = field(default_factory=list)  # of `reads`: what may be overwritten
    size: dict[int, int] = field(default_factory=dict)
    maker: dict[int, int] = field(default_factory=dict)
    outputs: set[int] = field(default_factory=set)
    # The last stage in which a run again may be of use, or the own one; in which a tensor is read.
    last_run: list[int] = field(default_factory=list)
    last_use: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def of(structure: _core.Structure, order: Sequence[int]) -> Facts:
        """`order`: every operator's number once, as they first run."""
        facts = Facts(order)
        tensors, operators = structure.tensors, structure.operators
        for tensor, about in enumerate(tensors):
            if not about.is_input:
                facts.size[tensor] = about.bytes
                if about.is_output:
                    facts.outputs.add(tensor)
        inner = set(facts.size) - facts.outputs
        for number in order:
            op = operators[number]
            place = len(facts.seconds)
            reads = op.reads
            facts.seconds.append(op.seconds)
            facts.scratch.append(op.scratch)
            facts.reads.append([t for t in reads if t in inner])
            facts.makes.append(op.makes)
            facts.over.append([reads[i] for i in op.in_place if reads[i] in inner])
            facts.maker.update(dict.fromkeys(op.makes, place))
        facts._find_last_uses([operators[number] for number in order])
        return facts

    def _find_last_uses(self, operators: Sequence[_core.OperatorFacts]) -> None:
        place_of = {number: place for place, number in enumerate(self.order)}
        self.last_run = [0] * len(operators)
        for place in reversed(range(len(operators))):
            op = operators[place]
            last = place
            if op.recomputable:
                last = max((self.last_use.get(made, place) for made in op.makes), default=place)
                last = min([last, *(place_of[writer] for writer in op.overwriters)])
            self.last_run[place] = max(last, place)
            for tensor in self.reads[place]:
                self.last_use[tensor] = max(self.last_use.get(tensor, 0), self.last_run[place])


class Relaxation:
    """The programme of one order within `limit` bytes, inputs not counted, which are more than 0.

    Its cost is the time of what runs again, as a share of that of all operators, each run once.
    With `excess` it is by how much the limit has to be exceeded, as a share of it.
    """

    def __init__(self, facts: Facts, limit: int, *, excess: bool = False) -> None:
        self.facts = facts
        self.limit = limit
        self.count = len(facts.seconds)
        self.programme = Programme()
        self.excess: int | None = None
        if excess:
            most = (sum(facts.size.values()) + max(facts.scratch, default=0)) / limit
            # Every tensor twice: once kept, once made again.
            self.excess = self.programme.variable(1, high=2 * most + 1)
        self.runs: dict[tuple[int, int], int] = {}
        self.there: dict[tuple[int, int], int] = {}
        self.kept: dict[tuple[int, int], int] = {}
        self._make_variables()
        resident = 0  # outputs made in earlier stages
        for stage in range(self.count):
            self._say_where_from(stage)
            self._bound_first_run(stage, resident)
            self._bound_runs_again(stage, resident)
            resident += sum(facts.size[x] for x in facts.makes[stage] if x in facts.outputs)

    def _make_variables(self) -> None:
        facts, variable = self.facts, self.programme.variable
        total = sum(facts.seconds)
        for i in range(self.count):
            cost = facts.seconds[i] / total if total and self.excess is None else 0.0
            for t in range(i + 1, facts.last_run[i] + 1):
                self.runs[t, i] = variable(cost)
        for x, last in facts.last_use.items():
            for t in range(facts.maker[x] + 1, last + 1):
                self.there[t, x] = variable()
                if t < last or x in facts.reads[t]:
                    self.kept[t, x] = variable()

    def _share(self, tensors: Sequence[int]) -> float:
        """Of the limit."""
        return sum(self.facts.size[x] for x in tensors) / self.limit

    def _made_again(self, t: int, x: int) -> Terms:
        run = self.runs.get((t, self.facts.maker[x]))
        return [] if run is None else [(run, 1.0)]

    def _say_where_from(self, t: int) -> None:
        """What is read, or there after the stage, was there before it or runs again in it."""
        at_least = self.programme.at_least
        for x in self.facts.reads[t]:
            at_least([(self.kept[t, x], 1), *self._made_again(t, x)], 1)
        for i in range(t):
            run = self.runs.get((t, i))
            if run is None:
                continue
            for x in self.facts.reads[i]:
                at_least([(self.there[t, x], 1), *self._made_again(t, x), (run, -1)], 0)
        for x, last in self.facts.last_use.items():
            if not self.facts.maker[x] < t <= last:
                continue
            if (t, x) in self.kept:
                at_least([(self.there[t, x], 1), (self.kept[t, x], -1)], 0)
            if t < last:
                held = [(self.kept[t, x], 1.0), *self._made_again(t, x)]
                at_least([*held, (self.there[t + 1, x], -1.0)], 0)

    def _bound_memory(self, terms: Terms, rest: float) -> None:
        if self.excess is not None:
            terms = [*terms, (self.excess, -1.0)]
        self.programme.at_most(terms, 1 - rest)

    def _bound_first_run(self, t: int, resident: int) -> None:
        facts = self.facts
        rest = (resident + facts.scratch[t]) / self.limit
        rest += self._share(facts.makes[t]) + self._share(facts.reads[t])
        terms: Terms = []
        near = {*facts.makes[t], *facts.reads[t]}
        for x, size in facts.size.items():
            after = self.there.get((t + 1, x))
            if after is not None and x not in near:
                terms.append((after, size / self.limit))
        saved = [(self._saved(self.there.get((t + 1, x)), None), x) for x in facts.over[t]]
        if saved:
            self.programme.at_most([(column, 1.0) for column, _ in saved], 1)
        terms += [(column, -facts.size[x] / self.limit) for column, x in saved]
        self._bound_memory(terms, rest)

    def _saved(self, held: int | None, run: int | None) -> int:
        """Whether a run takes over an operand: not if a copy of that is held on to."""
        saved = self.programme.variable()
        if held is not None:
            self.programme.at_most([(saved, 1), (held, 1)], 1)
        if run is not None:
            self.programme.at_most([(saved, 1), (run, -1)], 0)
        return saved

    def _bound_runs_again(self, t: int, resident: int) -> None:
        facts, limit = self.facts, self.limit
        again = [i for i in range(t) if (t, i) in self.runs]
        held = [x for x in facts.last_use if (t, x) in self.kept]
        held_share = self._share(held)
        if not again:
            return
        all_kept = self.programme.variable(high=max(held_share, 1e-9))
        rows = [(self.kept[t, x], -facts.size[x] / limit) for x in held]
        self.programme.at_least([(all_kept, 1), *rows], 0)
        for i in again:
            own = facts.scratch[i] / limit + self._share(facts.makes[i])
            most = resident / limit + held_share + own + self._share(facts.reads[i])
            if most <= 1 and self.excess is None:
                continue  # whatever is kept
            run = self.runs[t, i]
            terms: Terms = [(all_kept, 1.0), (run, own)]
            for x in facts.reads[i]:
                size = facts.size[x] / limit
                kept = self.kept.get((t, x))
                if kept is None:
                    terms.append((run, size))
                    continue
                more = self.programme.variable()  # what is read beyond what is kept
                self.programme.at_least([(more, 1), (kept, 1), (run, -1)], 0)
                terms.append((more, size))
            saved = [(self._saved(self.kept.get((t, x)), run), x) for x in facts.over[i]]
            if len(saved) > 1:
                self.programme.at_most([*((column, 1.0) for column, _ in saved), (run, -1)], 0)
            terms += [(column, -facts.size[x] / limit) for column, x in saved]
            self._bound_memory(_summed(terms), resident / limit)


def _summed(terms: Terms) -> Terms:
    """With every column once."""
    sums: dict[int, float] = {}
    for column, value in terms:
        sums[column] = sums.get(column, 0.0) + value
    return list(sums.items())
