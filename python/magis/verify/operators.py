"""What an operator does beside computing its results, mostly from PyTorch's own schemas: whether it
draws random numbers, writes to operands, works in place."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from magis.errors import PlanError
from magis.verify.document import ITEM_SIZES, Document, Operation, Ref
from magis.verify.kernels import find_operator
from magis.verify.loops import BEGIN, END, LOOP_OPERATORS, WRITERS

# Elementwise in every tensor operand, though PyTorch does not tag them pointwise.
_ELEMENTWISE = {
    "aten.elu_backward",
    "aten.floor_divide",
    "aten.hardshrink_backward",
    "aten.hardsigmoid_backward",
    "aten.hardtanh_backward",
    "aten.leaky_relu_backward",
    "aten.softplus_backward",
    "aten.softshrink_backward",
}


@dataclass(frozen=True)
class Effects:
    """What an operator does beside computing its results."""

    random: bool = False  # draws from the generator
    writes: tuple[int, ...] = ()  # positions of the arguments that it writes to
    known: bool = True  # False: not PyTorch's own, may do anything
    bounds: bool = False  # begins or ends a loop
    averages: bool = False  # over several processes, which all do so in the same order

    @property
    def pure(self) -> bool:
        """May run again, and in any order."""
        once = self.random or self.averages or bool(self.writes) or self.bounds
        return self.known and not once

    @property
    def keeps_order(self) -> bool:
        return self.random or self.averages or not self.known

    @property
    def reason(self) -> str:
        """Why it is not pure, to follow "it"."""
        if self.random:
            return "draws random numbers"
        if self.averages:
            return "averages over several processes"
        if self.bounds:
            return "begins or ends a loop"
        return "writes to an operand" if self.writes else "is not an operator of PyTorch"


def workspace(operation: Operation, document: Document) -> int:
    """Bytes beside operands and results while it runs: measured ones, or those that the language's
    own operators take, words of eight elements each."""
    if operation.scratch:
        return operation.scratch
    if operation.operator == "magis.add_part":
        total, part = (
            document.types[arg.name] if isinstance(arg, Ref) else None for arg in operation.args
        )
        if total is None or part is None or total.dtype == part.dtype:
            return 0
        return prod(part.shape) * ITEM_SIZES[total.dtype]  # CPU kernels cast the part first
    if operation.operator == "magis.pack_bits":
        mask = operation.args[0]
        type_ = document.types[mask.name] if isinstance(mask, Ref) else None
    elif operation.operator == "magis.unpack_bits":
        type_ = operation.types[0]
        if type_ is not None and type_.dtype == "bool":
            return 0  # the words are the mask
    else:
        return 0
    return prod(type_.shape) if type_ is not None else 0


def effects(operation: Operation) -> Effects:
    """From the operator's schema and tags. Raises PlanError if there is no such operator."""
    if operation.operator == "magis.bernoulli":
        return Effects(random=True)
    if operation.operator in ("magis.begin_average", "magis.end_average"):
        return Effects(averages=True)
    if operation.operator in ("magis.pack_bits", "magis.unpack_bits"):
        return Effects()
    if operation.operator in LOOP_OPERATORS:
        written = (0,) if operation.operator in WRITERS else ()
        return Effects(writes=written, bounds=operation.operator in (BEGIN, END))
    overload = find_operator(operation.operator)
    arguments = overload._schema.arguments  # type: ignore[attr-defined]
    writes = [
        position
        for position, argument in enumerate(arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    known = operation.operator.split(".")[0] in ("aten", "prims")
    return Effects(_is_random(operation, overload, arguments), tuple(writes), known)


def check_bodies(document: Document) -> None:
    """Raises PlanError if an operator stands in a loop that must run once, and in order."""
    for name, operation in document.operators.items():
        loop = document.loop_of.get(name)
        if loop is None or operation.operator in LOOP_OPERATORS:
            continue
        found = effects(operation)
        if not found.pure:
            message = f"%{name} runs in every iteration of {loop.name}, but it {found.reason}"
            raise PlanError(f"line {operation.line}: {message}")


def _is_random(operation: Operation, overload: object, arguments: list[torch.Argument]) -> bool:
    if torch.Tag.nondeterministic_seeded not in overload.tags:  # type: ignore[attr-defined]
        return False
    for position, argument in enumerate(arguments):  # attention without dropout draws nothing
        if argument.name == "dropout_p":
            given = operation.kwargs.get("dropout_p", argument.default_value)
            given = operation.args[position] if position < len(operation.args) else given
            return given != 0
    return True


def runs_over(document: Document, operation: Operation, tensor: str) -> str:
    """Why the operator cannot put its first result over `tensor`, one that it reads; "" if it
    can."""
    readers = [name for name in operation.reads() if document.owner(name) == tensor]
    positions = [
        p for p, arg in enumerate(operation.args) if isinstance(arg, Ref) and arg.name in readers
    ]
    result = operation.types[0]
    if result is None:
        return "its first result is undefined"
    if len(readers) != 1 or not positions:
        return f"it reads %{tensor} in more than one layout, or inside a list"
    operand, owner = document.types[readers[0]], document.types[tensor]
    if operand != result or owner is None or owner.storage != result.storage:
        return f"%{readers[0]} is {operand}, the result is {result}"
    if not is_dense(result.shape, result.strides):
        return f"%{readers[0]} does not cover its storage"
    if _is_pointwise(operation.operator):
        return ""
    if len(positions) != 1:
        return f"{operation.operator} is not pointwise and reads %{tensor} twice"
    if positions[0] == 0 and _has_in_place_form(operation.operator):
        return ""
    return f"{operation.operator} has no form that works over argument {positions[0]}"


def is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Each element has its own address, without holes between them."""
    step = 1
    for stride, length in sorted(zip(strides, shape, strict=True)):
        if length != 1:
            if stride != step:
                return False
            step *= length
    return True


def _is_pointwise(name: str) -> bool:
    return name in _ELEMENTWISE or torch.Tag.pointwise in getattr(find_operator(name), "tags", ())


def _has_in_place_form(name: str) -> bool:
    namespace, operator, *overload = name.split(".")
    try:
        find_operator(".".join([namespace, operator + "_", *overload]))
    except PlanError:
        return False
    return True
