"""Optimal checkpointing of heterogeneous chains, by dynamic programming.

After Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova, "Optimal checkpointing for heterogeneous
chains: how to train deep neural networks with limited memory" (2019): the least time among
schedules that keep what they have stored until it is used in the backward phase. Memory is counted
in whole units, so nothing is lost to rounding where sizes are whole units.

Departures: what a forward and a backward step hold is given for each stage, not put together from
sizes, since a real operator may not need all of it; going forward counts the steps that are taken,
not all to the end of the chain; and where a backward step needs of its forward step nothing but the
activation, and that is there as a checkpoint for later stages, it need not go forward again. The
last only lowers the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stage:
    """Memory in units. The last stage of a chain is the loss: it makes nothing going forward."""

    forward: float  # seconds
    backward: float
    activation: int  # what the next stage reads
    saved: int  # all that the forward step leaves for the backward one, the activation included
    gradient: int  # of the activation
    forward_memory: int  # held while going forward, beside the stage's input
    backward_memory: int  # held while going backward, beside the stage's input
    # Held while going forward if only the activation is kept; None: the same.
    passing_memory: int | None = None

    @property
    def passing(self) -> int:
        return self.forward_memory if self.passing_memory is None else self.passing_memory


@dataclass(frozen=True)
class Step:
    backward: bool
    stage: int


class Rotor:
    """Least times of all parts of a chain in all budgets up to `most` units: about n^3 * most / 3
    steps in numpy, 2 * n^2 * most numbers of memory."""

    def __init__(self, stages: Sequence[Stage], most: int) -> None:
        self.stages = list(stages)
        self.most = most
        n = len(stages)
        self._activation = np.array([s.activation for s in stages])
        # Room below zero, so that budgets that go negative read "impossible".
        self._room = max(max(s.activation, s.saved) for s in stages)
        # [is the last stage's activation there?, first, last, budget]; what is there is in the
        # budget, but for the first stage's input.
        self._least = np.full((2, n, n, self._room + most + 1), np.inf)
        self._forward = np.concatenate([[0.0], np.cumsum([s.forward for s in stages])])
        for length in range(n):
            for first in range(n - length):
                for there in (0, 1):
                    times = self._times(there, first, first + length).min(axis=0)
                    self._least[there, first, first + length, self._room :] = times

    def seconds(self, budget: int) -> float:
        """inf: no schedule fits. The chain's input is not counted."""
        return float(self._least[0, 0, -1, self._room + budget])

    def part_seconds(self, first: int, last: int, budget: int) -> float:
        """Of going backward from stage `last` to `first`, with the input of the one and the
        activation of the other there; neither the input nor the way forward before is counted."""
        return float(self._least[1, first, last, self._room + budget])

    def part_steps(self, first: int, last: int, budget: int) -> list[Step]:
        return self._steps(1, first, last, budget)

    def least_budget(self) -> int:
        """The smallest that a schedule fits in, or `most` + 1."""
        return int(np.isinf(self._least[0, 0, -1, self._room :]).sum())

    def steps(self, budget: int) -> list[Step]:
        if np.isinf(self.seconds(budget)):
            raise ValueError(f"no schedule fits in {budget} units")
        return self._steps(0, 0, len(self.stages) - 1, budget)

    def _times(self, there: int, first: int, last: int) -> Times:
        """By what comes first (rows) and budget (columns): the first stage's step that saves all;
        steps to stage k = first + 1 .. last, of which only the last result is kept; and, if the
        last activation is there, letting go of it."""
        rows = [self._save_all(there, first, last)[None, :]]
        if first < last:
            rows.append(self._checkpoints(there, first, last))
        if there:
            rows.append(self._least[0, first, last, None, self._room :])
        return np.concatenate(rows)

    def _save_all(self, there: int, first: int, last: int) -> Times:
        stage = self.stages[first]
        budgets = np.arange(self.most + 1)
        if first == last and there and stage.saved == stage.activation:
            return np.where(budgets >= stage.backward_memory, stage.backward, np.inf)
        rest = np.zeros(self.most + 1)
        if first < last:
            rest = self._least[there, first + 1, last, budgets + self._room - stage.saved]
        least = max(self._waiting(there, last) + stage.forward_memory, stage.backward_memory)
        return np.where(budgets >= least, stage.forward + stage.backward + rest, np.inf)

    def _checkpoints(self, there: int, first: int, last: int) -> Times:
        k = np.arange(first + 1, last + 1)
        budgets = np.arange(self.most + 1)
        kept = self._activation[k - 1]
        later = self._least[there, k[:, None], last, self._room + budgets[None, :] - kept[:, None]]
        earlier = self._least[1, first, k - 1, self._room :]
        held = [self.stages[first].passing] + [
            self.stages[i - 1].activation + self.stages[i].passing for i in range(first + 1, last)
        ]
        least = self._waiting(there, last) + np.maximum.accumulate(held)
        forward = self._forward[k] - self._forward[first]
        times = forward[:, None] + later + earlier
        return np.where(budgets[None, :] >= least[:, None], times, np.inf)

    def _waiting(self, there: int, last: int) -> int:
        stage = self.stages[last]
        return stage.gradient + there * stage.activation

    def _steps(self, there: int, first: int, last: int, budget: int) -> list[Step]:
        choice = int(self._times(there, first, last)[:, budget].argmin())
        stage = self.stages[first]
        if choice == 0 and first == last:
            needed = not there or stage.saved != stage.activation
            return [Step(False, first)] * needed + [Step(True, first)]
        if choice == 0:
            rest = self._steps(there, first + 1, last, budget - stage.saved)
            return [Step(False, first), *rest, Step(True, first)]
        k = first + choice
        if k > last:
            return self._steps(0, first, last, budget)
        return [
            *(Step(False, i) for i in range(first, k)),
            *self._steps(there, k, last, budget - int(self._activation[k - 1])),
            *self._steps(1, first, k - 1, budget),
        ]
