"""Generated code, executed: the graph's bits, the promised peak, nothing held too long."""

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import torch
from hooked import under_hook

from magis import _core
from magis.verify import evaluate_all, verify_plan

RANDOM_PLANS = sorted((Path(__file__).parents[1] / "data" / "random_plans").glob("*.plan"))

Value: TypeAlias = torch.Tensor | float
Step: TypeAlias = Callable[..., tuple[torch.Tensor, ...]]  # of inputs, and of the host's memory


def plan(text: str) -> _core.Plan:
    """Of a plan's text, or of a graph's in program order."""
    text = f"magis 1\ndevice cpu\n{text}" if not text.startswith("magis") else text
    if "\nprogram\n" in text:
        made = _core.Plan.parse(text)
        made.verify()
        return made
    return _core.Plan.program_order(_core.Graph.parse(text))


def step_of(made: _core.Plan) -> Step:
    namespace: dict[str, Step] = {}
    exec(made.source("Test."), namespace)
    return namespace["step"]


def run(text: str, *inputs: Value) -> tuple[torch.Tensor, ...]:
    return step_of(plan(text))(list(inputs))


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def drawn_inputs(graph: _core.Graph, seed: int) -> dict[str, Value]:
    draw_from = torch.Generator().manual_seed(seed)
    values: dict[str, Value] = {}
    for declared in graph.inputs:
        if declared.kind == "scalar":
            values[declared.name] = 0.75
        elif declared.dtype == "f32":
            values[declared.name] = torch.randn(declared.shape, generator=draw_from)
        elif declared.dtype == "bool":
            values[declared.name] = torch.rand(declared.shape, generator=draw_from) < 0.5
        else:
            values[declared.name] = torch.randint(0, 2, declared.shape, generator=draw_from)
    return values


def as_bytes(value: torch.Tensor) -> torch.Tensor:
    return value.contiguous().view(-1).view(torch.uint8)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    same_type = a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
    return same_type and bool(torch.equal(as_bytes(a), as_bytes(b)))


# ---- random plans: copies, runs in place, views, several results, masks, writes to buffers


@pytest.mark.parametrize("file", RANDOM_PLANS, ids=lambda file: file.stem)
def test_a_random_plan_computes_what_its_graph_says(file: Path) -> None:
    text = file.read_text()
    made = plan(text)
    inputs = drawn_inputs(made.graph, seed=1)
    expected = evaluate_all(made.graph.text(), inputs, dtype=None, seed=7)
    torch.manual_seed(7)
    outputs = step_of(made)(list(inputs.values()))
    assert len(outputs) == len(expected.outputs) == len(made.graph.outputs)
    for declared, got, wanted in zip(made.graph.outputs, outputs, expected.outputs, strict=True):
        assert same_bits(got, wanted), declared.path
    for name, wanted_input in expected.inputs.items():  # written buffers included
        got_input = inputs[name]
        if isinstance(wanted_input, torch.Tensor):
            assert isinstance(got_input, torch.Tensor)
            assert same_bits(got_input, wanted_input), name
    after = torch.rand(4)
    evaluate_all(made.graph.text(), drawn_inputs(made.graph, seed=1), dtype=None, seed=7)
    assert torch.equal(after, torch.rand(4)), "the generator stands elsewhere"


@pytest.mark.parametrize("file", RANDOM_PLANS, ids=lambda file: file.stem)
def test_the_verifier_counts_the_same_bytes(file: Path) -> None:
    facts = verify_plan(file.read_text())
    promise = plan(file.read_text()).simulate("cpu")
    assert facts.transient_peak_bytes == promise.transient_peak_bytes
    assert facts.persistent_bytes == promise.persistent_bytes


def test_random_plans_keep_their_promise_to_the_byte() -> None:
    """The kernels' own scratch apart: these plans know of none."""
    files = [str(file) for file in RANDOM_PLANS]
    measured = under_hook(f"""
        import json, sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_codegen
        peaks = []
        for file in {files!r}:
            made = test_codegen.plan(Path(file).read_text())
            inputs = list(test_codegen.drawn_inputs(made.graph, seed=1).values())
            step = test_codegen.step_of(made)
            step(inputs)
            peaks.append(measure.measure_kernels(lambda: step(inputs)).tensor_peak_bytes)
        print(json.dumps(peaks))
    """)
    promised = [
        plan(file.read_text()).simulate("cpu").transient_peak_bytes for file in RANDOM_PLANS
    ]
    assert json.loads(measured) == promised


def test_a_broken_promise_would_be_noticed() -> None:
    """The same measurement of code that deletes one name too late."""
    text = RANDOM_PLANS[3].read_text()
    made = plan(text)
    code = made.source()
    late = "\n".join(line for line in code.splitlines() if not line.strip().startswith("del "))
    promised = made.simulate("cpu").transient_peak_bytes
    measured = under_hook(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_codegen
        made = test_codegen.plan({text!r})
        inputs = list(test_codegen.drawn_inputs(made.graph, seed=1).values())
        namespace = {{}}
        exec({late!r}, namespace)
        print(measure.measure_kernels(lambda: namespace["step"](inputs)).tensor_peak_bytes)
    """)
    assert int(measured) > promised


@pytest.mark.parametrize("file", RANDOM_PLANS, ids=lambda file: file.stem)
def test_at_the_end_only_inputs_and_outputs_have_names(file: Path) -> None:
    function = ast.parse(plan(file.read_text()).source()).body[-1]
    assert isinstance(function, ast.FunctionDef)
    bound: set[str] = set()
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add(node.id)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
                bound.remove(node.id)  # KeyError: deleted twice, or never bound
    unpacking, last = function.body[0], function.body[-1]
    assert isinstance(unpacking, ast.Assign)
    inputs = {node.id for node in ast.walk(unpacking.targets[0]) if isinstance(node, ast.Name)}
    returned = {node.id for node in ast.walk(last) if isinstance(node, ast.Name)}
    assert bound - {"_"} == inputs | (returned - {"torch"})


# ---- one thing at a time


def test_scalars_and_outputs_that_are_views() -> None:
    x = draw(2, 3)
    (out,) = run(
        'batch %x "x" : f32[2,3]\nscalar %s "s"\n%y = aten.mul.Scalar(%x, %s) : f32[2,3]\n'
        '%t = aten.permute(%y, [1, 0]) : f32[3,2]{1,3}\noutput aux "" %t\n',
        x,
        2.5,
    )
    assert torch.equal(out, (x * 2.5).T)
    assert out.stride() == (1, 3)


def test_a_mask_is_drawn_as_eager_draws_it() -> None:
    torch.manual_seed(3)
    (mask,) = run(
        "%m = magis.bernoulli([4, 5], [1, 4], 0.5, dtype=torch.float32) : f32[4,5]{1,4}\n"
        'output aux "" %m\n'
    )
    torch.manual_seed(3)
    assert same_bits(mask, torch.empty_like(torch.ones(5, 4).T).bernoulli_(0.5))


def test_writes_reach_the_caller_and_nothing_else_does() -> None:
    grad, g, x = draw(3), draw(3), draw(3)
    before = grad.clone(), g.clone(), x.clone()
    (out,) = run(
        'grad %grad "w" : f32[3]\nbatch %g "g" : f32[3]\nbatch %x "x" : f32[3]\n'
        "%a = aten.mul.Tensor(%g, %x) : f32[3]\n%b = aten.relu(%a) : f32[3]\n"
        '%u = aten.add_.Tensor(%grad, %b) : none\noutput loss "" %b\n',
        grad,
        g,
        x,
    )
    assert torch.equal(out, (before[1] * before[2]).relu())
    assert torch.equal(grad, before[0] + out)
    assert torch.equal(g, before[1])
    assert torch.equal(x, before[2])


def test_undefined_results_are_left_out() -> None:
    x, g = draw(4, 8), draw(4, 8)
    (dx,) = run(
        'batch %x "x" : f32[4,8]\nbatch %g "g" : f32[4,8]\n'
        "%ln, %mean, %rstd = aten.native_layer_norm(%x, [8], none, none, 1e-05) : "
        "f32[4,8], f32[4,1], f32[4,1]\n"
        "%dx, %dw, %db = aten.native_layer_norm_backward(%g, %x, [8], %mean, %rstd, none, none, "
        '[true, false, false]) : f32[4,8], none, none\noutput aux "" %dx\n',
        x,
        g,
    )
    x.requires_grad_()
    torch.nn.functional.layer_norm(x, [8]).backward(g)
    assert torch.equal(dx, x.grad)


VIEWS = [
    ("aten.view(%x, [6, 4])", "f32[6,4]"),
    ("aten.view(%x, [-1])", "f32[24]"),
    ("aten.view.dtype(%x, torch.int32)", "i32[2,3,4]"),
    ("aten.expand(%x, [5, -1, -1, -1])", "f32[5,2,3,4]{0,12,4,1}"),
    ("aten.permute(%x, [2, 0, 1])", "f32[4,2,3]{1,12,4}"),
    ("aten.unsqueeze(%x, -1)", "f32[2,3,4,1]"),
    ("aten.slice.Tensor(%x, 1, 1, 3)", "f32[2,2,4]{12,4,1}+4"),
    ("aten.slice.Tensor(%x, -1, -3, 9223372036854775807, 2)", "f32[2,3,2]{12,4,2}+1"),
    ("aten.slice.Tensor(%x, 2, 0, -1)", "f32[2,3,3]{12,4,1}"),
    ("aten.slice.Tensor(%x, 0, 1, 100)", "f32[1,3,4]+12"),
    ("aten.select.int(%x, 1, -1)", "f32[2,4]{12,1}+8"),
    ("aten.as_strided(%x, [2, 2], [1, 4], 3)", "f32[2,2]{1,4}+3"),
    ("aten.diagonal(%x, 1, -2, -1)", "f32[2,3]{12,5}+1"),
    ("aten.unfold(%x, 1, 2, 1)", "f32[2,2,4,2]{12,4,1,4}"),
]


@pytest.mark.parametrize(("call", "type_text"), VIEWS, ids=[call for call, _ in VIEWS])
def test_views_are_spelled_so_that_they_are_the_same_views(call: str, type_text: str) -> None:
    text = f'batch %x "x" : f32[2,3,4]\n%v = {call} : {type_text}/96\noutput aux "" %v\n'
    x = draw(2, 3, 4)
    (got,) = run(text, x)
    (wanted,) = evaluate_all(f"magis 1\ndevice cpu\n{text}", {"x": x}, dtype=None).outputs
    assert same_bits(got, wanted)
    assert got.storage_offset() == wanted.storage_offset()
    assert got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_the_source_compiles_and_names_where_things_come_from() -> None:
    source = plan(
        'site @1 "net.0" "net.py:7"\nbatch %x "x" : f32[4,4]\n'
        '%a = aten.mm(%x, %x) : f32[4,4] @1\noutput loss "" %a\n'
    ).source("A heading.")
    assert ast.get_docstring(ast.parse(source)) == "A heading."
    assert "# net.0  (net.py:7)  forward" in source


HOSTED = {
    "bool": "bool", "u8": "uint8", "i64": "int64", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f64": "float64", "c64": "complex64",
    "c128": "complex128",
}  # fmt: skip


@pytest.mark.parametrize("dtype", HOSTED)
@pytest.mark.parametrize("layout", ["[3,5]", "[3,5]{1,3}", "[]"])
def test_a_tensor_of_any_dtype_and_layout_comes_back_from_the_host(dtype, layout):
    made = plan(f"""batch %x "x" : {dtype}{layout}
%a = aten.clone(%x) : {dtype}{layout}
%b = aten.full([7], 1.0, dtype=torch.float32) : f32[7]
%c = aten.clone(%a) : {dtype}{layout}
%d = aten.clone(%c) : {dtype}{layout}
output aux "b" %b
output aux "d" %d
program
run %a
store %a
run %b
await %a
free %a
load %a as .1
await %a.1
run %c reading %a.1
free %a.1
store %c
await %c
free %c
load %c as .1
await %c.1
run %d reading %c.1
free %c.1
""")
    drawn = torch.randn(3, 5, generator=torch.Generator().manual_seed(1)) * 3
    drawn = {"[3,5]": drawn, "[3,5]{1,3}": drawn.t().contiguous().t(), "[]": drawn[0, 0]}[layout]
    x = drawn.to(getattr(torch, HOSTED[dtype]))
    host = torch.full((made.host_bytes,), 0xFF, dtype=torch.uint8)
    _, d = step_of(made)([x], host)
    assert (d.dtype, d.shape, d.stride()) == (x.dtype, x.shape, x.stride())
    assert d.flatten().view(torch.uint8).equal(x.flatten().view(torch.uint8))
