"""A plan's code cut in two where the gradients of what the forward pass returned come in."""

from __future__ import annotations

import ast
import linecache
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from magis.capture.operators import OUTSIDE, OVERWRITE
from magis.errors import MagisError
from magis.runtime.compiled import load_constant

if TYPE_CHECKING:
    from magis import _core


@dataclass(frozen=True)
class Half:
    """A function of one list, which it empties."""

    source: str
    takes: list[str]  # names, in order
    returns: int

    def compiled(self, constants: dict[str, torch.Tensor], file_name: str) -> Any:
        """The function. Its source is registered with `linecache`, for tracebacks."""
        names: dict[str, Any] = {"__name__": file_name.strip("<>").replace(" ", "_"), **constants}
        lines = self.source.splitlines(keepends=True)
        exec(compile(self.source, file_name, "exec"), names)
        function = names["step"]
        linecache.cache[file_name] = (len(self.source), None, lines, file_name)
        weakref.finalize(function, linecache.cache.pop, file_name, None)
        return function


@dataclass(frozen=True)
class Halves:
    """`forward` takes the graph's inputs but its constants, and returns what the forward pass does,
    then `saved`; `backward` takes `saved`, then the incoming gradients, and returns gradients.
    """

    forward: Half
    backward: Half
    saved: list[str]  # what crosses the cut, inputs among it
    inputs: list[str]  # of these names are the graph's inputs, constants left out
    constants: dict[str, torch.Tensor]


def cut(plan: _core.Plan, device: torch.device, heading: str = "") -> Halves:
    """The plan of a joint graph in two halves."""
    module = ast.parse(plan.source(heading))
    step = module.body[-1]
    assert isinstance(step, ast.FunctionDef)
    names, body = _without_unpacking(step.body)
    middle = _place_of_cut(plan, body, heading)
    outside, outputs = body[middle], body[-1]
    assert isinstance(outside, ast.Assign)
    assert isinstance(outside.value, ast.Call)
    assert isinstance(outputs, ast.Return)
    assert isinstance(outputs.value, ast.Tuple)
    returned = outside.value.args[0]
    assert isinstance(returned, ast.List)
    tangents = _elements(outside.targets[0])
    gradients = [
        value
        for value, output in zip(outputs.value.elts, plan.graph.outputs, strict=True)
        if output.kind == "grad"
    ]

    entries = dict(zip(names, plan.graph.inputs, strict=True))
    constants = {n: load_constant(e, device) for n, e in entries.items() if e.kind == "const"}
    inputs = [name for name in names if name not in constants]
    first = [node for node in body[:middle] if not _overwrites(node)]
    second = body[middle + 1 : -1]
    incoming = [name.id for name in tangents if isinstance(name, ast.Name)]
    before = _Names()
    before.bound.update(dict.fromkeys(inputs))
    before.follow(first)
    after = _Names()
    after.bound.update(dict.fromkeys(incoming))
    after.follow(second)
    after.follow(gradients)
    saved = [name for name in before.bound if name in after.read_from_outside]
    second = _deleting_only(second, {*saved, *after.bound})
    head = module.body[:-1]
    results = [*returned.elts, *(ast.Name(name, ast.Load()) for name in saved)]
    return Halves(
        forward=_half(head, inputs, first, results),
        backward=_half(head, [*saved, *incoming], second, gradients),
        saved=saved,
        inputs=inputs,
        constants=constants,
    )


def _half(
    head: Sequence[ast.stmt],
    takes: list[str],
    body: Sequence[ast.stmt],
    returns: Sequence[ast.expr],
) -> Half:
    start: list[ast.stmt] = []
    if takes:
        targets = ast.Tuple([ast.Name(name, ast.Store()) for name in takes], ast.Store())
        start.append(ast.Assign([targets], ast.Name("inputs", ast.Load())))
    start += ast.parse("inputs.clear()").body
    end = ast.Return(ast.List(list(returns), ast.Load()))
    step = ast.parse("def step(inputs): pass").body[0]
    assert isinstance(step, ast.FunctionDef)
    step.body = [*start, *body, end]
    whole = ast.Module([*head, step], [])
    return Half(ast.unparse(ast.fix_missing_locations(whole)) + "\n", takes, len(returns))


def _without_unpacking(body: list[ast.stmt]) -> tuple[list[str], list[ast.stmt]]:
    """The names of the graph's inputs, and the code after their assignment."""
    first = body[0]
    unpacks = (
        isinstance(first, ast.Assign)
        and isinstance(first.value, ast.Name)
        and first.value.id == "inputs"
    )
    if not unpacks:
        return [], body
    assert isinstance(first, ast.Assign)
    return [name.id for name in _elements(first.targets[0]) if isinstance(name, ast.Name)], body[1:]


def _overwrites(node: ast.stmt) -> bool:
    """Whether it only says that inputs are overwritten between the halves."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id.startswith(OVERWRITE.replace(".", "_"))
    )


def _elements(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _place_of_cut(plan: _core.Plan, body: Sequence[ast.stmt], heading: str) -> int:
    """Position in `body` of the call that stands for all that happens between the two halves."""
    lines = plan.source_lines(heading)
    statement = next(
        number for number, each in enumerate(plan.statements) if each.operator == OUTSIDE
    )
    for position, node in enumerate(body):
        if node.lineno >= lines[statement]:
            return position
    raise MagisError("the plan's code does not say where its halves meet; this is a bug in magis")


class _Names(ast.NodeVisitor):
    """Follows code as it runs: which names it binds, and which it reads that were bound before."""

    def __init__(self) -> None:
        self.bound: dict[str, None] = {}  # in order
        self.read_from_outside: set[str] = set()

    def follow(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.follow([node.value, *node.targets])

    def visit_For(self, node: ast.For) -> None:
        self.follow([node.iter, node.target, *node.body])

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.bound.setdefault(node.id)
        elif isinstance(node.ctx, ast.Load) and node.id not in self.bound:
            self.read_from_outside.add(node.id)


def _deleting_only(body: Sequence[ast.stmt], known: set[str]) -> list[ast.stmt]:
    """`body` without the end of names that this half never had."""
    kept: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.Delete):
            node.targets = [
                target
                for target in node.targets
                if not isinstance(target, ast.Name) or target.id in known
            ]
            if not node.targets:
                continue
        kept.append(node)
    return kept
