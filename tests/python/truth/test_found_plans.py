"""A thousand plans that the search finds, for requests of every kind: each computes what eager
computes, in the bytes that were promised."""

import functools
import json
from math import hypot
from typing import Any

import pytest
from hooked import under_hook

from magis import zoo

DAILY = {"mlp": 6, "bert": 3, "unet": 3}
LONG = {f"{name}, long": 1_000 // len(zoo.names()) for name in zoo.names()}
CASES = list(DAILY) + [pytest.param(name, marks=pytest.mark.long) for name in LONG]
ROUNDING = 2.0**-20  # of a value's size: what single precision loses in either order
CHANCE = 1.25  # over all that a step leaves


@functools.cache
def account(case: str) -> dict[str, Any]:
    name, _, kind = case.partition(", ")
    plans, seed = (LONG[case], 0) if kind else (DAILY[name], 1)
    code = f"""
        import json
        from found_plans import accounts
        print(json.dumps(accounts({name!r}, plans={plans}, seed={seed})))
    """
    read: dict[str, Any] = json.loads(under_hook(code))
    return read


@pytest.mark.parametrize("case", CASES, scope="class")  # all that is asked of one, then the next
class TestFoundPlans:
    def test_the_captured_graph_leaves_the_bits_of_eager(self, case: str) -> None:
        assert account(case)["eager"] == []

    def test_the_verifier_counts_the_same_bytes(self, case: str) -> None:
        for plan in account(case)["plans"]:
            assert plan["counted"] == plan["found"], plan["options"]

    def test_the_promise_is_what_the_allocator_hands_out(self, case: str) -> None:
        for plan in account(case)["plans"]:
            assert plan["measured"] == plan["promised"] == plan["verified"], plan["options"]

    def test_limits_on_memory_are_kept_or_missed_openly(self, case: str) -> None:
        for plan in account(case)["plans"]:
            limit = plan["options"].get("memory_limit")
            if limit is not None:
                assert plan["met"] == (plan["found"] <= limit), plan["options"]

    def test_plans_compute_the_step(self, case: str) -> None:
        for plan in account(case)["plans"]:
            assert plan["bits"], plan["options"]
            assert plan["generator"], plan["options"]
            assert plan["exact"] == [], plan["options"]
            # All that follows inherits what a rewrite rounds otherwise, single tensors by chance
            # for the worse.
            if plan["rewritten"]:
                relative = [(e / size, w / size) for e, w, size in plan["errors"].values() if size]
                error, whole = (hypot(*column) for column in zip(*relative, strict=True))
                assert error <= CHANCE * whole, plan["options"]
                continue
            for name, (error, whole, size) in plan["errors"].items():
                assert error <= 1.5 * whole + ROUNDING * size, (name, plan["options"])

    def test_bits_are_those_of_eager_but_for_regions_and_rewrites(self, case: str) -> None:
        for plan in account(case)["plans"]:
            assert plan["whole"] or plan["rounds_otherwise"], plan["options"]
            assert not (plan["options"]["exact"] and plan["rounds_otherwise"]), plan["options"]


@pytest.mark.long
def test_the_plans_make_use_of_everything() -> None:
    plans = [plan for case in LONG for plan in account(case)["plans"]]
    assert len(plans) == 1_000
    for what in ("regions", "recomputed", "swapped"):
        assert sum(plan[what] > 0 for plan in plans) > 100, what
    assert any(plan["regions"] > 1 for plan in plans)  # rare in searches as short as these
