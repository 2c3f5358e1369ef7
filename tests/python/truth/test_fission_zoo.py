"""Every region that a zoo model offers computes what the whole graph computes, in float64."""

import random

import pytest
from fission_cases import Case, Tally, cases, subject

CASES = cases()
# In the daily set, one case a model and a few choices of each.
DAILY = [
    next(c for c in CASES[i % 2 :] if c.name == name)
    for i, name in enumerate(dict.fromkeys(c.name for c in CASES))
] + [c for c in CASES if c.name == "mlp" and c.optimizer]


def mostly_checked(tally: Tally) -> bool:
    return tally.checked >= 9 * sum(tally.refused.values())


@pytest.mark.parametrize("case", DAILY, ids=str)
def test_some_regions(case: Case) -> None:
    source, tally = subject(case), Tally()
    rng = random.Random(str(case))
    singles = list(source.single())
    assert singles, "no region is offered"
    for choices in rng.sample(singles, min(4, len(singles))):
        tally.add(source, choices)
    for _ in range(2):
        tally.add(source, source.combination(rng))
    assert tally.checked


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_region_in_parts_of_every_kind(case: Case) -> None:
    source, tally = subject(case), Tally()
    for choices in source.single():
        tally.add(source, choices)
    assert mostly_checked(tally), tally


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_nested_regions_and_regions_side_by_side(case: Case) -> None:
    """200 for each model, in equal shares for its cases."""
    source, tally = subject(case), Tally()
    rng = random.Random(str(case))
    for _ in range(-(-200 // sum(other.name == case.name for other in CASES))):
        tally.add(source, source.combination(rng))
    assert mostly_checked(tally), tally
