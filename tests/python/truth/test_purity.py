"""What the core's operator table says of purity is what PyTorch's schemas and tags say."""

import pytest

from magis import _core
from magis.errors import PlanError
from magis.verify.document import VIEW_OPERATORS, Operation
from magis.verify.operators import effects


def found(name: str) -> str:
    """Without dropout: with it, a graph's attention is random, which the table says apart."""
    seen = effects(Operation(name, ("r",), (None,), [], {"dropout_p": 0.0}, 1))
    once = seen.random or seen.averages  # nothing that other processes take part in runs again
    return "mutating" if seen.writes or seen.bounds else "random" if once else "pure"


@pytest.mark.parametrize("name", _core.known_operators())
def test_purity(name):
    purity = _core.operator_purity(name)
    try:
        by_pytorch = found(name)
    except PlanError:
        pytest.skip(f"this PyTorch has no {name}")
    assert (purity == "view") == (name in VIEW_OPERATORS)
    assert by_pytorch == ("pure" if purity == "view" else purity)


def test_every_view_operator_is_known():
    assert {n for n in _core.known_operators() if _core.operator_purity(n) == "view"} == (
        VIEW_OPERATORS
    )
