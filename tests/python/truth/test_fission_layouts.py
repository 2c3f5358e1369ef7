"""What a split graph makes itself has the layout that PyTorch gives it."""

import random

import pytest

from magis import _core
from magis.verify import check_types


def rows_added_to(lengths: list[int], strides: list[int]) -> str:
    """Five rows added at one dimension of a tensor with these strides."""
    where = max(range(len(lengths)), key=lambda dim: lengths[dim])
    rows = [5 if dim == where else length for dim, length in enumerate(lengths)]
    last = sum((n - 1) * step for n, step in zip(lengths, strides, strict=True))
    types = ["[" + ",".join(map(str, numbers)) + "]" for numbers in (lengths, strides, rows)]
    return f"""magis 1
device cpu
batch %x "x" : f32[{last + 1}]
batch %index "index" : i64[5]
batch %rows "rows" : f32{types[2]}
%self = aten.as_strided(%x, {types[0]}, {types[1]}) : f32{types[0]}{{{types[1][1:-1]}}}
%b = aten.index_add(%self, {where}, %index, %rows) : f32{types[0]}
output aux "" %b
"""


def strided(seed: int) -> tuple[list[int], list[int]]:
    """Lengths and strides: permuted, sliced, expanded."""
    rng = random.Random(seed)
    lengths = [rng.choice((2, 3, 4)) for _ in range(rng.choice((2, 3, 4)))]
    strides, step = [0] * len(lengths), 1
    for dim in rng.sample(range(len(lengths)), len(lengths)):
        if rng.random() < 0.3:
            continue  # expanded
        strides[dim] = step
        step *= lengths[dim] + rng.choice((0, 0, 1))
    return lengths, strides


@pytest.mark.parametrize("seed", range(40))
def test_zeros_in_place_of_what_is_added_to_once(seed: int) -> None:
    lengths, strides = strided(seed)
    graph = _core.Graph.parse(rows_added_to(lengths, strides))
    regions = _core.fission_regions(graph, device="cpu", least_saving=-(2**62))
    ((_, signature),) = _core.axis_signatures(graph)
    summed = next(i for i, how in enumerate(signature["dependence"][0]) if how == "sum")
    assert regions.add([("b", summed, 1)], length=5) is None
    split = regions.split([(len(regions) - 1, 2, [])]).text()
    assert "aten.zeros_like" in split
    check_types(split)
