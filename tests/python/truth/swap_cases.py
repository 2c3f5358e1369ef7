"""Plans that swap, seen by everybody who has a say: both verifiers, the simulator, the reference
evaluator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from random_graphs import random_graph
from random_plans import random_plan
from random_regions import Regions
from swap_damages import damaged
from swap_programs import swapped

from magis import _core
from magis.errors import PlanError
from magis.verify import PlanFacts, evaluate_all, verify_plan

FORMS = {operator: positions for operator, _, _, positions in _core.in_place_forms()}
SHARES = (0.05, 0.3, 0.3, 1.0)  # of the gaps that a program has room for

# Rules of the text that the core does not hold programs to: they waste memory, and are counted.
WASTE = ("is held too long", "is never freed")


@dataclass
class Base:
    """A plan that swaps nothing, and inputs for it."""

    text: str
    inputs: dict[str, Any]


@dataclass
class Tally:
    gaps: int = 0
    refused: int = 0  # of damaged programs
    harmless: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.gaps + other.gaps, self.refused + other.refused, self.harmless + other.harmless
        )


def random_bases(seed: int) -> Iterator[Base]:
    """A random program of a random graph, and a split one in the order of the text."""
    made, rng = random_graph(seed), random.Random(seed)
    yield Base(random_plan(made.text, FORMS, seed, forget=rng.choice((0, 0.05, 0.2))), made.inputs)
    regions = Regions(made.text)
    region = regions.grow(rng, 12)
    if region is None:
        return
    chosen = [(region.number, rng.randrange(1, max(2, region.length)), [])]
    try:
        split = regions.core.split(chosen)
    except _core.UserError:
        return
    yield Base(_core.Plan.program_order(split).text(), made.inputs)


def check(base: Base, rng: random.Random, *, damages: int, execute: bool = True) -> Tally:
    """Swaps at random, and damages that. Raises AssertionError where two disagree."""
    made = swapped(base.text, rng, share=rng.choice(SHARES))
    expected = executed(base.text, base.inputs) if execute else None
    tally = Tally(made.gaps)
    held_to_account(made.text)
    if expected is not None:
        assert same(executed(made.text, base.inputs), expected)
    for _ in range(damages if made.gaps else 0):
        text, what = damaged(made.text, rng)
        try:
            if not agreed(text):
                tally.refused += 1
                continue
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}\n{text}") from error
        tally.harmless += 1
        if expected is not None:
            assert same(executed(text, base.inputs), expected), what
    return tally


def held_to_account(text: str) -> PlanFacts:
    """Facts of a plan that everybody accepts."""
    facts = verify_plan(text)
    plan = _core.Plan.parse(text)
    plan.verify()
    promised = plan.simulate("cpu")
    assert promised.transient_peak_bytes == facts.transient_peak_bytes
    # Where places of several sizes come and go, a pool may be larger than what is in it.
    assert plan.host_bytes == promised.host_peak_bytes >= facts.host_peak_bytes
    rounded = verify_plan(text, device="a100")
    assert plan.simulate("a100").peak_bytes == rounded.peak_bytes
    assert rounded.host_peak_bytes == facts.host_peak_bytes
    assert verify_plan(plan.text()).transient_peak_bytes == facts.transient_peak_bytes
    return facts


def agreed(text: str) -> bool:
    """Whether the plan is valid. AssertionError if the verifiers are not of one mind."""
    try:
        facts = verify_plan(text)
        refusal = ""
    except PlanError as error:
        refusal = str(error)
    try:
        plan = _core.Plan.parse(text)
        plan.verify()
        word = ""
    except _core.UserError as error:
        word = str(error)
    if refusal:
        assert word or any(waste in refusal for waste in WASTE), f"only here: {refusal}"
        return False
    assert not word, f"only the core: {word}"
    assert plan.simulate("cpu").transient_peak_bytes == facts.transient_peak_bytes
    return True


def executed(text: str, inputs: dict[str, Any]) -> list[torch.Tensor]:
    """Outputs in float64, then inputs as the step leaves them."""
    found = evaluate_all(text, inputs, seed=2)
    left = [value for value in found.inputs.values() if isinstance(value, torch.Tensor)]
    return [*found.outputs, *left]


def same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    """Bit for bit, but for the payload of what is no number."""
    return all(
        a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
        for a, b in zip(found, expected, strict=True)
    )
