"""Optimal rematerialization of any graph as an integer linear programme, solved by HiGHS.

After Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization"
(MLSys 2020). Stage t ends with the first run of operator t, in program order; before it any earlier
operators may run again, in program order too. R[t, i]: operator i runs in stage t (`run`). S[t, i]:
its result is there when stage t begins (`there`). Where we differ: when a result may be freed
within a stage is not said by products of binaries, made linear with counts, but by N[t, i, j]
(`needed`): the result is needed in stage t by its reader j or a later one. The feasible schedules
are the same, and so is the memory: a result counts from the run of its operator to its last need in
the stage, or to the end of the stage if the next one has it.

Outputs are run once and stay, as in a plan. Operators have one result each; what else they make is
`resident`, there from the first run to the end. As first runs follow program order, a search that
also reorders may be better than this optimum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import highspy
from network import Network

from magis.bounds.programme import Programme

MICROSECOND = 1e-6


@dataclass(frozen=True)
class Instance:
    """Operators by number, in program order."""

    names: list[str]
    reads: list[list[int]]
    units: list[float]  # of the result
    seconds: list[float]
    outputs: frozenset[int]
    working: list[float] | None = None  # units while it runs, beside its result
    resident: list[float] | None = None  # units from its first run on

    @staticmethod
    def of(network: Network) -> Instance:
        names = [op.name for op in network.operators]
        for op in network.operators:
            if len(op.results) != 1:
                raise ValueError(f"{op.name} has {len(op.results)} results")
        index = {name: i for i, name in enumerate(names)}
        seconds = network.seconds()
        return Instance(
            names,
            [[index[read] for read in op.reads] for op in network.operators],
            [network.units[name] for name in names],
            [seconds[name] for name in names],
            frozenset(index[name] for name in network.outputs),
        )


@dataclass(frozen=True)
class Solution:
    runs: list[str] | None  # operators in order; None: no schedule was found
    seconds: float  # of the schedule; inf without one
    bound: float  # seconds; no schedule takes less. inf: none fits

    def optimal(self, tolerance: float = 1e-6) -> bool:
        return self.seconds <= self.bound * (1 + tolerance)


class Checkmate:
    """The programme of one instance; `budget` in units, without inputs. `relaxed`: its linear
    relaxation, whose solution is rounded."""

    def __init__(self, instance: Instance, budget: float, relaxed: bool = False) -> None:
        self.instance = instance
        self.budget = budget
        self.relaxed = relaxed
        self.names = instance.names
        self.count = len(self.names)
        self.reads = instance.reads
        self.readers: list[list[int]] = [[] for _ in self.names]
        for reader, reads in enumerate(self.reads):
            for read in reads:
                self.readers[read].append(reader)
        self.units = instance.units
        self.outputs = instance.outputs
        self.programme = Programme()
        self.run: dict[tuple[int, int], int] = {}
        self.there: dict[tuple[int, int], int] = {}
        self.needed: dict[tuple[int, int, int], int] = {}
        self._make_variables()
        for stage in range(self.count):
            self._say_what_is_there(stage)
            self._say_what_is_needed(stage)
            self._bound_memory(stage)

    def solve(self, time_limit: float = math.inf) -> Solution:
        """Of a relaxed programme, the seconds are those of the rounded schedule, which may exceed
        the budget."""
        solver = self.programme.solve(time_limit, mip_rel_gap=1e-6)
        info = solver.getInfo()
        if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return Solution(None, math.inf, math.inf)
        bound = 0.0 if self.relaxed else info.mip_dual_bound * MICROSECOND
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return Solution(None, math.inf, bound)
        values = solver.getSolution().col_value
        if self.relaxed:
            runs = self._rounded(values)
            seconds = sum(self.instance.seconds[i] for i in runs)
            bound = info.objective_function_value * MICROSECOND
        else:
            runs = [
                i
                for stage in range(self.count)
                for i in range(stage + 1)
                if values[self.run[stage, i]] > 0.5
            ]
            seconds = info.objective_function_value * MICROSECOND
        return Solution([self.names[i] for i in runs], seconds, bound)

    def _rounded(self, values: Sequence[float]) -> list[int]:
        """Two-phase rounding: what is there by a half or more is there, and in each stage as little
        as possible runs that makes that so."""
        runs: list[int] = []
        there: set[int] = set()
        for stage in range(self.count):
            stays = {
                i
                for i in range(stage + 1)
                if i in self.outputs
                or ((stage + 1, i) in self.there and values[self.there[stage + 1, i]] >= 0.5)
            }
            needed: set[int] = set()
            runs_here: list[int] = []
            for i in range(stage, -1, -1):
                wanted = i == stage or i in stays or i in needed
                if wanted and i not in there:
                    runs_here.append(i)
                    needed.update(self.reads[i])
            runs += reversed(runs_here)
            there = (there | set(runs_here)) & stays
        return runs

    def _make_variables(self) -> None:
        whole = not self.relaxed

        def variable(cost: float = 0, low: float = 0, high: float = 1) -> int:
            return self.programme.variable(cost, low, high, binary=whole)

        for t in range(self.count):
            for i in range(t + 1):
                cost = self.instance.seconds[i] / MICROSECOND
                once = i in self.outputs and i < t
                self.run[t, i] = variable(cost, low=float(i == t), high=float(not once))
                if i < t:
                    self.there[t, i] = variable(low=float(i in self.outputs))
                for j in self.readers[i]:
                    if j <= t:
                        self.needed[t, i, j] = self.programme.variable()
        for i in self.outputs:
            self.there[self.count, i] = variable(low=1)

    def _say_what_is_there(self, t: int) -> None:
        """Operands are there or run again; what is there was there or was run a stage earlier."""
        for j in range(t + 1):
            for i in self.reads[j]:
                self.programme.at_least(
                    [(self.run[t, i], 1), (self.there[t, i], 1), (self.run[t, j], -1)], 0
                )
        for i in range(t):
            self.programme.at_most([(self.run[t, i], 1), (self.there[t, i], 1)], 1)
            before = [(self.run[t - 1, i], -1.0)]
            if i < t - 1:
                before.append((self.there[t - 1, i], -1.0))
            self.programme.at_most([(self.there[t, i], 1), *before], 0)

    def _say_what_is_needed(self, t: int) -> None:
        for i in range(t + 1):
            for j in (j for j in self.readers[i] if j <= t):
                need = self.needed[t, i, j]
                self.programme.at_least([(need, 1), (self.run[t, j], -1)], 0)
                later = self._needed_from(t, i, j + 1)
                if later is not None:
                    self.programme.at_least([(need, 1), (later, -1)], 0)

    def _needed_from(self, t: int, i: int, k: int) -> int | None:
        """The variable that says that result i is held while operator k runs in stage t, k > i."""
        for j in self.readers[i]:
            if k <= j <= t:
                return self.needed[t, i, j]
        return self.there.get((t + 1, i))

    def _bound_memory(self, t: int) -> None:
        working = self.instance.working or [0.0] * self.count
        resident = self.instance.resident or [0.0] * self.count
        for k in range(t + 1):
            terms = [(self.run[t, k], float(self.units[k]) + working[k])]
            if k < t:
                terms.append((self.there[t, k], float(self.units[k])))
            terms += [(self.there[t, i], float(self.units[i])) for i in range(k + 1, t)]
            for i in range(k):
                held = self._needed_from(t, i, k)
                if held is not None:
                    terms.append((held, float(self.units[i])))
            staying = sum(resident[:t]) + (resident[t] if k == t else 0)
            self.programme.at_most(terms, self.budget - staying)
