"""What a plan promises is what the allocator hands out, to the byte, for every zoo model.

Three accounts of each plan are held together: the core's simulator, the plan verifier (which shares
nothing with it), and the allocator hook around the generated code. Kernel scratch is apart: what is
promised of a graph that knows of no scratch is the peak of its tensors; with each kernel's scratch
in the graph, it is the whole peak.
"""

import functools
import json
from typing import Any

import pytest
from hooked import under_hook

from magis import zoo

CASES = {name: f"{name!r}" for name in zoo.names()} | {
    "mlp, many random plans": "'mlp', random_plans=8",
    "mlp, sgd in the step": "'mlp', optimizer='sgd'",
    "bert, paper variant": "'bert', variant='paper'",
    "unet, paper variant": "'unet', variant='paper'",
    "vit, two threads": "'vit', threads=2",
}


@functools.cache
def accounts(case: str) -> dict[str, dict[str, dict[str, Any]]]:
    code = f"""
        import json
        from plan_accounts import accounts
        print(json.dumps(accounts({CASES[case]})))
    """
    read: dict[str, dict[str, dict[str, Any]]] = json.loads(under_hook(code))
    return read


@pytest.mark.parametrize("case", CASES)
class TestPlans:
    def test_without_scratch_the_promise_is_the_peak_of_the_tensors(self, case):
        for what, account in accounts(case)["without scratch"].items():
            assert account["tensors"] == account["promised"], (what, account)

    def test_with_scratch_the_promise_is_the_whole_peak(self, case):
        for what, account in accounts(case)["with scratch"].items():
            assert account["measured"] == account["promised"], (what, account)

    def test_adding_into_gradients_keeps_the_promise(self, case):
        for what, account in accounts(case).get("adding", {}).items():
            assert account["measured"] == account["promised"], (what, account)

    def test_the_verifier_counts_the_same_bytes(self, case):
        for plans in accounts(case).values():
            for what, account in plans.items():
                assert account["verified"] == account["promised"], (what, account)
                assert account["verified_persistent"] == account["promised_persistent"], what
                assert account["on_devices"], what

    def test_watching_kernels_changes_nothing(self, case):
        for plans in accounts(case).values():
            for what, account in plans.items():
                assert account["bracketed"] == account["measured"], (what, account)

    def test_the_step_leaves_what_the_graph_leaves_bit_for_bit(self, case):
        for plans in accounts(case).values():
            for what, account in plans.items():
                assert account["equal"], what

    def test_plans_of_every_kind_were_tried(self, case):
        plans = accounts(case)["without scratch"]
        assert plans["program order"]["recomputed"] == 0
        assert plans["random 0"]["recomputed"] > 0
        assert plans["optimized"]["promised"] < plans["program order"]["promised"]
        assert ("adding" in accounts(case)) == ("sgd" not in case)
