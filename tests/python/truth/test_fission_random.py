"""Random graphs over the operator table: valid regions compute what the whole does, others are
refused."""

import random

import pytest
from fission_cases import Choice, Tally, kind_of
from random_graphs import random_graph
from random_regions import Grown, Regions

from magis import _core
from magis.errors import PlanError
from magis.verify import FissionCheck, check_types, verify_plan


def choices(regions: Regions, rng: random.Random) -> list[list[Choice]]:
    """Regions that the core offers, regions grown by hand, and regions in regions."""
    grown = [regions.grow(rng, rng.choice((0, 2, 5, 12))) for _ in range(3)]
    numbers = [region.number for region in grown if region is not None]
    offered = range(min(48, len(regions.core) - len(numbers)))
    numbers += rng.sample(offered, min(2, len(offered)))
    found: list[list[Choice]] = [[(i, part(regions, i, rng), [])] for i in numbers]
    inside = [
        (outer, inner)
        for outer in numbers
        for inner in numbers
        if outer != inner and names(regions, inner) <= names(regions, outer)
    ]
    for outer, inner in inside[:1]:
        child = (inner, part(regions, inner, rng), [])
        found.append([(outer, part(regions, outer, rng), [child])])
    return found


def names(regions: Regions, number: int) -> set[str]:
    return set(regions.core.operators(number))


def part(regions: Regions, number: int, rng: random.Random) -> int:
    return rng.randrange(1, max(2, regions.core.length(number)))


def check_layouts(source: str, split: str) -> None:
    """Layouts are what PyTorch's fake tensors say, unless those get the source wrong too."""
    try:
        check_types(source)
    except PlanError:
        return
    check_types(split)


def check(seed: int) -> Tally:
    made, rng, tally = random_graph(seed), random.Random(seed), Tally()
    regions, truth = Regions(made.text), FissionCheck(made.text, made.inputs)
    for chosen in choices(regions, rng):
        try:
            split = regions.core.split(chosen)
        except _core.UserError as refusal:
            tally.refused[kind_of(str(refusal))] += 1
            continue
        truth.check(split.text())
        tally.checked += 1
        last = split
    if tally.checked:
        if seed % 4 == 0:  # fake tensors are slow
            check_layouts(made.text, last.text())
        plan = _core.Plan.program_order(last)
        facts = verify_plan(plan.text())
        assert facts.transient_peak_bytes == plan.simulate("cpu").transient_peak_bytes
    return tally


def refuses(seed: int) -> int:
    """How many broken regions were refused."""
    rng = random.Random(seed)
    regions, refused = Regions(random_graph(seed).text), 0
    for _ in range(3):
        region = regions.grow(rng, 6)
        if not isinstance(region, Grown):
            continue
        for what, labels in regions.broken(region, rng):
            assert isinstance(regions.add(labels, region.length), str), f"{what}: {labels}"
            refused += 1
    return refused


def run(seeds: range) -> None:
    total = Tally()
    for seed in seeds:
        try:
            tally = check(seed)
        except Exception as error:
            raise AssertionError(f"graph of seed {seed}") from error
        total.checked += tally.checked
        total.refused += tally.refused
    assert total.checked > 3 * len(seeds)
    assert total.checked > 4 * sum(total.refused.values()), total


@pytest.mark.parametrize("block", range(10))
def test_valid_regions_compute_what_the_whole_does(block: int) -> None:
    run(range(20 * block, 20 * block + 20))


def test_broken_regions_are_refused() -> None:
    assert sum(map(refuses, range(40))) > 200


@pytest.mark.long
@pytest.mark.parametrize("block", range(50))
def test_five_thousand_graphs(block: int) -> None:
    run(range(1000 + 100 * block, 1100 + 100 * block))


@pytest.mark.long
def test_broken_regions_of_many_graphs() -> None:
    assert sum(map(refuses, range(1000, 2500))) > 5000
