"""Every in-place form in the operator table gives the operator's bits and allocates nothing of the
result's size.

The table's forms are called on samples made from PyTorch's schemas, in several dtypes and two
layouts, and measured under the allocator hook.
"""

import functools
import json

import pytest
from hooked import under_hook

from magis import _core
from magis.verify.document import Operation, Ref, Type
from magis.verify.operators import runs_over
from magis.verify.text import parse

FORMS = {form[0]: form for form in _core.in_place_forms()}

_MEASURE = """
import json
import magis.capture.operators
from magis import _core
from magis.verify.evaluator import find_operator

SHAPE = (64, 48)  # 12,288 bytes in float32

def tensor(name, dtype, transposed):
    shape = SHAPE[::-1] if transposed else SHAPE
    drawn = torch.rand(shape) * 0.8 + 0.1
    made = drawn.to(dtype) if dtype.is_floating_point else (drawn * 5).long().to(dtype)
    return made.T if transposed else made

FACTORS = {  # of matrix products, beside what they are added to
    "mat1": (SHAPE[0], 8),
    "mat2": (8, SHAPE[1]),
    "batch1": (2, SHAPE[0], 8),
    "batch2": (2, 8, SHAPE[1]),
}

def sample(operator, argument, dtype, transposed):
    name, kind = argument.name, str(argument.type)
    if name in FACTORS:
        return (torch.rand(FACTORS[name]) * 4).to(dtype)
    if operator == "aten.baddbmm" and name == "self":
        return torch.stack([tensor(name, dtype, transposed)] * 2)
    if name in ("mask", "condition"):
        return tensor(name, torch.float32, transposed) > 0.5
    if name == "index":
        return torch.randperm(SHAPE[0])
    if kind == "List[Tensor]" and name == "later":
        return []
    if name == "indices":
        return [torch.randperm(SHAPE[0])]
    if name == "value" and kind == "Tensor":
        return torch.ones((), dtype=dtype)
    if kind == "Tensor" or (kind == "Optional[Tensor]" and name == "min"):
        return tensor(name, dtype, transposed)
    if name == "min":
        return 0.25
    if argument.has_default_value():
        return argument.default_value
    words = {"number": 0.5 if dtype.is_floating_point else 2, "int": 0, "bool": False}
    words |= {"Optional[str]": "floor", "float": 0.5}
    return words[kind]

def bits(value):
    return value.contiguous().view(torch.uint8) if value.dtype != torch.bool else value

def call(operator, form, position, dtype, transposed):
    if operator in ("aten.addmm", "aten.baddbmm") and dtype == torch.bfloat16:
        return None  # not in place in 16 bits on a CPU
    torch.manual_seed(3)
    function = find_operator(operator)
    if not hasattr(function, "_schema"):  # the verifier's own form of what PyTorch knows, too
        function = getattr(torch.ops.magis, operator.partition(".")[2]).default
    arguments = function._schema.arguments
    args = [sample(operator, a, dtype, transposed) for a in arguments if not a.kwarg_only]
    kwargs = {a.name: sample(operator, a, dtype, transposed) for a in arguments if a.kwarg_only}
    try:
        expected = function(*args, **kwargs)
    except (RuntimeError, NotImplementedError):
        return None  # not for this dtype
    target = args[position]
    row = dict(dtype=str(dtype), transposed=transposed, position=position)
    if not isinstance(target, torch.Tensor):
        return row | dict(error=f"argument {position} is {target!r}")
    if (expected.dtype, expected.shape, expected.stride()) != (
        target.dtype, target.shape, target.stride()
    ):
        return None
    _, spelling, out, _ = form
    if out:
        kwargs[out] = target
    elif position:
        args[0], args[position] = args[position], args[0]
    try:
        in_place = find_operator(spelling)
        hook.reset()
        before = hook.read()
        result = in_place(*args, **kwargs)
        after = hook.read()
    except Exception as error:
        return row | dict(error=str(error))
    return row | dict(
        same=torch.equal(bits(target), bits(expected)),
        is_target=result is target,
        allocated=after.peak - before.live,
    )

found = {}
for form in _core.in_place_forms():
    tried = [
        call(form[0], form, position, dtype, transposed)
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool)
        for transposed in (False, True)
        for position in form[3]
    ]
    found[form[0]] = [row for row in tried if row is not None]
print(json.dumps(found))
"""


@functools.cache
def measured() -> dict[str, list[dict[str, object]]]:
    rows: dict[str, list[dict[str, object]]] = json.loads(under_hook(_MEASURE))
    return rows  # by operator


@pytest.mark.parametrize("operator", FORMS)
def test_same_bits_and_no_memory(operator):
    rows = measured()[operator]
    assert {row["position"] for row in rows} == set(FORMS[operator][3]), (
        "a position was never tried"
    )
    for row in rows:
        assert "error" not in row, row
        assert row["same"], row
        assert row["is_target"], row
        assert row["allocated"] <= 512, (
            row
        )  # numbers become tensors of one element, threads have rows


@pytest.mark.parametrize("operator", FORMS)
def test_the_verifier_allows_what_the_table_holds(operator):
    # Independent of the table: PyTorch's tags and schemas say the same.
    overload_arguments = 8
    type_ = Type("f32", (4,), (1,), 0, 16)
    document = parse('magis 1\nbatch %x "[0]" : f32[4]\nbatch %y "[1]" : f32[4]\n')
    for position in FORMS[operator][3]:
        args = [Ref("x") if p == position else Ref("y") for p in range(overload_arguments)]
        operation = Operation(operator, ("r",), (type_,), args, {}, 4)
        assert runs_over(document, operation, "x") == ""
