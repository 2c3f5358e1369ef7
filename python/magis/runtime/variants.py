"""Plans by what they take for granted: facts about a call (its key), and values that the step's
code read from tensors when it was captured.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from magis.capture.reads import Guards, Measure, Read, same_value
from magis.capture.sites import place
from magis.runtime.call import plain_modes
from magis.runtime.guards import Key, leaf_words
from magis.runtime.model_view import ModelView

if TYPE_CHECKING:
    from magis.capture import Capture
    from magis.runtime.workshop import Planned

# Plans for one key that differ in the values read. Where more would be needed the step reads what
# is different at nearly every call, and each plan costs a search.
MOST_VARIANTS = 8


@dataclass(frozen=True)
class Miss:
    """A value that is not what a plan was specialised on."""

    where: str
    expected: Any
    found: Any
    advice: str

    def __str__(self) -> str:
        return f"{self.where}: {shortened(self.expected)} planned, {shortened(self.found)} given"


def _read_otherwise(read: Read, found: Any) -> Miss:
    what = "" if read.measure is Measure.value else f"the {read.measure.value} of "
    return Miss(
        f"{what}a value read from {input_words(read.inputs)} in {place(read.site)}",
        read.expected,
        found,
        "Pad or group batches so that the value takes few forms, or compute with it on tensors"
        " (torch.where) instead of in Python.",
    )


def shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def input_words(inputs: Sequence[tuple[str, str]]) -> str:
    """The inputs that values come from, as a user would name them."""
    words = [leaf_words(path) if kind == "batch" else f"{kind} {path}" for kind, path in inputs]
    return ", ".join(words[:4]) + (" ..." if len(words) > 4 else "")


class GuardProgram:
    """Compares the values that one capture depends on: attributes, and what is computed from a
    call's inputs.
    """

    def __init__(self, captured: Capture, leaf_paths: Sequence[str], device: torch.device) -> None:
        self._attributes = captured.attributes
        self._guards = captured.guards
        self._leaf = {path: i for i, path in enumerate(leaf_paths)}
        self._device = device

    def miss(self, view: ModelView, leaves: Sequence[Any]) -> Miss | None:
        """The first value that differs; None if all are as they were."""
        for attribute in self._attributes:
            if not attribute.is_unchanged(view.modules):
                return Miss(
                    str(attribute),
                    attribute.expected,
                    attribute.now(view.modules),
                    "Give a number that changes from call to call in the batch, as a float.",
                )
        return None if self._guards is None else self._miss_of_reads(self._guards, view, leaves)

    def _miss_of_reads(self, guards: Guards, view: ModelView, leaves: Sequence[Any]) -> Miss | None:
        tables: dict[str, Any] = {"param": view.parameters, "buffer": view.buffers()}
        inputs = [
            leaves[self._leaf[path]] if kind == "batch" else tables[kind][path]
            for kind, path in guards.inputs
        ]
        with plain_modes(self._device.type):
            try:
                tensors = guards.program(*inputs)
            except RuntimeError:
                # Another value earlier on makes the rest of the program impossible to run.
                return _read_otherwise(guards.reads[0], "something else")
            for read, tensor in zip(guards.reads, tensors, strict=True):
                found = read.measure.of(tensor)
                if not same_value(read.expected, found):
                    return _read_otherwise(read, found)
        return None


class Variants:
    """The plans for one key, the one used last first."""

    def __init__(self) -> None:
        self.plans: list[Planned] = []
        self.made = 0  # how many there were altogether

    def fitting(self, view: ModelView, leaves: Sequence[Any]) -> Planned | Miss | None:
        """The plan whose guards hold; else what the plan used last was specialised on."""
        first: Miss | None = None
        for planned in self.plans:
            miss = planned.guards.miss(view, leaves)
            if miss is None:
                return planned
            first = first or miss
        return first

    def used(self, planned: Planned) -> None:
        if self.plans[0] is not planned:
            self.plans.remove(planned)
            self.plans.insert(0, planned)


class PlanCache:
    """Plans by key; those used longest ago are dropped when there are more than `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._variants: OrderedDict[Key, Variants] = OrderedDict()

    def __len__(self) -> int:
        return sum(len(variants.plans) for variants in self._variants.values())

    def __iter__(self) -> Iterator[Key]:
        return iter(self._variants)

    def get(self, key: Key) -> Variants | None:
        variants = self._variants.get(key)
        return variants if variants is not None and variants.plans else None

    def add(self, key: Key, planned: Planned) -> bool:
        """Whether another plan had to go."""
        variants = self._variants.setdefault(key, Variants())
        variants.plans.insert(0, planned)
        variants.made += 1
        self._variants.move_to_end(key)
        if len(self) <= self._most:
            return False
        oldest = next(v for v in self._variants.values() if v.plans)
        oldest.plans.pop()
        for empty in [k for k, v in self._variants.items() if not v.plans]:
            del self._variants[empty]
        return True

    def used(self, key: Key, planned: Planned) -> None:
        self._variants[key].used(planned)
        self._variants.move_to_end(key)
