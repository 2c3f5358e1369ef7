"""Plans with regions keep their promise to the byte and lose no accuracy, for zoo models."""

import functools
import json
from typing import Any

import pytest
from hooked import under_hook

# Memory limits that reordering and recomputing alone do not reach; parts are named where a short
# search may do without.
DAILY = {
    "mlp": "'mlp', share=0.3, batch=32",
    "mlp, sgd in the step": "'mlp', share=0.4, parts=4, batch=32, optimizer='sgd'",
    "mlp, adamw in the step": "'mlp', share=0.4, parts=4, batch=32, optimizer='adamw'",
    "mlp, scratch": "'mlp', share=0.3, batch=32, scratch=True",
    "btlm, uneven": "'btlm', share=0.2, parts=2, batch=5",
    "bert, as the paper searches": "'bert', share=0.4, batch=8, strategy='paper'",
    "gpt2, as the paper searches": "'gpt2', share=0.4, batch=8, strategy='paper'",
    "bert, dropout": "'bert', share=0.2, parts=2, batch=5",
    "bert, bfloat16": "'bert', share=0.2, parts=4, batch=8, dtype='bfloat16', dropout=0.0",
    "gpt2, autocast": "'gpt2', share=0.45, parts=4, batch=8, autocast=True, dropout=0.0",
}
LONG = {
    f"{name} {optimizer}": f"{name!r}, share=0.2, batch=6, optimizer={optimizer!r}"
    for name in ("bert", "vit", "gpt2", "gpt-neo", "btlm", "llama")
    for optimizer in (None, "sgd", "adamw")
} | {
    f"{name} {what}": f"{name!r}, share=0.2, batch=6, dropout=0.0, {options}"
    for name in ("bert", "vit", "gpt2", "gpt-neo")
    for what, options in {
        "bfloat16": "dtype='bfloat16'",
        "autocast": "autocast=True",
        "scratch": "scratch=True",
        "small": "size='small'",
    }.items()
}
CASES = [pytest.param(DAILY[name], id=name) for name in DAILY] + [
    pytest.param(LONG[name], id=name, marks=pytest.mark.long) for name in LONG
]
ROUNDING = 2.0**-20  # of a value's size: what single precision loses in either order


@functools.cache
def account(arguments: str) -> dict[str, Any]:
    code = f"""
        import json
        from fission_promise import accounts
        print(json.dumps(accounts({arguments})))
    """
    read: dict[str, Any] = json.loads(under_hook(code))
    return read


@pytest.mark.parametrize("case", CASES, scope="class")  # all that is asked of one, then the next
class TestPlansWithRegions:
    def test_regions_are_used_and_save_memory(self, case: str) -> None:
        found = account(case)
        assert found["regions"] > 0
        assert found["promised"] < found["before"]

    def test_the_promise_is_what_the_allocator_hands_out(self, case: str) -> None:
        found = account(case)
        assert found["measured"] == found["promised"] == found["verified"]

    def test_code_and_evaluator_leave_the_same_bits(self, case: str) -> None:
        found = account(case)
        assert found["bits"]
        assert found["generator"]
        assert found["exact"] == []

    def test_no_less_accurate_than_the_whole_graph(self, case: str) -> None:
        for name, (plan, whole, size) in account(case)["errors"].items():
            assert plan <= 1.5 * whole + ROUNDING * size, name
