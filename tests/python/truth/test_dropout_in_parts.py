"""native_dropout, which draws a mask and applies it at once, around and inside regions: drawn
whole, applied in parts, with the bits that eager leaves."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu

from magis import _core
from magis.verify import FissionCheck, check_types, verify_plan

BATCH = 7
TEXT = """magis 1
device cpu
batch %x "x" : f32[7,5,16]
%a = aten.gelu(%x) : f32[7,5,16]
%y, %m = aten.native_dropout(%a, 0.15, true) : f32[7,5,16], bool[7,5,16]
%z = aten.tanh(%y) : f32[7,5,16]
%w, %n = aten.native_dropout(%z, 0.5, true) : f32[7,5,16], bool[7,5,16]
%g = aten.native_dropout_backward(%w, %m, 1.1764705882352942) : f32[7,5,16]
output aux "w" %w
output aux "g" %g
"""

Step = Callable[[list[Tensor]], tuple[Tensor, ...]]


def step_of(plan: _core.Plan) -> Step:
    namespace: dict[str, Step] = {}
    exec(plan.source("Test."), namespace)
    return namespace["step"]


def eager(x: Tensor) -> tuple[Tensor, ...]:
    y, mask = torch.native_dropout(gelu(x), 0.15, True)
    w, _ = torch.native_dropout(torch.tanh(y), 0.5, True)
    return w, torch.ops.aten.native_dropout_backward(w, mask, 1 / 0.85)


@pytest.mark.parametrize("parts", [2, 3, BATCH])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_parts_leave_the_bits_of_eager(dtype: str, parts: int) -> None:
    graph = _core.Graph.parse(TEXT.replace("f32", dtype))
    split = _core.fission_regions(graph, device="cpu", limit=1).split_batch(parts)
    text = split.text()
    drawn, begins = text.rindex("aten.native_dropout("), text.index("magis.begin(")
    assert drawn < begins < text.index("aten.native_dropout_backward(")
    plan = _core.Plan.program_order(split)
    check_types(plan.text())
    promised = plan.simulate("cpu").transient_peak_bytes
    assert verify_plan(plan.text()).transient_peak_bytes == promised

    torch.manual_seed(1)
    x = torch.randn(BATCH, 5, 16).to(getattr(torch, _WORDS[dtype]))
    torch.manual_seed(2)
    expected, after = eager(x), torch.get_rng_state()
    torch.manual_seed(2)
    found = step_of(plan)([x])
    assert torch.equal(torch.get_rng_state(), after)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)


_WORDS = {"f32": "float32", "f64": "float64"}


def test_16_bits_stay_whole_on_a_cpu() -> None:
    """Its kernels round otherwise, forwards and backwards."""
    x = torch.randn(4, 40, generator=torch.Generator().manual_seed(3)).bfloat16()
    dropped, mask = torch.native_dropout(x, 0.15, True)
    assert not torch.equal(dropped, torch.ops.aten.native_dropout_backward(x, mask, 1 / 0.85))
    graph = _core.Graph.parse(TEXT.replace("f32", "bf16"))
    opened = _core.fission_regions(graph, device="cpu", limit=1).opened().text()
    assert "magis.pack_bits" not in opened


DRAW = '[6,5,16], [80,16,1], 0.9, dtype=torch.float32, device=device("cuda")'
ATTENTION = f"""magis 1
device cuda
batch %x "x" : f32[6,5,16]
%mask = magis.bernoulli({DRAW}) : f32[6,5,16]
%share = aten.div.Scalar(%mask, 0.9) : f32[6,5,16]
%y = aten.mul.Tensor(%x, %share) : f32[6,5,16]
%z = aten.mul.Tensor(%y, %share) : f32[6,5,16]
output aux "z" %z
"""


def test_masks_of_cuda_graphs_are_applied_with_the_same_bits() -> None:
    """By the kernel that a GPU has for it; here it is two, of the same arithmetic."""
    regions = _core.fission_regions(_core.Graph.parse(ATTENTION), device="rtx3090", limit=1)
    text = regions.split_batch(4).text()
    assert text.count("aten.native_dropout_backward(") == 2
    assert "aten.div.Scalar" not in text
    here = text.replace("device cuda", "device cpu").replace('device("cuda")', 'device("cpu")')
    torch.manual_seed(1)
    x = torch.randn(6, 5, 16)
    x[0, 0, 0], x[1] = float("inf"), -x[1].abs()
    torch.manual_seed(2)
    share = torch.empty(6, 5, 16).bernoulli_(0.9) / 0.9
    expected = (x * share) * share
    torch.manual_seed(2)
    (found,) = step_of(_core.Plan.program_order(_core.Graph.parse(here)))([x])
    assert torch.equal(found.view(torch.int32), expected.view(torch.int32))


def test_parts_compute_what_the_whole_does() -> None:
    graph = _core.Graph.parse(TEXT)
    truth = FissionCheck(TEXT, seed=1)
    truth.check(_core.fission_regions(graph, device="cpu", limit=1).split_batch(4).text())
