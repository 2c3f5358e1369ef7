"""Holds axis signatures to what operators compute: an operator run on slices of its operands, the
parts combined as its signature says, has to give what the whole gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from magis import _core
from magis.capture.text import contiguous_strides, type_text

# Relative to the largest element, which a sum in another order may leave this far off.
TOLERANCES = {torch.float64: 1e-10, torch.complex128: 1e-10, torch.float32: 1e-4}
OF_SHORT_FLOATS = 3e-2


class SplitError(AssertionError):
    """Parts do not make the whole."""


@dataclass
class Case:
    """One call. `compared` is False for results that are random or undefined: only their shapes
    count then."""

    operator: str
    args: list[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)
    compared: bool = True
    device: str = "cpu"

    def __str__(self) -> str:
        return self.operator

    def in_precision(self, dtype: torch.dtype) -> Case:
        """The same call with another dtype in place of float64."""

        def convert(arg: Any) -> Any:
            if isinstance(arg, Tensor):
                return arg.to(dtype) if arg.dtype == torch.float64 else arg
            if isinstance(arg, list):
                return [convert(item) for item in arg]
            return dtype if arg is torch.float64 else arg

        kwargs = {name: convert(arg) for name, arg in self.kwargs.items()}
        return Case(self.operator, convert(self.args), kwargs, self.compared, self.device)


def tensors_of(args: Sequence[Any], kwargs: dict[str, Any]) -> list[Tensor]:
    """In the order of a signature's rows."""

    def visit(arg: Any) -> Iterator[Tensor]:
        if isinstance(arg, Tensor):
            yield arg
        elif isinstance(arg, list):
            for item in arg:
                yield from visit(item)

    return [tensor for arg in [*args, *kwargs.values()] for tensor in visit(arg)]


def replace_tensors(
    args: list[Any], kwargs: dict[str, Any], tensors: list[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The same arguments with other tensors, in the order of tensors_of."""
    remaining = iter(tensors)

    def visit(arg: Any) -> Any:
        if isinstance(arg, Tensor):
            return next(remaining)
        return [visit(item) for item in arg] if isinstance(arg, list) else arg

    new_args = [visit(arg) for arg in args]
    return new_args, {name: visit(arg) for name, arg in kwargs.items()}


# ---- asking the core


def argument_text(arg: Any) -> str:
    if arg is None:
        return "none"
    if isinstance(arg, bool):
        return "true" if arg else "false"
    if isinstance(arg, list):
        return "[" + ", ".join(argument_text(item) for item in arg) + "]"
    if isinstance(arg, str):
        return arg if arg.startswith("%") else f'"{arg}"'
    if isinstance(arg, torch.device):
        return f'device("{arg}")'
    return str(arg)  # numbers, dtypes, memory formats


def graph_text(case: Case, results: list[Any]) -> str:
    """A graph of this one call."""
    tensors = tensors_of(case.args, case.kwargs)
    lines = ["magis 1", f"device {case.device}"]
    lines += [
        f'batch %x{i} "x{i}" : {type_text(dense(tensor))}' for i, tensor in enumerate(tensors)
    ]
    args, kwargs = replace_tensors(case.args, case.kwargs, [f"%x{i}" for i in range(len(tensors))])
    words = [argument_text(arg) for arg in args]
    words += [f"{name}={argument_text(arg)}" for name, arg in kwargs.items()]
    types = [type_text(dense(r)) if isinstance(r, Tensor) else "none" for r in results]
    names = [f"%r{i}" for i in range(len(results))]
    lines.append(f"{', '.join(names)} = {case.operator}({', '.join(words)}) : {', '.join(types)}")
    defined = [n for n, r in zip(names, results, strict=True) if isinstance(r, Tensor)]
    lines += [f'output aux "{name[1:]}" {name}' for name in defined]
    return "\n".join(lines) + "\n"


def dense(tensor: Tensor) -> Tensor:
    """Layouts do not matter to signatures."""
    return torch.empty_strided(
        tensor.shape, contiguous_strides(tensor.shape), dtype=tensor.dtype, device="meta"
    )


def signature_of(case: Case) -> _core.AxisSignature | None:
    graph = _core.Graph.parse(graph_text(case, run(case.operator, case.args, case.kwargs)))
    [(_, signature)] = _core.axis_signatures(graph)
    return signature


# ---- running


def run(operator: str, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    if operator == "magis.bernoulli":
        shape, _strides, p = args
        return [torch.empty(shape, dtype=kwargs.get("dtype")).bernoulli_(p)]
    namespace, name, *overload = operator.split(".")
    packet = getattr(getattr(torch.ops, namespace), name)
    results = getattr(packet, overload[0] if overload else "default")(*args, **kwargs)
    return list(results) if isinstance(results, tuple | list) else [results]


@dataclass
class Split:
    """An axis cut into parts of `part` elements, the last one shorter."""

    axis: int
    length: int
    part: int

    def bounds(self) -> list[tuple[int, int]]:
        """Start and length of each part."""
        starts = range(0, self.length, self.part)
        return [(start, min(self.part, self.length - start)) for start in starts]


def splits_of(signature: _core.AxisSignature) -> list[Split]:
    return [
        Split(axis, length, part)
        for axis, (length, splittable) in enumerate(signature["axes"])
        if splittable and length > 1
        for part in sorted({1, 2, (length + 1) // 2, length - 1} - {0, length})
    ]


def dimension_of(row: list[tuple[int, int]], axis: int) -> tuple[int, int] | None:
    """The dimension that belongs to the axis, and its step."""
    found = [(dim, step) for dim, (number, step) in enumerate(row) if number == axis]
    return found[0] if found else None


def run_part(
    case: Case, signature: _core.AxisSignature, split: Split, start: int, length: int
) -> list[Any]:
    sums = any(row and row[split.axis] == "sum" for row in signature["dependence"])
    tensors: list[Tensor] = []
    for number, tensor in enumerate(tensors_of(case.args, case.kwargs)):
        found = dimension_of(signature["operands"][number], split.axis)
        if found is not None:
            dim, step = found
            tensor = tensor.narrow(dim, start * step, length * step)
            if signature["contiguous"][number]:
                tensor = tensor.contiguous()
        if signature["added_once"][number] and sums and start > 0:
            tensor = torch.zeros_like(tensor)
        tensors.append(tensor)
    args, kwargs = replace_tensors(case.args, case.kwargs, tensors)
    for position, keyword, item, axis, step in signature["lengths"]:
        if axis != split.axis:
            continue
        holder: Any = kwargs if position < 0 else args
        key: Any = keyword if position < 0 else position
        if item < 0:
            holder[key] = length * step
        else:
            holder[key] = [*holder[key][:item], length * step, *holder[key][item + 1 :]]
    return run(case.operator, args, kwargs)


COMBINE = {
    "sum": torch.add,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "product": torch.mul,
    "any": torch.logical_or,
    "all": torch.logical_and,
}


def combined(
    parts: list[Tensor], row: list[tuple[int, int]], dependence: str, split: Split
) -> list[Tensor]:
    """What should equal the whole: one tensor, or every part's."""
    if dependence == "once":
        return parts
    if dependence == "sliced":
        found = dimension_of(row, split.axis)
        assert found is not None
        return [torch.cat(parts, found[0])]
    return [reduce(COMBINE[dependence], parts)]


def check_split(case: Case, signature: _core.AxisSignature, split: Split) -> None:
    """Raises SplitError unless the parts make the whole."""
    whole = run(case.operator, case.args, case.kwargs)
    try:
        parts = [run_part(case, signature, split, *bounds) for bounds in split.bounds()]
    except (RuntimeError, IndexError, ValueError) as error:
        raise SplitError(f"{case} does not run along axis {split}: {error}") from error
    for number, expected in enumerate(whole):
        if not isinstance(expected, Tensor):
            continue
        row = signature["results"][number]
        dependence = signature["dependence"][number][split.axis]
        try:
            actuals = combined([part[number] for part in parts], row, dependence, split)
        except RuntimeError as error:
            raise SplitError(f"{case}: parts do not combine: {error}") from error
        for actual in actuals:
            compare(case, actual, expected, f"result {number} along {split} of {signature['text']}")


def compare(case: Case, actual: Tensor, expected: Tensor, where: str) -> None:
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise SplitError(f"{case} {where}: {actual.shape} {actual.dtype}, not {expected.shape}")
    if not case.compared or expected.numel() == 0:
        return
    if expected.is_floating_point() or expected.is_complex():
        tolerance = TOLERANCES.get(expected.dtype, OF_SHORT_FLOATS)
        finite = expected[expected.isfinite()].abs()
        largest = max(1.0, float(finite.max())) if finite.numel() else 1.0
        if torch.allclose(actual, expected, tolerance, tolerance * largest, equal_nan=True):
            return
    elif torch.equal(actual, expected):
        return
    raise SplitError(f"{case} {where}: values differ")
