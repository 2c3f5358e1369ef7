"""Random swapping in random programs: everybody agrees on what is valid, on bytes and on bits."""

import random

import pytest
from random_plans import random_plan
from sabotage import PLAN
from swap_cases import FORMS, Base, Tally, check, random_bases

from magis.verify import random_inputs

GRAPH = PLAN.read_text().partition("\nprogram\n")[0]


def run(seeds: range, damages: int) -> Tally:
    total = Tally()
    for seed in seeds:
        rng = random.Random(seed)
        try:
            for base in random_bases(seed):
                total += check(base, rng, damages=damages)
        except Exception as error:
            raise AssertionError(f"graph of seed {seed}") from error
    assert total.gaps > 4 * len(seeds), total
    assert total.refused > 2 * len(seeds) > total.harmless / 2 > 0, total
    return total


@pytest.mark.parametrize("block", range(10))
def test_random_graphs_whole_and_in_parts(block: int) -> None:
    run(range(20 * block, 20 * block + 20), damages=4)


@pytest.mark.parametrize("seed", range(16))
def test_a_training_step_with_random_numbers_and_updates(seed: int) -> None:
    rng = random.Random(seed)
    text = random_plan(GRAPH, FORMS, seed, forget=0.02 * (seed % 8))
    tally = check(Base(text, random_inputs(GRAPH, seed=1)), rng, damages=3)
    assert tally.gaps


@pytest.mark.long
@pytest.mark.parametrize("block", range(40))
def test_four_thousand_graphs(block: int) -> None:
    run(range(1000 + 100 * block, 1100 + 100 * block), damages=8)


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_a_training_step_two_thousand_times(block: int) -> None:
    inputs = random_inputs(GRAPH, seed=1)
    for seed in range(100 * block, 100 * block + 100):
        text = random_plan(GRAPH, FORMS, seed, forget=0.02 * (seed % 8))
        check(Base(text, inputs), random.Random(seed), damages=8, execute=seed % 4 == 0)
