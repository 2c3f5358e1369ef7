"""The reference evaluator: graph or program text, executed statement by statement.

It shares nothing with code generation: operators are looked up by name and called as PyTorch has
them, views are calls like any other, and in-place execution is done functionally (what was
overwritten is gone, and reading it is an error). In float64 it says what a rewrite should compute;
in the recorded dtypes, what a plan must compute bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from magis.errors import PlanError
from magis.verify.document import (
    Arg,
    Copy,
    DeviceWord,
    Document,
    Free,
    Operation,
    Ref,
    Run,
    Symbol,
    Type,
)
from magis.verify.tensors import DTYPES, check_type, constant, describe
from magis.verify.text import parse

Value: TypeAlias = "Tensor | float | None"


@dataclass(frozen=True)
class Evaluation:
    """Outputs in the order of the text, and the inputs by name as the step leaves them."""

    outputs: list[Tensor]
    inputs: dict[str, Value]


def evaluate(
    text: str,
    inputs: Mapping[str, Value],
    *,
    dtype: torch.dtype | None = torch.float64,
    seed: int | None = None,
    device: str | None = None,
) -> list[Tensor]:
    """Outputs of the graph (or of the program, if the text is a plan's), in order. See
    `evaluate_all`."""
    return evaluate_all(text, inputs, dtype=dtype, seed=seed, device=device).outputs


def evaluate_all(
    text: str,
    inputs: Mapping[str, Value],
    *,
    dtype: torch.dtype | None = torch.float64,
    seed: int | None = None,
    device: str | None = None,
) -> Evaluation:
    """Executes the text on `inputs`: tensors by value name, floats for scalars; constants come from
    the text.

    dtype: precision of everything that is floating, dtype arguments in the text included; None
    keeps what is recorded. seed: the default generator is seeded with it first; without it, random
    operators draw from where it stands. device: executes there instead of where the text says. The
    caller's tensors are copied, so mutations stay in the returned `inputs`. Raises PlanError naming
    the line if an input is missing or of another type, a tensor is read that is not live, or a
    result differs from its recorded type.
    """
    document = parse(text)
    if seed is not None:
        torch.manual_seed(seed)
    with torch.no_grad():
        machine = Machine(document, dtype, device)
        machine.load(inputs)
        for operation, run, freed in statements(document):
            if operation is not None:
                machine.run(operation, run)
            for copy in freed:
                machine.free(copy)
        outputs = [machine.output(output.name, output.line) for output in document.outputs]
        return Evaluation(outputs, {i.name: machine.live[Copy(i.name)] for i in document.inputs})


def statements(document: Document) -> Iterator[tuple[Operation | None, Run, tuple[Copy, ...]]]:
    """What is executed: the program, or each operator of the graph once. (operator, its statement,
    what is freed)"""
    if document.program is None:
        for name, operation in document.operators.items():
            yield operation, Run(name, operation.line), ()
        return
    for statement in document.program:
        if isinstance(statement, Free):
            yield None, Run("", statement.line), statement.copies
            continue
        if statement.operation not in document.operators:
            raise PlanError(f"line {statement.line}: {statement} names no operator's first result")
        yield document.operators[statement.operation], statement, ()


class Machine:
    """Executes a document's operations on tensors; who is live is kept by copy."""

    def __init__(
        self, document: Document, dtype: torch.dtype | None = None, device: str | None = None
    ) -> None:
        self.document = document
        self.precision = _precision(dtype)
        self.device = device
        self.live: dict[Copy, Value] = {}
        self.gone: dict[Copy, str] = {}  # why a copy is no longer live

    def load(self, inputs: Mapping[str, Value]) -> None:
        for declared in self.document.inputs:
            if declared.kind == "const":
                value: Value = constant(declared)
            elif declared.name in inputs:
                value = inputs[declared.name]
            else:
                raise PlanError(f"line {declared.line}: no value for input %{declared.name}")
            if declared.type is None:
                if not isinstance(value, float | int):
                    raise PlanError(f"line {declared.line}: scalar %{declared.name} needs a float")
            else:
                if not isinstance(value, Tensor):
                    raise PlanError(f"line {declared.line}: input %{declared.name} needs a tensor")
                check_type(
                    value,
                    declared.type,
                    f"line {declared.line}: input %{declared.name}",
                    layout=True,
                )
                value = self._own(value, declared.type)
            self.live[Copy(declared.name)] = value

    def _own(self, value: Tensor, recorded: Type) -> Tensor:
        """A copy with the same layout, in our precision and on our device."""
        dtype = self.precision.get(value.dtype, value.dtype)
        device = self.device or value.device
        elements = recorded.storage // value.element_size()
        whole = torch.empty(elements, dtype=dtype, device=device)
        own = whole.as_strided(recorded.shape, recorded.strides, recorded.offset)
        available = value.untyped_storage().nbytes() // value.element_size()
        source = value.detach().as_strided((min(elements, available),), (1,), 0)
        whole[: source.numel()].copy_(source)
        return own

    def run(self, operation: Operation, statement: Run) -> None:
        copies = {copy.tensor: copy.number for copy in statement.reading}
        where = f"line {statement.line}: {statement}"

        def read(name: str) -> Value:
            view = self.document.views.get(name)
            if view is not None:
                return self._call(view, read, where)[0]
            if name in self.document.types and self.document.types[name] is None:
                return self.live.get(Copy(name))  # a scalar, or an undefined result
            copy = Copy(name, copies.get(name, 0))
            if copy not in self.live:
                raise PlanError(
                    f"{where} reads {copy}, {self.gone.get(copy, 'which is not made yet')}"
                )
            return self.live[copy]

        results = self._call(operation, read, where)
        if statement.over is not None:
            self.drop(statement.over, f"overwritten by {statement} (line {statement.line})", where)
        for name, value in zip(operation.results, results, strict=True):
            if value is not None:
                self.live[Copy(name, statement.copy)] = value

    def free(self, copy: Copy) -> None:
        self.drop(copy, "freed before", f"free {copy}")

    def output(self, name: str, line: int) -> Tensor:
        where = f"line {line}: output %{name}"

        def read(name: str) -> Value:
            if name in self.document.views:
                return self._call(self.document.views[name], read, where)[0]
            if Copy(name) not in self.live:
                raise PlanError(f"{where}: {self.gone.get(Copy(name), 'it was never made')}")
            return self.live[Copy(name)]

        value = read(name)
        if not isinstance(value, Tensor):
            raise PlanError(f"{where} is not a tensor")
        return value

    def drop(self, copy: Copy, why: str, where: str) -> None:
        if self.live.pop(copy, None) is None:
            raise PlanError(
                f"{where}: {copy} is not live, {self.gone.get(copy, 'it was not made')}"
            )
        self.gone[copy] = f"which was {why}"

    def _call(self, operation: Operation, read: Callable[[str], Value], where: str) -> list[Value]:
        def convert(arg: Arg) -> Any:
            if isinstance(arg, Ref):
                return read(arg.name)
            if isinstance(arg, list):
                return [convert(item) for item in arg]
            if isinstance(arg, Symbol):
                value = getattr(torch, arg.word)
                return self.precision.get(value, value)
            if isinstance(arg, DeviceWord):
                return torch.device(self.device or arg.name)
            return arg

        args = [convert(arg) for arg in operation.args]
        kwargs = {name: convert(arg) for name, arg in operation.kwargs.items()}
        if self.precision:
            _at_one_precision(operation, args, where)
        try:
            made = find_operator(operation.operator)(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
            raise PlanError(f"{where}: {operation.operator} fails: {error}") from error
        flat = list(made) if isinstance(made, list | tuple) else [made]
        if len(flat) != len(operation.results):
            counts = f"{len(flat)} results, {len(operation.results)} are named"
            raise PlanError(f"{where}: {operation.operator} gives {counts}")
        results = [
            self._result(value, recorded, f"{where}: %{name}")
            for value, name, recorded in zip(flat, operation.results, operation.types, strict=True)
        ]
        self.check_results(operation, args, results, where)
        return results

    def check_results(
        self, operation: Operation, args: list[Any], results: list[Value], where: str
    ) -> None:
        """For those who want to know more than dtype and shape."""

    def _result(self, value: Any, recorded: Type | None, where: str) -> Value:
        if recorded is None:
            return None
        if not isinstance(value, Tensor):
            raise PlanError(f"{where} is recorded as {recorded}, the operator gives {value!r}")
        if value.dtype in self.precision:  # made by a factory, at PyTorch's default precision
            value = value.to(self.precision[value.dtype])
        if self.precision:
            wanted = self.precision.get(DTYPES[recorded.dtype], DTYPES[recorded.dtype])
            if value.dtype != wanted or tuple(value.shape) != recorded.shape:
                raise PlanError(
                    f"{where} is recorded as {recorded}, the operator gives {describe(value)}"
                )
        else:
            check_type(value, recorded, where, layout=False)
        return value


def _precision(dtype: torch.dtype | None) -> dict[torch.dtype, torch.dtype]:
    """Which dtypes are replaced by which."""
    if dtype is None:
        return {}
    if not dtype.is_floating_point:
        raise ValueError(f"the evaluator's precision is floating, not {dtype}")
    pairs = {d: dtype for d in DTYPES.values() if d.is_floating_point and d != dtype}
    if dtype == torch.float64:
        pairs[torch.complex64] = torch.complex128
    return pairs


def _at_one_precision(operation: Operation, args: list[Any], where: str) -> None:
    """Arguments that only make sense between two precisions."""
    if operation.operator == "aten.view.dtype":
        raise PlanError(f"{where}: reinterpreting bits has a meaning in the recorded dtypes only")
    if operation.operator in ("aten._softmax", "aten._log_softmax"):
        args[2] = False  # half_to_float


def find_operator(name: str) -> Callable[..., Any]:
    """The callable that the text language's `<namespace>.<operator>[.<overload>]` means."""
    if name in _OWN_OPERATORS:
        return _OWN_OPERATORS[name]
    namespace, operator, *overload = name.split(".")
    found: Callable[..., Any]
    try:
        packet = getattr(getattr(torch.ops, namespace), operator)
        found = getattr(packet, overload[0] if overload else "default")
    except AttributeError:
        raise PlanError(f"there is no operator {name} in this PyTorch") from None
    return found


def _bernoulli(
    shape: list[int],
    strides: list[int],
    p: float,
    *,
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device=device).bernoulli_(p)


_OWN_OPERATORS: dict[str, Callable[..., Any]] = {"magis.bernoulli": _bernoulli}
