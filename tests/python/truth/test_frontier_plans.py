"""Every plan of a frontier keeps its promise, for zoo models: all are counted again by the plan
verifier, three are executed."""

import functools
import json
from itertools import pairwise
from typing import Any

import pytest
from hooked import under_hook

MODELS = {
    "mlp": "'mlp', states=4000, batch=512",  # with regions
    "bert": "'bert', states=4000",
    "bert, more": "'bert', states=20000, batch=16",
    "unet": "'unet', states=4000",
    "gpt2": "'gpt2', states=8000, batch=8",
}
DAILY = ("mlp", "bert")
CASES = [pytest.param(name, marks=[] if name in DAILY else pytest.mark.long) for name in MODELS]
ROUNDING = 2.0**-20  # of a value's size: what single precision loses in either order


@functools.cache
def account(case: str) -> dict[str, Any]:
    code = f"""
        import json
        from frontier_accounts import accounts
        print(json.dumps(accounts({MODELS[case]})))
    """
    read: dict[str, Any] = json.loads(under_hook(code))
    return read


@pytest.mark.parametrize("case", CASES, scope="class")  # all that is asked of one, then the next
class TestFrontier:
    def test_each_plan_is_smaller_and_slower(self, case: str) -> None:
        plans = account(case)["plans"]
        assert len(plans) > 5
        for (peak, seconds, _), (smaller, slower, _) in pairwise(plans):
            assert smaller < peak
            assert slower > seconds

    def test_the_verifier_counts_the_same_bytes(self, case: str) -> None:
        for promised, _, counted in account(case)["plans"]:
            assert counted == promised

    def test_the_promise_is_what_the_allocator_hands_out(self, case: str) -> None:
        executed = account(case)["executed"]
        for plan in executed:
            assert plan["measured"] == plan["promised"] == plan["verified"]
        assert executed[0]["promised"] > executed[1]["promised"] > executed[2]["promised"]

    def test_plans_compute_the_step(self, case: str) -> None:
        for plan in account(case)["executed"]:
            assert plan["bits"]
            assert plan["generator"]
            assert plan["exact"] == []
            for name, (error, whole, size) in plan["errors"].items():
                assert error <= 1.5 * whole + ROUNDING * size, name

    def test_on_the_graph_as_captured_the_bits_are_its(self, case: str) -> None:
        for plan in account(case)["executed"]:
            if not plan["altered"]:
                assert all(error == whole for error, whole, _ in plan["errors"].values())


def test_plans_with_regions_were_executed() -> None:
    assert account("mlp")["executed"][-1]["regions"] > 0
