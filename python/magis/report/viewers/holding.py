"""Which block of a record holds which tensor."""

from __future__ import annotations

from collections.abc import Callable

from magis import _core
from magis.report.loops import read_loops
from magis.report.memory import PERSISTENT_KINDS, roles
from magis.report.viewers.program import Program, Tensor
from magis.report.viewers.record import Block, Nanoseconds, Place, Record


class Holding:
    """Blocks of the tensors of `plan` on `record`."""

    def __init__(
        self, record: Record, plan: _core.Plan, program: Program, device: _core.Device
    ) -> None:
        self._record = record
        self._program = program
        self._granularity = _core.allocation_granularity(device)
        self._inputs = plan.graph.inputs
        loops = read_loops(plan.graph.text())
        self._kind: Callable[[Tensor], str] = roles(plan, plan.simulate(device), loops)
        self._blocks: dict[str, int] = {}  # copy -> its block; empty tensors have none
        self.kinds: dict[int, str] = {}  # block -> what it holds now

    def inputs(self) -> None:
        """What is there before the step."""
        for entry in self._inputs:
            if entry.kind not in PERSISTENT_KINDS or entry.bytes == 0:
                continue
            kind = PERSISTENT_KINDS[entry.kind]
            size = self.rounded(entry.bytes)
            place = Place(kind, _owner(entry), "")
            self._record.allocate(0, Block(_label(entry), kind, size, entry.bytes, place))

    def rounded(self, size: int) -> int:
        """As the device's allocator counts it."""
        return -(-size // self._granularity) * self._granularity

    def make(self, copy: str, time: Nanoseconds, place: Place, size: int | None = None) -> int:
        """The number of the block that holds this from now on, below 0 if it is empty.

        size: of the tensor, if it is not what its type says.
        """
        tensor = self._program.tensor(copy)
        size = tensor.bytes if size is None else size
        if size == 0:  # PyTorch allocates nothing
            return -1
        label = f"%{copy} {tensor.type}"
        kind = self._kind(Tensor(copy, tensor))
        block = Block(label, kind, self.rounded(size), size, place)
        return self.keep(copy, self._record.allocate(time, block))

    def keep(self, copy: str, block: int) -> int:
        """`block` is that of this copy."""
        self._blocks[copy] = block
        self.kinds[block] = self._record.blocks[block].kind
        return block

    def take_over(self, copy: str, over: str) -> None:
        """The memory stays, what it holds is something else now."""
        block = self._blocks.pop(over, None)
        if block is None:
            return
        self._blocks[copy] = block
        size = self._record.blocks[block].bytes
        self._record.count(self.kinds[block], -size)
        self.kinds[block] = self._kind(Tensor(copy, self._program.tensor(copy)))
        self._record.count(self.kinds[block], size)

    def free(self, copy: str, time: Nanoseconds) -> None:
        block = self._blocks.pop(copy, None)
        if block is not None:
            self.give_back(block, time)

    def give_back(self, block: int, time: Nanoseconds) -> None:
        self._record.free(time, block, self.kinds.pop(block, None))


def _owner(entry: _core.Input) -> str:
    """The module that a parameter or buffer belongs to."""
    named = entry.kind in ("param", "buffer", "grad")
    return entry.path.rpartition(".")[0] if named else ""


def _label(entry: _core.Input) -> str:
    name = f"%{entry.name}" if entry.kind == "const" else entry.path  # a constant's is its data
    return f"{name} {entry.dtype}[{','.join(map(str, entry.shape))}]"
