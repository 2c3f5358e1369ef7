"""How the reference evaluator swaps: what the host holds, and what is on its way there and back.

Nothing overlaps here. A copy takes its value where it is awaited, the last moment at which it may:
until then what is loaded reads as poison, and what was not waited for leaves poison on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from magis.errors import PlanError
from magis.verify.document import Await, Copy, Load, Store
from magis.verify.iterations import fill_unwritten

if TYPE_CHECKING:
    from magis.verify.evaluator import Machine


class Host:
    """The host's side of a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.kept: dict[str, Tensor] = {}  # by tensor
        self.leaving: dict[Copy, None] = {}  # stored and not awaited
        self.coming: dict[Copy, None] = {}  # loaded and not awaited

    def store(self, store: Store) -> None:
        value = self._value(store.copy, f"line {store.line}: {store}")
        if store.copy.tensor in self.kept:
            raise PlanError(f"line {store.line}: {store}: the host has it already")
        self.kept[store.copy.tensor] = _poison(value)
        self.leaving[store.copy] = None

    def load(self, load: Load) -> None:
        where = f"line {load.line}: {load}"
        if load.copy.tensor not in self.kept:
            raise PlanError(f"{where}: the host does not have it")
        if load.copy in self.machine.live:
            raise PlanError(f"{where}: {load.copy} is there already")
        self.machine.hold(load.copy, _poison(self.kept[load.copy.tensor]))
        self.coming[load.copy] = None

    def arrive(self, statement: Await) -> None:
        for copy in statement.copies:
            value = self._value(copy, f"line {statement.line}: {statement}")
            if copy in self.leaving:
                self._leave(copy)
            elif copy in self.coming:
                # Copies are made in the order of the program: the store is through by now.
                for other in [c for c in self.leaving if c.tensor == copy.tensor]:
                    self._leave(other)
                value.copy_(self.kept[copy.tensor])
                del self.coming[copy]

    def _leave(self, copy: Copy) -> None:
        value = self.machine.live[copy]
        assert isinstance(value, Tensor)
        self.kept[copy.tensor].copy_(value)
        del self.leaving[copy]

    def forget(self, copy: Copy) -> None:
        """`copy` is gone, arrived or not."""
        self.leaving.pop(copy, None)
        self.coming.pop(copy, None)

    def _value(self, copy: Copy, where: str) -> Tensor:
        value = self.machine.live.get(copy)
        if not isinstance(value, Tensor):
            why = self.machine.gone.get(copy, "which is not made")
            raise PlanError(f"{where}: moves {copy}, {why}")
        return value


def _poison(like: Tensor) -> Tensor:
    return fill_unwritten(torch.empty_like(like))
