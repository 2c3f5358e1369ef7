"""Data flows one way: a folder uses only folders to its left."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CORE = ["base", "graph", "analysis", "transform", "schedule", "simulate", "search", "codegen"]
# Codegen reads programs and never looks at the search.
CORE_FORBIDDEN = {("codegen", "search"), ("codegen", "simulate")}
PYTHON = [
    "errors",
    "limits",
    "_core",
    "_torch_internals",
    "_torch_dynamo",
    "files",
    "functional_forms",
    "zoo",
    "measure",
    "capture",
    "verify",
    "timing",
    "report",
    "bounds",
    "runtime",
    "torch_compile",
    "integrations",
    "demo",
    "cli",
]


def core_violations(root: Path) -> list[str]:
    found = []
    for path in sorted([*root.glob("include/magis/**/*.h"), *root.glob("src/**/*")]):
        if path.suffix not in {".h", ".cpp"}:
            continue
        top = root / ("src" if "src" in path.parts else "include/magis")
        layer = path.relative_to(top).parts[0]
        for used in re.findall(r'#include "(?:magis/)?(\w+)/', path.read_text()):
            if CORE.index(used) > CORE.index(layer) or (layer, used) in CORE_FORBIDDEN:
                found.append(f"{path.relative_to(ROOT)}: {layer} includes {used}")
    return found


def imports(path: Path) -> set[str]:
    """Second components of the `magis.x` modules that the file imports, at any depth."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= (
                {f"magis.{a.name}" for a in node.names} if node.module == "magis" else {node.module}
            )
    return {n.split(".")[1] for n in names if n.startswith("magis.")}


def python_violations(package: Path) -> list[str]:
    found = []
    for path in sorted(package.rglob("*.py")):
        layer = path.relative_to(package).parts[0].removesuffix(".py")
        if layer == "__init__":
            continue
        for used in sorted(imports(path) & set(PYTHON)):
            if PYTHON.index(used) > PYTHON.index(layer):
                found.append(f"{path.relative_to(ROOT)}: {layer} imports {used}")
    return found


def test_core_includes_point_left() -> None:
    assert core_violations(ROOT / "core") == []


def test_python_imports_point_left() -> None:
    assert python_violations(ROOT / "python" / "magis") == []


def test_every_python_folder_has_a_place() -> None:
    package = ROOT / "python" / "magis"
    parts = {
        p.name.removesuffix(".py") for p in package.iterdir() if p.suffix == ".py" or p.is_dir()
    }
    assert parts - {"__init__", "__pycache__", "__main__"} <= set(PYTHON)


@pytest.mark.parametrize("package", ["verify"])
def test_the_independent_checkers_do_not_use_the_core(package: str) -> None:
    for path in (ROOT / "python" / "magis" / package).rglob("*.py"):
        assert not imports(path) & {"_core", "runtime", "report", "capture"}, path


def test_private_torch_interfaces_stay_in_two_modules() -> None:
    pattern = re.compile(r"\btorch\._(?!inductor_)[a-zA-Z]\w*|from torch\._|import torch\._|\._C\b")
    for path in sorted((ROOT / "python" / "magis").rglob("*.py")):
        if path.name in ("_torch_internals.py", "_torch_dynamo.py"):
            continue
        code = "\n".join(
            line.split("#")[0] for line in path.read_text().splitlines() if '"' not in line
        )
        assert not pattern.search(code), f"{path.relative_to(ROOT)}: {pattern.search(code)}"
