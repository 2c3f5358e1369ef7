"""Models as people write them go through, or are refused with the place named; none is wrong."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import handwritten
import pytest
import tiny_packages
import users_losses  # noqa: F401  more cases of the same list
import users_models  # noqa: F401
from probe import in_a_child

LIST = Path(__file__).with_name("transformers.txt")
SECONDS = float(os.environ.get("MAGIS_SWEEP_SECONDS", "120"))

# What cannot be planned, and the words that name why.
REFUSED = {
    "refused_numbers_from_activations": "reads the value of a tensor",
    "refused_routing": "the shape of a result depends on the data",
}


def outcome(name: str) -> dict[str, Any]:
    return in_a_child(name, SECONDS, only_eager=False)


@pytest.mark.long
@pytest.mark.parametrize("name", handwritten.CASES)
def test_handwritten(name: str) -> None:
    found = outcome(f"handwritten/{name}")
    if name in REFUSED:
        assert found["outcome"] == "refused"
        assert REFUSED[name] in found["why"]
        assert "handwritten.py:" in found["why"]
    else:
        assert found["outcome"] == "equal", found


@pytest.mark.long
def test_packages() -> None:
    pytest.importorskip("diffusers")
    pytest.importorskip("monai")
    _check({name: outcome(f"packages/{name}") for name in tiny_packages.CASES})


@pytest.mark.long
def test_transformers() -> None:
    pytest.importorskip("transformers")
    names = LIST.read_text().split()
    assert len(names) >= 200
    _check({name: outcome(f"transformers/{name}") for name in names})


def _check(found: dict[str, dict[str, Any]]) -> None:
    counts = Counter(entry["outcome"] for entry in found.values())
    ran = {name: entry for name, entry in found.items() if entry["outcome"] != "no eager"}
    failed = {n: e for n, e in ran.items() if e["outcome"] not in ("equal", "refused")}
    assert not failed, failed
    unnamed = [
        name
        for name, entry in ran.items()
        if entry["outcome"] == "refused"
        and "module " not in entry["why"]
        and ".py:" not in entry["why"]
        and "batch" not in entry["why"]
    ]
    assert not unnamed
    assert counts["equal"] >= 0.95 * len(ran), counts
