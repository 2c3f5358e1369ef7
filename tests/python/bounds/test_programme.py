"""What multipliers prove, wherever they come from."""

from __future__ import annotations

import random

import numpy as np
import pytest

from magis.bounds import programme
from magis.bounds.programme import Programme
from magis.errors import MissingExtraError


def random_programme(draw: random.Random) -> Programme:
    made = Programme()
    for _ in range(6):
        low = draw.uniform(-2, 1)
        made.variable(draw.uniform(-1, 2), low, low + draw.uniform(0, 3))
    point = [draw.uniform(a, b) for a, b in zip(made.lower, made.upper, strict=True)]
    for _ in range(5):
        terms = [(column, draw.uniform(-1, 1)) for column in draw.sample(range(6), 3)]
        value = sum(weight * point[column] for column, weight in terms)
        if draw.random() < 0.5:
            made.at_least(terms, value - draw.uniform(0, 0.5))
        else:
            made.at_most(terms, value + draw.uniform(0, 0.5))
    return made


@pytest.mark.parametrize("seed", range(20))
def test_the_solvers_multipliers_prove_its_optimum_and_no_others_prove_more(seed: int) -> None:
    draw = random.Random(seed)
    made = random_programme(draw)
    solver = made.solve(10)
    optimum = solver.getInfo().objective_function_value
    multipliers = np.array(solver.getSolution().row_dual)
    assert made.proven_minimum(multipliers) == pytest.approx(optimum, abs=1e-6)
    assert made.proven_minimum(multipliers) <= optimum + 1e-9
    for size in (0.01, 0.1, 1, 10):
        wrong = multipliers + np.array([draw.uniform(-size, size) for _ in range(5)])
        assert made.proven_minimum(wrong) <= optimum + 1e-9
    # Columns alone: every one at its cheaper bound.
    columns = zip(made.cost, made.lower, made.upper, strict=True)
    alone = sum(min(cost * low, cost * high) for cost, low, high in columns)
    assert made.proven_minimum(np.zeros(5)) == pytest.approx(alone)


def test_two_columns_by_hand() -> None:
    """x + 2 y with x + y >= 1.5 and both at most 1: x = 1, y = 1/2, cost 2; the row is worth 2."""
    made = Programme()
    x, y = made.variable(1), made.variable(2)
    made.at_least([(x, 1), (y, 1)], 1.5)
    assert made.proven_minimum(np.array([2.0])) == pytest.approx(2)
    assert made.proven_minimum(np.array([1.0])) == pytest.approx(1.5)
    # A multiplier of the wrong sign for the row's side proves what none does.
    assert made.proven_minimum(np.array([-3.0])) == pytest.approx(0, abs=1e-9)


def test_whole_numbers_and_silence(capfd: pytest.CaptureFixture[str]) -> None:
    made = Programme()
    x, y = made.variable(1, binary=True), made.variable(2, binary=True)
    made.at_least([(x, 1), (y, 1)], 1.5)
    assert made.solve(10).getInfo().objective_function_value == pytest.approx(3)
    assert capfd.readouterr() == ("", "")


def test_without_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programme, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'magis\[bounds\]'"):
        Programme().solve(1)
