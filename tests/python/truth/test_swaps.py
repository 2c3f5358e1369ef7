"""Plans whose tensors leave for the host and come back: the same bits, the promised peak, and no
race between streams, for every zoo model and inside loops.
"""

import functools
import json
from typing import Any

import pytest
import torch
from emulated_streams import EmulatedStep, RaceError
from hooked import under_hook

from magis import _core, zoo

CASES = {name: f"accounts({name!r}, plans=2)" for name in zoo.names()} | {
    "bert, bfloat16": "accounts('bert', plans=1, dtype='bfloat16', dropout=0.0)",
    "mlp, nearly all": "accounts('mlp', plans=4, share=0.9)",
    "mlp, in parts": "accounts_in_parts('mlp', limit=0.3, plans=4, share=0.6, batch=32)",
    "btlm, uneven parts": "accounts_in_parts('btlm', limit=0.3, plans=3, batch=5, parts=3)",
}
LONG = {f"{name}, long": f"accounts({name!r}, plans=500)" for name in zoo.names()} | {
    f"{name}, in parts, long": f"accounts_in_parts({name!r}, limit=0.3, plans=99, batch=5, parts=3)"
    for name in ("bert", "vit", "gpt2", "gpt-neo", "btlm", "llama")
}
ALL = [pytest.param(CASES[name], id=name) for name in CASES] + [
    pytest.param(LONG[name], id=name, marks=pytest.mark.long) for name in LONG
]


@functools.cache
def accounts(case: str) -> list[dict[str, Any]]:
    code = f"""
        import json
        from swap_accounts import accounts, accounts_in_parts
        print(json.dumps({case}))
    """
    read: list[dict[str, Any]] = json.loads(under_hook(code))
    return read


@pytest.mark.parametrize("case", ALL, scope="class")  # all that is asked of one, then the next
class TestSwaps:
    def test_tensors_leave_and_come_back(self, case: str) -> None:
        for account in accounts(case):
            assert account["host"] > 0, account
            assert account["loads"] >= account["stores"] > 0, account

    def test_the_same_bits(self, case: str) -> None:
        assert [account["equal"] for account in accounts(case)] == [True] * len(accounts(case))

    def test_the_promise_is_what_the_allocator_hands_out(self, case: str) -> None:
        for account in accounts(case):
            assert account["measured"] == account["promised"], account

    def test_no_race_between_streams(self, case: str) -> None:
        assert [account["races"] for account in accounts(case)] == [[]] * len(accounts(case))


@pytest.mark.parametrize("case", ["mlp, in parts", "btlm, uneven parts"])
def test_tensors_of_loops_leave_in_every_iteration(case: str) -> None:
    assert sum(account["in_loops"] for account in accounts(CASES[case])) > 0


def test_some_swaps_lower_the_peak() -> None:
    """Not by design, they are random; but hardly ever none of them."""
    found = [account for name in ("bert", "unet", "gpt2") for account in accounts(CASES[name])]
    assert any(account["promised"] < account["without"] for account in found)


def test_a_file_in_place_of_memory(tmp_path) -> None:
    found = accounts(f"accounts('mlp', plans=2, directory={str(tmp_path)!r})")
    for account in found:
        assert account["equal"], account
        assert account["measured"] == account["promised"], account
    assert list(tmp_path.iterdir()) == []


# %a and %c have the same place on the host one after the other, %a comes back twice.
PLAN = """magis 1
device cuda
batch %x "x" : f32[64]
%a = aten.sin(%x) : f32[64]
%b = aten.cos(%a) : f32[64]
%c = aten.exp(%b) : f32[64]
%d = aten.mul.Tensor(%c, %a) : f32[64]
%e = aten.add.Tensor(%d, %a) : f32[64]
%f = aten.sub.Tensor(%e, %c) : f32[64]
output loss "" %f
program
run %a
store %a
run %b
await %a
free %a
run %c
free %b
load %a as .1
await %a.1
run %d reading %a.1
free %a.1
load %a as .2
await %a.2
run %e reading %a.2 over %d
free %a.2
store %c
load %c as .1
await %c, %c.1
free %c
run %f reading %c.1 over %e
free %c.1
"""
WAITS = {
    "a store begins before the tensor is computed": "to_host.wait_stream(compute)",
    "a tensor is freed before it has left": "compute.wait_event(a_stored)",
    "a tensor is loaded into memory that is in use": "from_host.wait_stream(compute)",
    "a tensor is loaded before it is there": "from_host.wait_event(c_stored)",
    "a tensor is read before it is back": "compute.wait_event(a_1_loaded)",
}


def races(source: str) -> set[str]:
    """What goes wrong with it on emulated streams, in some of many schedules."""
    x = torch.randn(64, generator=torch.Generator().manual_seed(0))
    a = x.sin()
    c = a.cos().exp()
    found = set()
    for seed in range(40):
        step = EmulatedStep(source, seed=seed, eagerness=(seed % 8) / 8)
        try:
            (result,) = step([x], torch.empty(256, dtype=torch.uint8))
        except RaceError as error:
            found.add(str(error))
            continue
        if not torch.equal(result, c * a + a - c):
            found.add("other values")
    return found


def test_the_emulation_finds_no_race_where_there_is_none() -> None:
    assert races(_core.Plan.parse(PLAN).source()) == set()


@pytest.mark.parametrize("race", WAITS)
def test_the_emulation_finds_a_race_where_a_wait_is_missing(race: str) -> None:
    source = _core.Plan.parse(PLAN).source()
    assert WAITS[race] in source
    damaged = source.replace(WAITS[race], "pass", 1)
    assert races(damaged) != set()
