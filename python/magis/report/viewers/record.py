"""What happens in a step, moment by moment: predicted or measured, told in one form, which the
writers of files for viewers read.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

# The three engines, which work side by side.
COMPUTE = "compute"
TO_HOST = "copies to the host"
FROM_HOST = "copies from the host"
ENGINES = (COMPUTE, TO_HOST, FROM_HOST)

# Counters, beside one for each kind of what is on the device.
DEVICE = "device memory"
HOST = "host memory"
LIBRARIES = "memory of libraries behind PyTorch's back"

Nanoseconds = int  # since the step began


@dataclass(frozen=True, slots=True)
class Place:
    """Where the model asks for something."""

    operator: str  # "aten.mm", or what kind of input it is
    module: str  # "bert.encoder.layer.0"
    source: str  # "modeling_bert.py:110"


@dataclass(frozen=True, slots=True)
class Block:
    """Memory that is allocated at once and freed at once."""

    label: str  # "%mm_3.1 f32[8,128]"
    kind: str
    bytes: int  # as the allocator counts them
    asked_bytes: int  # of the tensor itself
    place: Place


@dataclass(frozen=True, slots=True)
class Change:
    """A block is allocated, or freed."""

    time: Nanoseconds
    block: int
    allocated: bool


@dataclass(slots=True)
class Slice:
    """Something that takes time on an engine."""

    engine: str
    name: str
    category: str
    start: Nanoseconds
    end: Nanoseconds
    details: dict[str, str | int]


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one slice to the next, by their numbers."""

    name: str
    stops: list[int]


@dataclass(frozen=True, slots=True)
class Sample:
    """From this moment on a counter stands at so many bytes."""

    time: Nanoseconds
    counter: str
    bytes: int


@dataclass
class Record:
    title: str
    blocks: list[Block] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)  # in their order, as are the samples
    slices: list[Slice] = field(default_factory=list)  # what encloses others before these
    arrows: list[Arrow] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    _levels: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _changed: dict[str, None] = field(default_factory=dict)  # counters without a sample yet

    def allocate(self, time: Nanoseconds, block: Block) -> int:
        """The number of the new block."""
        number = len(self.blocks)
        self.blocks.append(block)
        self.changes.append(Change(time, number, allocated=True))
        self.count(DEVICE, block.bytes)
        self.count(block.kind, block.bytes)
        return number

    def free(self, time: Nanoseconds, number: int, kind: str | None = None) -> None:
        """kind: what it has become, if it is not any more what it was allocated as."""
        block = self.blocks[number]
        self.changes.append(Change(time, number, allocated=False))
        self.count(DEVICE, -block.bytes)
        self.count(kind or block.kind, -block.bytes)

    def count(self, counter: str, change: int) -> None:
        """`change` is in bytes."""
        if change:
            self._levels[counter] += change
            self._changed[counter] = None

    def sample(self, time: Nanoseconds) -> None:
        """Notes the counters that have changed since they were noted last."""
        for counter in self._changed:
            self.samples.append(Sample(time, counter, self._levels[counter]))
        self._changed.clear()

    def slice(
        self,
        engine: str,
        name: str,
        category: str,
        start: Nanoseconds,
        end: Nanoseconds,
        **details: str | int,
    ) -> int:
        """The number of the new slice. Empty details are left out."""
        known = {key: detail for key, detail in details.items() if detail != ""}
        self.slices.append(Slice(engine, name, category, start, end, known))
        return len(self.slices) - 1
