"""Swapping in a plan's program: what may leave for the host, what is on its way, what the host
holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from magis.errors import PlanError
from magis.verify.document import Await, Copy, Document, Free, Load, Run, Statement, Store
from magis.verify.operators import is_dense

_HOST_ALIGNMENT = 64  # bytes: what a stored tensor takes on the host is a multiple


@dataclass
class Transfers:
    """Follows a program's copies to the host and back.

    The methods raise PlanError naming the statement that breaks a rule. Who is live, and in which
    loop's body, is for others to know.
    """

    document: Document
    program: list[Statement]
    on_way: dict[Copy, Store | Load] = field(default_factory=dict)  # what is copied from or to it
    stored: dict[str, Store] = field(default_factory=dict)  # by tensor
    loads: dict[str, dict[int, Load]] = field(default_factory=dict)  # by maker and number
    bytes: int = 0  # on the host
    peak: int = 0

    def __post_init__(self) -> None:
        self.outputs = {self.document.owner(output.name) for output in self.document.outputs}
        self.last_load = {s.copy.tensor: s for s in self.program if isinstance(s, Load)}

    def store(self, store: Store) -> None:
        tensor = store.copy.tensor
        if refused := self._stays(tensor):
            raise _error(store, refused)
        if earlier := self.stored.get(tensor):
            raise _error(store, f"the host has it already, since {earlier} (line {earlier.line})")
        self.stored[tensor] = store
        self.on_way[store.copy] = store
        self.bytes += self._on_host(tensor)
        self.peak = max(self.peak, self.bytes)

    def load(self, load: Load, taken: list[int]) -> None:
        """`taken`: numbers of the runs of the operator that made the tensor."""
        tensor, number = load.copy
        if tensor not in self.stored:
            raise _error(load, f"%{tensor} was never stored")
        made = self.loads.setdefault(self.document.maker[tensor], {})
        if number in made or number in taken:
            raise _error(load, f"there is a copy .{number} of what is made with %{tensor} already")
        made[number] = load
        self.on_way[load.copy] = load

    def arrive(self, statement: Await) -> None:
        for copy in statement.copies:
            if copy.tensor not in self.document.maker:
                raise _error(statement, f"{copy} is an input, which stays where it is")
            arrived = self.on_way.pop(copy, None)
            if arrived is not None and self.last_load.get(copy.tensor, arrived) is arrived:
                self.bytes -= self._on_host(copy.tensor)

    def check_read(self, run: Run, copy: Copy) -> None:
        moving = self.on_way.get(copy)
        if isinstance(moving, Load):
            raise _error(run, f"reads {copy}, which is still on its way: {_since(moving)}")

    def check_run(self, run: Run) -> None:
        """Its results have a number that nothing loaded has."""
        if load := self.loads.get(run.operation, {}).get(run.copy):
            raise _error(run, f"makes copies .{run.copy}, as did {load} (line {load.line})")

    def check_change(self, statement: Run | Free, copy: Copy) -> None:
        """`statement` overwrites the copy or ends its lifetime."""
        if moving := self.on_way.get(copy):
            raise _error(statement, f"{copy} is still on its way: {_since(moving)}")

    def _stays(self, tensor: str) -> str:
        """Why the tensor may not leave the device; "" if it may."""
        if tensor not in self.document.maker:
            return f"%{tensor} is not a tensor that an operator makes"
        type_ = self.document.types[tensor]
        if type_ is None:
            return f"%{tensor} is undefined"
        if tensor in self.outputs:
            return f"%{tensor} is an output"
        whole = type_.minimal_storage(type_.dtype, type_.shape, type_.strides, 0)
        filled = type_.offset == 0 and type_.storage == whole > 0
        if not filled or not is_dense(type_.shape, type_.strides):
            return f"%{tensor} is {type_}, which does not fill its storage densely"
        return ""

    def _on_host(self, tensor: str) -> int:
        type_ = self.document.types[tensor]
        assert type_ is not None
        return -(-type_.storage // _HOST_ALIGNMENT) * _HOST_ALIGNMENT


def _since(moving: Store | Load) -> str:
    return f"{moving} (line {moving.line}) is not awaited"


def _error(statement: Statement, message: str) -> PlanError:
    return PlanError(f"line {statement.line}: {statement}: {message}")
