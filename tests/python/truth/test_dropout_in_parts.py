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


def test_parts_compute_what_the_whole_does() -> None:
    graph = _core.Graph.parse(TEXT)
    truth = FissionCheck(TEXT, seed=1)
    truth.check(_core.fission_regions(graph, device="cpu", limit=1).split_batch(4).text())
