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


@functools.cache
def accounts(model: str) -> dict[str, dict[str, dict[str, Any]]]:
    code = f"""
        import json
        from plan_accounts import accounts
        print(json.dumps(accounts({model!r})))
    """
    read: dict[str, dict[str, dict[str, Any]]] = json.loads(under_hook(code))
    return read


@pytest.mark.parametrize("model", zoo.names())
class TestPlans:
    def test_without_scratch_the_promise_is_the_peak_of_the_tensors(self, model):
        for what, account in accounts(model)["without scratch"].items():
            assert account["tensors"] == account["promised"], (what, account)

    def test_with_scratch_the_promise_is_the_whole_peak(self, model):
        for what, account in accounts(model)["with scratch"].items():
            assert account["measured"] == account["promised"], (what, account)

    def test_the_verifier_counts_the_same_bytes(self, model):
        for plans in accounts(model).values():
            for what, account in plans.items():
                assert account["verified"] == account["promised"], (what, account)
                assert account["verified_persistent"] == account["promised_persistent"], what

    def test_watching_kernels_changes_nothing(self, model):
        for plans in accounts(model).values():
            for what, account in plans.items():
                assert account["bracketed"] == account["measured"], (what, account)

    def test_outputs_are_those_of_the_graph_bit_for_bit(self, model):
        for plans in accounts(model).values():
            for what, account in plans.items():
                assert account["equal"], what

    def test_plans_of_every_kind_were_tried(self, model):
        plans = accounts(model)["without scratch"]
        assert plans["program order"]["recomputed"] == 0
        assert plans["random 0"]["recomputed"] > 0
        assert plans["optimized"]["promised"] < plans["program order"]["promised"]
