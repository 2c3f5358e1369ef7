"""Axis signatures against PyTorch: parts combined as the signature says give the whole."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable

import pytest
import torch
from axes_cases import all_cases, case
from axes_cuda_cases import CUDA_OPERATORS, ELSEWHERE, cuda_cases
from axes_pointwise_cases import integers, signed
from axes_support import (
    Case,
    SplitError,
    check_split,
    graph_text,
    run,
    signature_of,
    splits_of,
)

from magis import _core

CASES: dict[str, list[Case]] = defaultdict(list)
for one in all_cases():
    CASES[one.operator].append(one)

# Attributes of these calls rule splitting out: a mean's gradient divides by the number of elements.
WHOLE = {
    "aten.mse_loss_backward",
    "aten.smooth_l1_loss_backward",
    "aten.huber_loss_backward",
    "aten.soft_margin_loss_backward",
    "aten.binary_cross_entropy_backward",
}


def check(call: Case) -> None:
    signature = signature_of(call)
    if call.operator in WHOLE and any(type(arg) is int and arg == 1 for arg in call.args):
        assert signature is None
        return
    assert signature is not None, f"{call} has no signature"
    check_splits(call, signature)


def check_splits(call: Case, signature: _core.AxisSignature) -> None:
    for split in splits_of(signature):
        check_split(call, signature, split)


def test_every_operator_with_a_signature_has_a_case() -> None:
    own = {"magis.unpack_bits"}  # no operator of PyTorch: models with dropout try it in parts
    assert set(_core.split_operators()) - own == set(CASES) | CUDA_OPERATORS | ELSEWHERE


@pytest.mark.parametrize("operator", sorted(CASES))
def test_parts_make_the_whole(operator: str) -> None:
    for call in CASES[operator]:
        check(call)


@pytest.mark.parametrize("operator", sorted(CASES))
def test_parts_make_the_whole_in_16_bits(operator: str) -> None:
    """Other kernels, and other faults with slices that are not contiguous."""
    for call in CASES[operator]:
        short = call.in_precision(torch.bfloat16)
        try:
            signature = signature_of(short)
        except RuntimeError:
            continue  # no kernel for it
        if signature is None:
            continue
        for split in splits_of(signature):
            if split.part == 1:
                check_split(short, signature, split)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="operators of CUDA alone")
def test_parts_make_the_whole_on_a_gpu() -> None:
    seen = set()
    for call in cuda_cases():
        check(call)
        seen.add(call.operator)
    assert seen == CUDA_OPERATORS


# ---- wrong signatures are noticed

Damage = Callable[["_core.AxisSignature"], None]


def _all_splittable(signature: _core.AxisSignature) -> None:
    signature["axes"] = [(length, True) for length, _ in signature["axes"]]


def _sums_once(signature: _core.AxisSignature) -> None:
    signature["dependence"] = [
        ["once" if word == "sum" else word for word in row] for row in signature["dependence"]
    ]


def _added_every_time(signature: _core.AxisSignature) -> None:
    signature["added_once"] = [False for _ in signature["added_once"]]


def _read_as_it_lies(signature: _core.AxisSignature) -> None:
    signature["contiguous"] = [False for _ in signature["contiguous"]]


def _no_lengths(signature: _core.AxisSignature) -> None:
    signature["lengths"] = []


def _shares_the_first_operand(signature: _core.AxisSignature) -> None:
    signature["operands"][0] = [(-1, 1) for _ in signature["operands"][0]]


def _swaps_the_first_dimensions(signature: _core.AxisSignature) -> None:
    row = signature["operands"][0]
    row[0], row[1] = row[1], row[0]


X, W = signed(4, 4), signed(4, 4)
LOGITS = signed(4, 5).log_softmax(1)
GROUPED = ([1], [0], [1], False, [0], 2)


@pytest.mark.parametrize(
    ("damage", "call"),
    [
        (_all_splittable, case("_softmax", X, -1, False)),
        (_all_splittable, case("cumsum", X, 0)),
        (_all_splittable, case("mean.dim", X, [0])),
        (_all_splittable, case("native_layer_norm", X, [4], None, None, 1e-5)),
        (_all_splittable, case("nll_loss_forward", LOGITS, integers(4), None, 1, -100)),
        (_sums_once, case("mm", X, W)),
        (_sums_once, case("sum.dim_IntList", X, [0])),
        (_sums_once, case("embedding_dense_backward", X, integers(4), 5, -1, False)),
        (_added_every_time, case("addmm", signed(4), X, W)),
        (
            _added_every_time,
            case(
                "convolution",
                signed(2, 4, 5),
                signed(2, 4, 3),
                signed(2),
                [1],
                [0],
                [1],
                False,
                [0],
                1,
            ),
        ),
        (
            _read_as_it_lies,
            case(
                "native_layer_norm_backward",
                signed(3, 4, 5),
                signed(3, 4, 5),
                [5],
                signed(3, 4, 1),
                signed(3, 4, 1),
                None,
                None,
                [True, False, False],
            ),
        ),
        (_no_lengths, case("slice_backward", X, [8, 4], 0, 0, 4, 1)),
        (_no_lengths, case("convolution", signed(2, 4, 5), signed(4, 2, 3), None, *GROUPED)),
        (_no_lengths, case("ones", [4, 4])),
        (_shares_the_first_operand, case("relu", X)),
        (_shares_the_first_operand, case("mm", X, W)),
        (_swaps_the_first_dimensions, case("mm", X, W)),
        (_swaps_the_first_dimensions, case("neg", X)),
    ],
    ids=lambda part: getattr(part, "operator", getattr(part, "__name__", "")),
)
def test_a_damaged_signature_is_noticed(damage: Damage, call: Case) -> None:
    signature = signature_of(call)
    assert signature is not None
    damaged = copy.deepcopy(signature)
    damage(damaged)
    assert damaged != signature
    with pytest.raises(SplitError):
        check_splits(call, damaged)


def test_the_signature_of_an_operator_without_an_entry() -> None:
    call = case("_chunk_cat", [X, W], 0, 2)
    assert signature_of(call) is None
    text = graph_text(call, run(call.operator, call.args, call.kwargs))
    assert _core.axis_signatures(_core.Graph.parse(text)) == [("aten._chunk_cat", None)]
