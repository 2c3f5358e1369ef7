"""Operator calls that stand alone: made again from what the core calls them, with operands to run
them on.

A call's name says all that its time depends on (`magis/simulate/measured_times.h`):

    aten.addmm(%0, %1, %2, beta=1) : f32[8,32] of f32[32], f32[8,64], f32[64,32]{1,64}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from magis.errors import PlanError
from magis.timing.kernels import in_place_kernel, kernel_named
from magis.timing.operands import sample
from magis.verify.document import Arg, DeviceWord, Operation, Ref, Symbol, Type
from magis.verify.text import parse

_OPERAND = re.compile(r"%(\d+)")
_OVER = re.compile(r"\) over (\d+)$")
_SCALAR = "scalar"


class Prepared:
    """A call with its operands: each time that it is called, the operator runs once."""

    def __init__(
        self,
        run: Callable[[], Any],
        overwritten: torch.Tensor | None,
        operands: Sequence[torch.Tensor] = (),
    ) -> None:
        self.run = run
        self._operands = operands
        self.bytes = sum(map(_storage_bytes, operands))
        self._overwritten = overwritten
        self._before = None if overwritten is None else overwritten.clone()

    def restore(self) -> None:
        """What the call overwrites is as it was: numbers that are overwritten again and again
        become denormal, and slow."""
        if self._overwritten is not None and self._before is not None:
            self._overwritten.copy_(self._before)

    def warm(self) -> None:
        """The operands go to the caches, as far as they fit: in a step they were just made, or read
        by the operator before.
        """
        for operand in self._operands:
            words = torch.empty(0, dtype=torch.int32, device=operand.device)
            count = _storage_bytes(operand) // words.itemsize
            words.set_(operand.untyped_storage(), 0, (count,)).sum()


@dataclass(frozen=True)
class Call:
    """One operator call, without the graph that it stands in."""

    key: str
    operation: Operation
    operands: tuple[Type | None, ...]  # by number; None: a scalar of run time
    over: int | None = None  # the argument that it overwrites with its first result

    @property
    def operator(self) -> str:
        return self.operation.operator

    @cached_property
    def bytes(self) -> int:
        """Of its operands and results."""
        types = [*self.operands, *self.operation.types]
        return sum(type_.storage for type_ in types if type_ is not None)

    def type_of(self, arg: Arg) -> Type | None:
        """The type of an argument that is a tensor."""
        return self.operands[int(arg.name[1:])] if isinstance(arg, Ref) else None

    def prepare(self, device: torch.device, generator: torch.Generator) -> Prepared:
        """The call on operands of its own.

        Raises whatever PyTorch raises for types that it does not take.
        """
        values: dict[str, Any] = {}
        for number, type_ in enumerate(self.operands):
            name = f"x{number}"
            if type_ is None:
                values[name] = 1.0
            else:
                values[name] = sample(self, number, type_, device, generator)
        args = [_value(arg, values, device) for arg in self.operation.args]
        kwargs = {key: _value(arg, values, device) for key, arg in self.operation.kwargs.items()}
        tensors = [value for value in values.values() if isinstance(value, torch.Tensor)]
        if self.over is None:
            kernel = kernel_named(self.operator)
            return Prepared(lambda: kernel(*args, **kwargs), None, tensors)
        overwritten = args[self.over]
        kernel = in_place_kernel(self.operator, self.over, args, kwargs)
        return Prepared(lambda: kernel(*args, **kwargs), overwritten, tensors)


def read_call(key: str) -> Call:
    """The call that the core names `key`. Raises PlanError if it names none."""
    text, over = graph_text(key)
    try:
        document = parse(text)
    except PlanError as error:
        raise PlanError(f"{key!r} is no call: {error}") from None
    if len(document.operations) != 1:
        raise PlanError(f"{key!r} is no call")
    operands = tuple(entry.type for entry in document.inputs)
    return Call(key, document.operations[0], operands, over)


def graph_text(key: str) -> tuple[str, int | None]:
    """A graph of nothing but the call that the core names `key`, its operands inputs and its
    results outputs; and the argument that the call overwrites, which the graph does not say.
    """
    statement, mark, tail = key.rpartition(" of ")
    types = tail.split(", ") if mark else []
    if not mark:
        statement = key
    lines = ["magis 1", "device cpu"]
    for number, text in enumerate(types):
        if text == _SCALAR:
            lines.append(f'scalar %x{number} "[{number}]"')
        else:
            lines.append(f'batch %x{number} "[{number}]" : {text}')
    call, _, results = statement.rpartition(" : ")
    over = _OVER.search(call)
    if over is not None:
        call = call[: over.start() + 1]
    made = [(f"%y{number}", type_) for number, type_ in enumerate(results.split(", "))]
    names = ", ".join(name for name, _ in made)
    spelled = _OPERAND.sub(r"%x\1", call)
    lines.append(f"{names} = {spelled} : {results}")
    lines += [f'output aux "{name}" {name}' for name, type_ in made if type_ != "none"]
    return "\n".join(lines) + "\n", int(over[1]) if over else None


def tensors_in(call: Call) -> Iterator[tuple[int | str, int | None, int]]:
    """Where the operands stand: (position or keyword, place in a list, number of the operand)."""
    places: list[tuple[int | str, Arg]] = [*enumerate(call.operation.args)]
    places += call.operation.kwargs.items()
    for where, arg in places:
        for item, leaf in enumerate(arg) if isinstance(arg, list) else [(None, arg)]:
            if isinstance(leaf, Ref):
                yield where, item, int(leaf.name[1:])


def _storage_bytes(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().nbytes())


def _value(arg: Arg, values: dict[str, Any], device: torch.device) -> Any:
    if isinstance(arg, Ref):
        return values[arg.name]
    if isinstance(arg, Symbol):
        return getattr(torch, arg.word)
    if isinstance(arg, DeviceWord):
        return device
    if isinstance(arg, list):
        return [_value(item, values, device) for item in arg]
    return arg
