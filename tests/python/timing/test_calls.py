"""Calls made again from their names."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from magis import _core
from magis.errors import PlanError
from magis.timing.calls import read_call
from magis.timing.operands import index_bound

CPU = torch.device("cpu")


def prepared(key: str):
    return read_call(key).prepare(CPU, torch.Generator().manual_seed(0))


def test_a_call_runs_on_operands_of_its_types() -> None:
    key = "aten.addmm(%0, %1, %2, beta=0.5) : f32[8,32] of f32[32], f32[8,64], f32[64,32]{1,64}"
    call = read_call(key)
    assert call.operator == "aten.addmm"
    assert [str(type_) for type_ in call.operands] == ["f32[32]", "f32[8,64]", "f32[64,32]{1,64}"]
    result = prepared(key).run()
    assert result.shape == (8, 32)
    assert result.dtype == torch.float32


def test_scalars_lists_and_repeated_operands() -> None:
    assert prepared("aten.mul.Tensor(%0, %1) : f32[4] of f32[4], scalar").run().shape == (4,)
    joined = prepared("aten.cat([%0,%1], 1) : f32[2,5] of f32[2,2], f32[2,3]").run()
    assert joined.shape == (2, 5)
    squared = read_call("aten.mul.Tensor(%0, %0) : f32[4] of f32[4]")
    assert len(squared.operands) == 1


def test_a_call_without_operands() -> None:
    key = 'aten.full([2,3], 1.0, dtype=torch.float32, device=device("cpu")) : f32[2,3]'
    assert prepared(key).run().tolist() == [[1.0] * 3] * 2


def test_in_place_the_operand_is_overwritten_and_restored() -> None:
    call = prepared("aten.mul.Tensor(%0, %1) over 1 : f32[4] of f32[4], f32[4]")
    first = call.run()
    before = first.clone()
    call.run()
    assert not torch.equal(first, before)
    call.restore()
    assert torch.equal(call.run(), before)


def test_in_place_by_keyword() -> None:
    key = "aten.gelu_backward(%0, %1) over 0 : f32[4] of f32[4], f32[4]"
    call = prepared(key)
    assert call.run().data_ptr() == call.run().data_ptr()


@pytest.mark.parametrize(
    ("key", "number", "bound"),
    [
        ("aten.embedding(%0, %1, 0) : f32[3,8] of f32[50,8], i64[3]", 1, 50),
        (
            "aten.embedding_dense_backward(%0, %1, 70, 0, false) : f32[70,8] of f32[3,8], i64[3]",
            1,
            70,
        ),
        ("aten.gather(%0, 1, %1) : f32[4,2] of f32[4,9], i64[4,2]", 1, 9),
        ("aten.index.Tensor(%0, [none,%1]) : f32[4,2] of f32[4,9], i64[2]", 1, 9),
        (
            "aten.nll_loss_forward(%0, %1, none, 1, -100) : f32[], f32[] of f32[6,11], i64[6]",
            1,
            11,
        ),
        ("aten.add.Tensor(%0, %0) : i64[4] of i64[4]", 0, None),
    ],
)
def test_indices_stay_within_what_they_index(key: str, number: int, bound: int | None) -> None:
    assert index_bound(read_call(key), number) == bound
    prepared(key).run()


def test_indices_are_spread() -> None:
    key = "aten.embedding(%0, %1, 0) : f32[1000,8] of f32[50,8], i64[1000]"
    call = read_call(key)
    rows = call.prepare(CPU, torch.Generator().manual_seed(0)).run()
    assert len(torch.unique(rows, dim=0)) == 50


def test_pooling_indices_lie_in_their_plane() -> None:
    shapes = "f32[1,2,4,4] of f32[1,2,2,2], f32[1,2,4,4], i64[1,2,2,2]"
    gradient = prepared(
        "aten.max_pool2d_with_indices_backward(%0, %1, [2,2], [2,2], [0,0], [1,1], false, %2) : "
        + shapes
    ).run()
    assert gradient.count_nonzero() == 8


def test_masks_keep_most() -> None:
    mask = prepared("aten.clone(%0) : bool[10000] of bool[10000]").run()
    assert 0.85 < mask.float().mean() < 0.95


def test_writers_of_parts_run() -> None:
    parts = "%0, %1) : none of f32[8,4], f32[8,4]"
    for name in ("add_part", "mul_part", "max_part", "min_part", "keep_part"):
        prepared(f"magis.{name}({parts}").run()
    prepared("magis.write_part(%0, 0, 2, %1) : none of f32[8,4], f32[2,4]").run()
    prepared("magis.add_mm_part(%0, %1, %2) : none of f32[8,4], f32[8,3], f32[3,4]").run()
    prepared("magis.add_parts([%0,%1], [%2,%3]) : none of f32[2], f32[3], f32[2], f32[3]").run()
    prepared("magis.bernoulli([2,3], [3,1], 0.9, dtype=torch.float32) : f32[2,3]").run()
    bits = prepared("magis.pack_bits(%0) : u8[2] of bool[16]").run()
    assert bits.shape == (2,)


@pytest.mark.parametrize("key", ["", "nonsense", "aten.mm(%0, %1) : f32[2,2] of f32[2"])
def test_what_is_no_call_is_refused(key: str) -> None:
    with pytest.raises(PlanError):
        read_call(key)


def test_the_core_and_the_reader_speak_of_the_same_calls() -> None:
    text = """magis 1
device cpu
batch %x "x" : f32[8,64]
param %w "w" : f32[32,64]
%t = aten.permute(%w, [1, 0]) : f32[64,32]{1,64}
%a = aten.mm(%x, %t) : f32[8,32]
%b = aten.relu(%a) : f32[8,32]
output loss "" %b
"""
    plan = _core.Plan.program_order(_core.Graph.parse(text))
    results = [prepared(call.key).run() for call in plan.calls("cpu")]
    assert [tuple(result.shape) for result in results] == [(8, 32), (8, 32)]


class _Read(TorchDispatchMode):
    """Notes the storages that are summed up."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.ops.aten.sum.default:
            self.storages.add(args[0].untyped_storage().data_ptr())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("call", "operands"),
    [
        ("aten.mul.Tensor(%0, %1) over 1 : f32[4] of f32[4], f32[4]", 2),
        ("aten.add.Tensor(%0, %1) : f16[3] of f16[3], f16[3]", 2),
        ("magis.bernoulli([4], [1], 0.5, dtype=torch.float32) : f32[4]", 0),
    ],
)
def test_all_operands_are_warmed(call: str, operands: int) -> None:
    ready = prepared(call)
    with _Read() as read:
        ready.warm()
    assert read.storages == {x.untyped_storage().data_ptr() for x in ready._operands}
    assert len(read.storages) == operands
