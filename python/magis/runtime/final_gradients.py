"""A plan's code that tells of each gradient as soon as it is final, so that averaging it over
several processes goes on beside the rest of the step.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magis import _core

TELL = "gradient_is_final"


@dataclass(frozen=True)
class TellingCode:
    source: str
    lines: list[int]  # at which the program's statements begin
    order: list[str]  # paths of gradients, in the order in which they become final


def telling_code(source: str, lines: list[int], graph: _core.Graph) -> TellingCode:
    """`source`, a plan's code whose statements begin at `lines`, with a call of
    `gradient_is_final(path, gradient)` after the last statement that names the gradient: from there
    on the step neither writes to it nor reads it.
    """
    body = next(
        node.body
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == "step"
    )
    last_line: dict[str, int] = {}  # that names it, by name
    for node in body[:-1]:
        if isinstance(node, ast.Delete):
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                last_line[part.id] = node.end_lineno or node.lineno
    calls: list[tuple[int, str, str]] = []
    for path, gradient in _gradients(body, graph):
        names = {part.id for part in ast.walk(gradient) if isinstance(part, ast.Name)}
        after = max(last_line[name] for name in names if name in last_line)
        calls.append((after, path, f"    {TELL}({path!r}, {ast.unparse(gradient)})\n"))
    calls.sort(key=lambda call: call[0])
    text = source.splitlines(keepends=True)
    for after, _, code in reversed(calls):
        text.insert(after, code)
    return TellingCode(
        "".join(text),
        [line + sum(after < line for after, _, _ in calls) for line in lines],
        [path for _, path, _ in calls],
    )


def _gradients(body: list[ast.stmt], graph: _core.Graph) -> list[tuple[str, ast.expr]]:
    """Gradients that the step makes or adds into, by path, as its code spells them."""
    first, last = body[0], body[-1]
    found: list[tuple[str, ast.expr]] = []
    if graph.inputs:
        assert isinstance(first, ast.Assign)
        assert isinstance(first.targets[0], ast.Tuple)
        names = zip(graph.inputs, first.targets[0].elts, strict=True)
        found += [(entry.path, name) for entry, name in names if entry.kind == "grad"]
    assert isinstance(last, ast.Return)
    assert isinstance(last.value, ast.Tuple)
    values = zip(graph.outputs, last.value.elts, strict=True)
    found += [(output.path, value) for output, value in values if output.kind == "grad"]
    return found
