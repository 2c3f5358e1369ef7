"""The operator table against PyTorch: names, schemas, randomness, what running in place does.

`tests/data/operators.txt` is the table in words; the C++ suite holds it equal to the table itself.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import magis.capture.operators  # noqa: F401  the table has some of them

TABLE = Path(__file__).parent.parent / "data" / "operators.txt"
SHAPE = (64, 96)


@dataclass
class Entry:
    name: str
    purity: str
    writes: list[int]
    dropout_argument: int | None
    spelling: str
    out_argument: str
    operands: list[int]
    exclusive: bool  # no other operand may be the one overwritten

    def __str__(self) -> str:
        return self.name


def read_entry(line: str) -> Entry:
    words = line.split()
    writes = re.search(r" writes ([\d,]+)", line)
    dropout = re.search(r" draws unless argument (\d+) is 0", line)
    in_place = re.search(r" in-place ([\w.]+)(?:\((\w+)=\))? over ([\d,]+)", line)
    return Entry(
        name=words[0],
        purity=words[1],
        writes=[int(p) for p in writes[1].split(",")] if writes else [],
        dropout_argument=int(dropout[1]) if dropout else None,
        spelling=in_place[1] if in_place else "",
        out_argument=(in_place[2] or "") if in_place else "",
        operands=[int(p) for p in in_place[3].split(",")] if in_place else [],
        exclusive=" exclusive" in line,
    )


# Backwards that PyTorch tags as drawing: they draw what the forward drew, from the seed given.
REPLAYS = {
    "aten._scaled_dot_product_efficient_attention_backward",
    "aten._scaled_dot_product_cudnn_attention_backward",
}

ENTRIES = [read_entry(line) for line in TABLE.read_text().splitlines()]
OF_PYTORCH = [entry for entry in ENTRIES if entry.name.startswith("aten.")]
IN_PLACE = [entry for entry in ENTRIES if entry.spelling]


def overload(name: str) -> torch._ops.OpOverload:
    namespace, operator, *rest = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), operator)
    found = getattr(packet, rest[0] if rest else "default")
    assert isinstance(found, torch._ops.OpOverload)
    return found


def test_the_table_is_there() -> None:
    assert len(ENTRIES) > 600
    assert len(IN_PLACE) > 100
    own = {entry.name for entry in ENTRIES} - {entry.name for entry in OF_PYTORCH}
    assert own
    assert all(name.startswith("magis.") for name in own)


@pytest.mark.parametrize("entry", OF_PYTORCH, ids=str)
def test_schema(entry: Entry) -> None:
    op = overload(entry.name)
    arguments = op._schema.arguments
    written = [
        i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write
    ]
    if "_fused_" in entry.name and entry.purity == "mutating":
        # The gradients (argument 1) are written to only by a loss scaler's unscaling.
        assert set(entry.writes) | {1} == set(written)
    else:
        assert entry.writes == written
    returned = [r.alias_info for r in op._schema.returns]
    aliases = any(alias is not None and not alias.is_write for alias in returned)
    assert aliases == (entry.purity == "view")
    draws = torch.Tag.nondeterministic_seeded in op.tags
    if entry.dropout_argument is not None:
        assert entry.purity == "pure"
        assert arguments[entry.dropout_argument].name == "dropout_p"
    elif entry.name in REPLAYS:
        assert entry.purity == "pure"
    else:
        assert draws == (entry.purity == "random")


# ---- arguments for the operators that run in place


def special_arguments(name: str, make: Callable[[], torch.Tensor]) -> list[object] | None:
    """Arguments of operators whose parameters mean more than a tensor or a number each."""
    index = torch.arange(4)
    rows = torch.randn(4, SHAPE[1]).to(make().dtype)
    base = name.split(".")[1]

    def factor(*shape: int) -> torch.Tensor:
        return torch.randn(shape).to(make().dtype)

    special: dict[str, list[object]] = {
        "aten.clamp": [make(), -0.5, 0.5],
        "aten.clamp.Tensor": [make(), make(), make()],
        "aten.lerp.Scalar": [make(), make(), 0.3],
        "aten.masked_fill.Tensor": [make(), make() > 0, torch.tensor(2.0)],
        "aten.masked_fill.Scalar": [make(), make() > 0, 2.0],
        "aten.where.self": [make() > 0, make(), make()],
        "aten.elu_backward": [make(), 1.0, 1.0, 1.0, False, make()],
        "aten.hardtanh_backward": [make(), make(), -0.5, 0.5],
        "aten.leaky_relu_backward": [make(), make(), 0.1, False],
        "aten.softplus_backward": [make(), make(), 1.0, 20.0],
        "aten.threshold": [make(), 0.1, 0.2],
        "aten.threshold_backward": [make(), make(), 0],
        "aten.index_put": [make(), [index], rows],
        "aten.index_add": [make(), 0, index, rows],
        "aten.index_copy": [make(), 0, index, rows],
        "aten.addmm": [make(), factor(SHAPE[0], 8), factor(8, SHAPE[1])],
        "aten.baddbmm": [
            torch.stack([make(), make()]),
            torch.stack([factor(SHAPE[0], 8)] * 2),
            torch.stack([factor(8, SHAPE[1])] * 2),
        ],
        "aten.index_fill.int_Scalar": [make(), 0, index, 2.0],
        "aten.index_fill.int_Tensor": [make(), 0, index, torch.tensor(2.0).to(make().dtype)],
        "magis.end_average": [make(), [make()]],
    }
    if name in special:
        return special[name]
    if base in ("cumsum", "cumprod"):
        return [make(), 1]
    if "bitwise" in base and "Scalar" in name:
        return [make(), 1]
    return None


KEYWORDS: dict[str, dict[str, object]] = {
    "aten.div.Tensor_mode": {"rounding_mode": "floor"},
    "aten.div.Scalar_mode": {"rounding_mode": "trunc"},
    "aten.round.decimals": {"decimals": 2},
}


def general_arguments(op: torch._ops.OpOverload, make: Callable[[], torch.Tensor]) -> list[object]:
    arguments: list[object] = []
    for argument in op._schema.arguments:
        if argument.kwarg_only or argument.has_default_value():
            break
        kind = str(argument.type)
        if kind == "Tensor":
            arguments.append(make())
        elif kind in ("number", "float"):
            arguments.append(0.3)
        else:
            raise AssertionError(f"{op} needs special arguments: {argument.name} is {kind}")
    return arguments


def makers(name: str) -> list[Callable[[], torch.Tensor]]:
    """Tensors of the dtypes and layouts that training has and that the operator takes."""
    generator = torch.Generator().manual_seed(7)

    def floats(dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(SHAPE, generator=generator).to(dtype)

    def integers(dtype: torch.dtype) -> torch.Tensor:
        end = 2 if dtype == torch.bool else 7
        return torch.randint(0, end, SHAPE, generator=generator).to(dtype)

    base = name.split(".")[1]
    if base.startswith("bitwise") and ("shift" in base or "Scalar" in name):
        return [lambda: integers(torch.int64)]
    if base.startswith(("bitwise", "logical")) or base in ("eq", "ne", "lt", "le", "gt", "ge"):
        return [lambda: integers(torch.bool)]
    if base in ("addmm", "baddbmm"):  # not in place in 16 bits on a CPU
        return [lambda: floats(torch.float32)]
    return [
        lambda: floats(torch.float32),
        lambda: floats(torch.bfloat16),
        lambda: floats(torch.float32).t().contiguous().t(),
    ]


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes())


def allocated_bytes(run: Callable[[], object]) -> int:
    """The most bytes that one event of the allocator asked for while `run` ran."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    events = profiled.profiler.kineto_results.events()
    return max((e.nbytes() for e in events if e.name() == "[memory]"), default=0)


def test_the_measurement_sees_an_allocation() -> None:
    x = torch.randn(SHAPE)
    assert allocated_bytes(lambda: torch.ops.aten.exp.default(x)) == x.nbytes
    assert allocated_bytes(lambda: torch.ops.aten.exp_.default(x)) == 0


@pytest.mark.parametrize("entry", IN_PLACE, ids=str)
def test_in_place(entry: Entry) -> None:
    op, form = overload(entry.name), overload(entry.spelling)
    keywords = KEYWORDS.get(entry.name, {})
    measured = 0
    for make in makers(entry.name):
        for operand in entry.operands:
            arguments = special_arguments(entry.name, make) or general_arguments(op, make)
            expected = op(*arguments, **keywords)
            target = arguments[operand]
            assert isinstance(target, torch.Tensor)
            if (target.dtype, target.stride()) != (expected.dtype, expected.stride()):
                continue  # the layouts rule it out (a comparison of floats)
            address = target.data_ptr()
            order = list(arguments)
            outs: dict[str, object] = {}
            if entry.out_argument:
                outs = {entry.out_argument: target}
            else:
                order[0], order[operand] = order[operand], order[0]
            most = allocated_bytes(partial(form, *order, **keywords, **outs))
            assert target.data_ptr() == address
            assert bits(target) == bits(expected), (make().dtype, operand)
            assert most < expected.nbytes, f"{entry.spelling} over {operand} allocates {most} bytes"
            measured += 1
    assert measured > 0, "no case of this operator could run in place"


@pytest.mark.parametrize("entry", [e for e in IN_PLACE if not e.exclusive], ids=str)
def test_in_place_over_an_operand_read_twice(entry: Entry) -> None:
    """op(x, x) over x: PyTorch takes operands that coincide with the result."""
    op, form = overload(entry.name), overload(entry.spelling)
    keywords = KEYWORDS.get(entry.name, {})
    make = makers(entry.name)[0]
    arguments = special_arguments(entry.name, make) or general_arguments(op, make)
    operand = entry.operands[0]
    target = arguments[operand]
    assert isinstance(target, torch.Tensor)
    shared = [
        target
        if isinstance(a, torch.Tensor) and (a.shape, a.dtype) == (target.shape, target.dtype)
        else a
        for a in arguments
    ]
    expected = op(*shared, **keywords)
    if (target.dtype, target.stride()) != (expected.dtype, expected.stride()):
        pytest.skip("the layouts rule it out")
    form(*shared, **keywords, **({entry.out_argument: target} if entry.out_argument else {}))
    assert bits(target) == bits(expected)


COMMUTATIVE = [e for e in IN_PLACE if len(e.operands) > 1 and not e.out_argument]


@pytest.mark.parametrize("entry", COMMUTATIVE, ids=str)
def test_swapped_operands(entry: Entry) -> None:
    """a op b over b is b op_ a, also for an `a` that is broadcast or has no dimensions."""
    op, form = overload(entry.name), overload(entry.spelling)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for shape in (SHAPE, SHAPE[1:], (SHAPE[0], 1), (1,), ()):
            a, b = torch.randn(shape).to(dtype), torch.randn(SHAPE).to(dtype)
            expected = op(a, b)
            form(b, a)
            assert bits(b) == bits(expected), (dtype, shape)
