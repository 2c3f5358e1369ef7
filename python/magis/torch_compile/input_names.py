"""What the inputs of dynamo's graphs are called in reports and plans."""

from __future__ import annotations

import re

import torch

from magis.capture.ir import InputKind
from magis.torch_compile.joint import InputName, module_path

_TABLES: list[tuple[str, InputKind]] = [("_parameters[", "param"), ("_buffers[", "buffer")]


def input_names(module: torch.fx.GraphModule) -> list[InputName]:
    """One for each placeholder, all different: parameters and buffers by their path in the model,
    the rest by what the code calls them.
    """
    found: list[InputName] = []
    taken: set[str] = set()
    for node in module.graph.nodes:
        if node.op != "placeholder":
            continue
        name = _name(node)
        while name.path in taken:
            name = InputName(name.kind, f"{name.path}'")
        taken.add(name.path)
        found.append(name)
    return found


def _name(node: torch.fx.Node) -> InputName:
    argument = node.meta.get("grapharg")
    source = getattr(argument, "source", None)
    if source is None:
        return InputName("batch", node.name)
    spelled = source.name if isinstance(source.name, str) else source.name()
    for table, kind in _TABLES:
        if table in spelled:
            return InputName(kind, module_path(spelled))
    return InputName("batch", re.sub(r"^L(?=\[)", "", spelled))
