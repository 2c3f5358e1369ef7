"""Random swapping in zoo models' steps, whole and in parts."""

import random

import pytest
from fission_cases import Case, cases, subject
from random_plans import random_plan
from swap_cases import FORMS, Base, Tally, check

from magis import _core

CASES = cases()
# In the daily set, one case a model.
DAILY = [
    next(c for c in CASES[i % 2 :] if c.name == name)
    for i, name in enumerate(dict.fromkeys(c.name for c in CASES))
]


def bases(case: Case, rng: random.Random) -> list[Base]:
    """Program order, a random program, and program order in parts."""
    source = subject(case)
    graph = _core.Graph.parse(source.text)
    texts = [
        _core.Plan.program_order(graph).text(),
        random_plan(source.text, FORMS, rng.randrange(99)),
    ]
    for choices in (rng.choice(list(source.single())), source.combination(rng)):
        try:
            split = source.regions.split(choices)
        except _core.UserError:
            continue  # not every region can be split in every number of parts
        texts.append(_core.Plan.program_order(split).text())
    return [Base(text, source.truth.inputs) for text in texts]


@pytest.mark.parametrize("case", DAILY, ids=str)
def test_bytes_and_verdicts(case: Case) -> None:
    rng = random.Random(str(case))
    total = Tally()
    for base in bases(case, rng):
        total += check(base, rng, damages=2, execute=False)
    assert total.gaps > 20, total


@pytest.mark.parametrize("case", DAILY[:3], ids=str)
def test_bits(case: Case) -> None:
    rng = random.Random(str(case) + " bits")
    for base in rng.sample(bases(case, rng), 1):
        assert check(base, rng, damages=0).gaps


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_bytes_verdicts_and_bits_of_every_case(case: Case) -> None:
    rng = random.Random(str(case) + " long")
    total = Tally()
    for _ in range(8):
        for base in bases(case, rng):
            total += check(base, rng, damages=10, execute=rng.random() < 0.3)
    assert total.gaps > 200, total
