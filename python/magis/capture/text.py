"""Prints a captured graph in the text language (ARCHITECTURE.md, "The text language")."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import torch

from magis._torch_internals import OpOverload
from magis.capture.ir import Graph, Input, Site, Statement, Value
from magis.errors import CaptureError

DTYPE_WORDS = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.bool: "bool",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.float8_e4m3fn: "f8e4m3fn",
    torch.float8_e5m2: "f8e5m2",
}


def graph_text(graph: Graph, device: torch.device, meta: Mapping[str, str]) -> str:
    """The whole file: header, inputs, statements, outputs."""
    sites: dict[Site, int] = {}
    for statement in graph.statements:
        if statement.site is not None:
            sites.setdefault(statement.site, len(sites) + 1)
    lines = ["magis 1", f"device {device.type}"]
    lines += [f"meta {key} {quoted(value)}" for key, value in meta.items()]
    lines += [f"site @{n} {quoted(s.module)} {quoted(s.source)}" for s, n in sites.items()]
    lines.append("")
    lines += [_input_line(item) for item in graph.inputs]
    lines.append("")
    printer = _Printer(device, sites)
    lines += [printer.statement(statement) for statement in graph.statements]
    lines.append("")
    lines += [f"output {o.kind} {quoted(o.path)} %{o.value.name}" for o in graph.outputs]
    return "\n".join(lines) + "\n"


def type_text(fake: torch.Tensor | None) -> str:
    """`f32[2,3]{1,2}+4/64`: strides, offset (elements) and storage (bytes) only where they are not
    the obvious ones.
    """
    if fake is None:
        return "none"
    text = DTYPE_WORDS[fake.dtype] + "[" + ",".join(str(int(n)) for n in fake.shape) + "]"
    strides, offset = tuple(int(s) for s in fake.stride()), int(fake.storage_offset())
    if strides != contiguous_strides(fake.shape):
        text += "{" + ",".join(map(str, strides)) + "}"
    if offset:
        text += f"+{offset}"
    storage = int(fake.untyped_storage().nbytes())
    if storage != minimal_storage(fake):
        text += f"/{storage}"
    return text


def contiguous_strides(shape: torch.Size | list[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(int(length), 1)
    return tuple(reversed(strides))


def minimal_storage(fake: torch.Tensor) -> int:
    """Bytes of the smallest storage that holds the tensor at its offset."""
    if fake.numel() == 0:
        return 0
    last = sum((int(n) - 1) * int(s) for n, s in zip(fake.shape, fake.stride(), strict=True))
    return (int(fake.storage_offset()) + last + 1) * int(fake.dtype.itemsize)


def quoted(text: str) -> str:
    """A string literal: double quotes, with backslash escapes for quotes, backslashes and line
    breaks.
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _input_line(item: Input) -> str:
    head = f"{item.kind} %{item.value.name} "
    if item.kind == "scalar":
        return head + quoted(item.path)
    path = item.path if item.data is None else _constant_data(item.data)
    return head + f"{quoted(path)} : {type_text(item.value.fake)}"


def _constant_data(data: torch.Tensor) -> str:
    flat = data.detach().cpu().contiguous().reshape(-1)
    return base64.b64encode(flat.view(torch.uint8).numpy().tobytes()).decode("ascii")


def operator_name(operator: OpOverload) -> str:
    """`aten.mul.Tensor`; the overload `default` is left out."""
    return str(operator).removesuffix(".default")


class _Printer:
    def __init__(self, device: torch.device, sites: Mapping[Site, int]) -> None:
        self._device = device
        self._sites = sites

    def statement(self, statement: Statement) -> str:
        names = ", ".join(f"%{result.name}" for result in statement.results)
        args = [self._argument(arg) for arg in statement.args]
        args += [f"{name}={self._argument(arg)}" for name, arg in statement.kwargs.items()]
        types = ", ".join(type_text(r.fake) for r in statement.results)
        line = f"{names} = {operator_name(statement.operator)}({', '.join(args)}) : {types}"
        if statement.site is not None:
            line += f" @{self._sites[statement.site]}"
        return line + (" backward" if statement.backward else "")

    def _argument(self, arg: Any) -> str:
        match arg:
            case Value():
                return "%" + arg.name
            case None:
                return "none"
            case bool():
                return "true" if arg else "false"
            case int():
                return str(int(arg))
            case float():
                return repr(arg)
            case str():
                return quoted(arg)
            case torch.dtype() | torch.layout() | torch.memory_format():
                return str(arg)
            case torch.device():
                # Fakes on the meta device stand in for those of a device that is not here.
                return f'device("{self._device.type if arg.type == "meta" else arg.type}")'
            case list() | tuple():
                return "[" + ", ".join(self._argument(item) for item in arg) + "]"
        hint = ": draw from the default generator" if isinstance(arg, torch.Generator) else ""
        raise CaptureError(
            f"an operator has an argument of type {type(arg).__name__}, which the graph language"
            f" cannot express{hint}"
        )
