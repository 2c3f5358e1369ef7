"""Zoo models to split: captured once, with the regions that they offer, whatever those save."""

from __future__ import annotations

import functools
import gc
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from optimizer_states import captured_step, step_inputs
from plan_accounts import step_of
from torch import Tensor

from magis import _core, measure, zoo
from magis.verify import FissionCheck
from magis.verify.tensors import constant
from magis.verify.text import parse

Part = tuple[int, int]  # region, units a part
Choice = tuple[int, int, list[Any]]  # the same, and choices inside it

# No saving is asked for: on models this small, many a region costs more than it saves.
ANY_SAVING = -(2**62)

# Models with an optimizer's update in the step.
UPDATED = (
    ("mlp", "sgd"),
    ("mlp", "adamw"),
    ("resnet50", "sgd"),
    ("unet", "adamw"),
    ("bert", "adamw"),
    ("gpt2", "sgd"),
    ("llama", "adamw"),
)

# What fission may answer to valid regions: only types and layouts decide it, or what two axes of
# nested regions make of them.
REFUSALS = {
    "layout": r"has holes or overlaps itself",
    "view": r"cannot be a view of a part|no strides give this view",
    "added once": r"once, but every part makes it",
    "units": r"splits the axis of \w+ in other units|but says that its length is",
    "other part": r"in another part than it is there",
    "crossing": r"left and entered again|cannot run one after another|run as a whole",
    "child": r"child region|an axis of length 1 cannot be split|in other steps",
}


@dataclass(frozen=True)
class Case:
    """A zoo model in the size tiny and an odd batch, which no number of parts divides evenly;
    perhaps with an optimizer's update in the step."""

    name: str
    variant: str
    attention: str | None
    batch: int
    optimizer: str | None = None

    def __str__(self) -> str:
        words = [self.name, self.variant, self.attention or "", f"batch {self.batch}"]
        words.append(self.optimizer or "")
        return " ".join(word for word in words if word)


def cases() -> list[Case]:
    """Every model, variant and kind of attention, and some models that update their parameters."""
    found = []
    for name in zoo.names():
        offered = zoo.entry(name).attention
        for variant in ("real", "paper"):
            kinds = ("eager", "sdpa") if variant == "paper" and offered else offered
            found += [Case(name, variant, kind, 3) for kind in kinds or (None,)]
    for name, optimizer in UPDATED:
        attention = zoo.entry(name).attention
        found.append(Case(name, "real", attention[0] if attention else None, 3, optimizer))
    return found


class Subject:
    """A captured case and its regions."""

    def __init__(self, case: Case) -> None:
        options = {"attention": case.attention} if case.attention else {}
        model, loss_fn, batch = zoo.build(
            case.name, variant=case.variant, batch=case.batch, **options
        )
        self.text = captured_step(model, loss_fn, batch, case.optimizer).text
        inputs = step_inputs(self.text, model, batch, case.optimizer)
        constants = {i.name: constant(i) for i in parse(self.text).inputs if i.kind == "const"}
        self.values = inputs | constants
        self.truth = FissionCheck(self.text, inputs)
        self.regions = _core.fission_regions(
            _core.Graph.parse(self.text), device="cpu", least_saving=ANY_SAVING
        )
        count = len(self.regions)
        labels = [self.regions.labels(i) for i in range(count)]
        self.labels = [{name: (axis, step) for name, axis, step in rows} for rows in labels]
        self.operators = [frozenset(names) for names in self.labels]

    def bytes(self, split: _core.Graph) -> tuple[int, int]:
        """Transient ones of the split graph in the order of its text: promised, and measured,
        kernels' scratch apart. Needs the allocator hook."""
        plan, log = _core.Plan.program_order(split), measure.KernelLog()
        step = step_of(plan.source(), log)
        given = [self.values[entry.name] for entry in plan.graph.inputs]
        inputs = [v.detach().clone() if isinstance(v, Tensor) else v for v in given]

        def call() -> Any:
            with torch.no_grad():
                return step(inputs)

        measured = measure.measure_kernels(call, log).tensor_peak_bytes
        return plan.simulate("cpu").transient_peak_bytes, measured

    def single(self) -> Iterator[list[Choice]]:
        for region in range(len(self.regions)):
            for part in parts(self.regions.length(region)):
                yield [(region, part, [])]

    def combination(self, rng: random.Random) -> list[Choice]:
        """Two regions side by side or regions two or three deep, whichever is found first."""
        first = self._choice(rng.randrange(len(self.regions)), rng, rng.choice((1, 2, 2)))
        beside = [
            i for i, names in enumerate(self.operators) if not names & self.operators[first[0]]
        ]
        if beside and (not first[2] or rng.random() < 0.3):
            return [first, self._choice(rng.choice(beside), rng, rng.choice((0, 1)))]
        return [first]

    def _choice(
        self, region: int, rng: random.Random, depth: int, around: tuple[Part, ...] = ()
    ) -> Choice:
        part = rng.choice(parts(self._length(region, around)))
        around = (*around, (region, part))
        mine = self.operators[region]
        inside = [
            i
            for i, names in enumerate(self.operators)
            if names <= mine and i != region and self._length(i, around) > 1
        ]
        children: list[Choice] = []
        if depth and inside:
            children.append(self._choice(rng.choice(inside), rng, depth - 1, around))
            beside = [i for i in inside if not self.operators[i] & self.operators[children[0][0]]]
            if beside and rng.random() < 0.5:
                children.append(self._choice(rng.choice(beside), rng, 0, around))
        return region, part, children

    def _length(self, region: int, around: tuple[Part, ...]) -> int:
        """Of its axis inside these regions: a part of the innermost one that is on the same."""
        name, (axis, step) = next(iter(self.labels[region].items()))
        for outer, part in reversed(around):
            outer_axis, outer_step = self.labels[outer][name]
            if outer_axis == axis:
                return outer_step // step * part
        return self.regions.length(region)


def parts(length: int) -> list[int]:
    """Lengths of parts of an axis: of 2, 3 and 4, of one unit, and with a short last one."""
    found = {-(-length // n) for n in (2, 3, 4)} | {1, length - 1, (2 * length + 2) // 3}
    return sorted(part for part in found if 1 <= part < length)


@functools.cache
def subject(case: Case) -> Subject:
    made = Subject(case)
    if measure.available():
        gc.freeze()  # each measurement collects garbage first
    return made


@dataclass
class Tally:
    """How many choices were split and checked, and why the others were refused."""

    checked: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, source: Subject, choices: Sequence[Choice]) -> None:
        """Splits and checks; AssertionError for a refusal of an unknown kind and, where the
        allocator is watched, for a split that needs other bytes than it promises; PlanError for
        one that computes something else."""
        try:
            split = source.regions.split(list(choices))
        except _core.UserError as refusal:
            self.refused[kind_of(str(refusal))] += 1
            return
        source.truth.check(split.text())
        if measure.available():
            promised, measured = source.bytes(split)
            assert measured == promised, f"{measured} bytes, not {promised}: {choices}"
        self.checked += 1

    def counts(self) -> dict[str, int]:
        return {"checked": self.checked, **self.refused}


def kind_of(refusal: str) -> str:
    kinds = [kind for kind, pattern in REFUSALS.items() if re.search(pattern, refusal)]
    assert kinds, f"an unknown refusal: {refusal}"
    return kinds[0]


# One case a model.
CASES_ONCE = [next(case for case in cases() if case.name == name) for name in zoo.names()]


def every_region(case: Case) -> dict[str, int]:
    """`Tally.counts` of every region in parts of every kind."""
    source, tally = subject(case), Tally()
    for choices in source.single():
        tally.add(source, choices)
    return tally.counts()


def combinations(case: Case) -> dict[str, int]:
    """The same of 200 combinations for each model, in equal shares for its cases."""
    source, tally = subject(case), Tally()
    rng = random.Random(str(case))
    for _ in range(-(-200 // sum(other.name == case.name for other in cases()))):
        tally.add(source, source.combination(rng))
    return tally.counts()
