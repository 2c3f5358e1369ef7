"""Every region that a zoo model offers computes what the whole graph computes, in float64, and
needs the bytes that it promises."""

import functools
import json
import random

import pytest
from fission_cases import Case, Tally, cases, subject
from hooked import under_hook

CASES = cases()
# In the daily set, one case a model and a few choices of each.
DAILY = [
    next(c for c in CASES[i % 2 :] if c.name == name)
    for i, name in enumerate(dict.fromkeys(c.name for c in CASES))
] + [c for c in CASES if c.name == "mlp" and c.optimizer]


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


@functools.cache
def in_the_worker(case: Case, which: str) -> dict[str, int]:
    """What a tally of `fission_cases.{which}` counted, bytes watched."""
    code = f"""
        import json
        from fission_cases import Case, {which}
        print(json.dumps({which}({case!r})))
    """
    read: dict[str, int] = json.loads(under_hook(code))
    return read


def mostly_checked(tally: dict[str, int]) -> bool:
    return tally["checked"] >= 9 * (sum(tally.values()) - tally["checked"])


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_region_in_parts_of_every_kind(case: Case) -> None:
    tally = in_the_worker(case, "every_region")
    assert mostly_checked(tally), tally


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_nested_regions_and_regions_side_by_side(case: Case) -> None:
    tally = in_the_worker(case, "combinations")
    assert mostly_checked(tally), tally
