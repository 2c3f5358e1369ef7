"""The reference evaluator: graph or program text, executed statement by statement.

It shares nothing with code generation: operators are looked up by name and called as PyTorch has
them, views are calls like any other, and in-place execution is done functionally (what was
overwritten is gone, and reading it is an error; what is on its way from the host reads as poison).
In float64 it says what a rewrite should compute;
in the recorded dtypes, what a plan must compute bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    Loop,
    Operation,
    PartLength,
    Ref,
    Run,
    Symbol,
    Type,
)
from magis.verify.execution import execute
from magis.verify.host import Host
from magis.verify.iterations import Iterations, fill_unwritten, unwritten
from magis.verify.kernels import find_operator
from magis.verify.loops import ADD_PARTS, BEGIN, END, PART, WRITERS, single_writes
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
    return evaluate_document(parse(text), inputs, dtype=dtype, seed=seed, device=device)


def evaluate_document(
    document: Document,
    inputs: Mapping[str, Value],
    *,
    dtype: torch.dtype | None = torch.float64,
    seed: int | None = None,
    device: str | None = None,
) -> Evaluation:
    """The same for a text that was parsed before."""
    if seed is not None:
        torch.manual_seed(seed)
    with torch.no_grad():
        machine = Machine(document, dtype, device)
        machine.load(inputs)
        execute(machine)
        outputs = [machine.output(output.name, output.line) for output in document.outputs]
        return Evaluation(outputs, {i.name: machine.live[Copy(i.name)] for i in document.inputs})


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
        self.iterations = Iterations(document)
        self.host = Host(self)

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
        where = f"line {statement.line}: {statement}{self.iterations.place()}"
        self._check_place(operation, where)

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

    def _check_place(self, operation: Operation, where: str) -> None:
        belongs = self.document.loops_around(operation.results[0])
        if belongs != list(self.iterations.open):
            place = f"inside the loop {belongs[-1]}" if belongs else "outside all loops"
            raise PlanError(f"{where}: %{operation.results[0]} belongs {place}")

    def iterate(self, loop: Loop, end: Run) -> Iterator[None]:
        """Yields once an iteration, in which the body has to run, and checks what it leaves."""
        opened = self.iterations.enter(loop)
        outside, on_host = set(self.live), set(self.host.kept)
        for number in self.numbers(opened.count):
            opened.number = number
            yield
            where = f"line {end.line}: {end}{self.iterations.place()}"
            if lost := outside - set(self.live):
                raise PlanError(f"{where}: {min(lost)} was made outside and is gone")
            for copy in set(self.live) - outside:
                if self.document.program is not None:
                    raise PlanError(f"{where}: {copy} was made in the iteration and is not freed")
                self.drop(copy, "made in another iteration", where)
            for tensor in set(self.host.kept) - on_host:
                del self.host.kept[tensor]
            opened.done += 1
        for name in loop.results:
            written = opened.writes.get(name, 0)
            if written != opened.done:
                message = f"%{name} was written in {written} of {opened.done} iterations"
                raise PlanError(f"line {end.line}: {end}: {message}")
        self.iterations.leave(loop)

    def numbers(self, count: int) -> Sequence[int]:
        """Which of so many iterations are executed."""
        return range(count)

    def free(self, statement: Free) -> None:
        for copy in statement.copies:
            self.drop(copy, "freed before", f"free {copy}")

    def hold(self, copy: Copy, value: Tensor) -> None:
        """`copy` is live from here on, beside what operators make."""
        self.live[copy] = value

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
        self.host.forget(copy)

    def _call(self, operation: Operation, read: Callable[[str], Value], where: str) -> list[Value]:
        def convert(arg: Arg) -> Any:
            if isinstance(arg, Ref):
                return read(arg.name)
            if isinstance(arg, list):
                return [convert(item) for item in arg]
            if isinstance(arg, PartLength):
                return self.iterations.length(arg)
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
            made = self._apply(operation, args, kwargs)
        except PlanError as error:
            raise PlanError(f"{where}: {operation.operator}: {error}") from None
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

    def _apply(self, operation: Operation, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if operation.operator == BEGIN:
            return [type_ and self._unwritten(type_) for type_ in operation.types]
        if operation.operator == END:
            return None
        if operation.operator == PART:
            return self.iterations.part(operation, args[0])
        if operation.operator in WRITERS:
            if operation.operator == ADD_PARTS:
                for write, *pair in zip(single_writes(operation), *args, strict=True):
                    self._write(write, pair)
                return None
            return self._write(operation, args)
        return find_operator(operation.operator)(*args, **kwargs)

    def _unwritten(self, recorded: Type) -> Tensor:
        dtype = DTYPES[recorded.dtype]
        device = self.device or self.document.device
        whole = torch.empty(
            recorded.storage // dtype.itemsize,
            dtype=self.precision.get(dtype, dtype),
            device=device,
        )
        return fill_unwritten(whole).as_strided(recorded.shape, recorded.strides, recorded.offset)

    def _write(self, operation: Operation, args: list[Any]) -> None:
        """Writes a part to a result of the loop, whose length is known from the first part on: in
        a shorter part of a surrounding loop it may be shorter than its type."""
        target, opened = operation.args[0], self.iterations.innermost
        assert isinstance(target, Ref)
        assert opened is not None
        result, *parts = (arg for arg in args if isinstance(arg, Tensor))
        shape = self.iterations.written_shape(operation, parts)
        if shape != list(result.shape):
            longer = any(a > b for a, b in zip(shape, result.shape, strict=True))
            if longer or opened.in_full or not opened.is_first:
                raise PlanError(f"writes parts of {shape} to %{target.name}, {describe(result)}")
            result = unwritten(shape, result)
            self.replace(Copy(target.name), result)
        self.iterations.write(operation, result, parts)
        opened.writes[target.name] = opened.writes.get(target.name, 0) + 1

    def replace(self, copy: Copy, value: Tensor) -> None:
        self.live[copy] = value

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
        self._check_type(value, recorded, where)
        return value

    def _check_type(self, value: Tensor, recorded: Type, where: str) -> None:
        """Dtype and shape are as recorded; in a shorter part, dimensions may be shorter."""
        if not self.precision and self.iterations.are_full:
            check_type(value, recorded, where, layout=False)
            return
        wanted = self.precision.get(DTYPES[recorded.dtype], DTYPES[recorded.dtype])
        shape = tuple(value.shape)
        fits = shape == recorded.shape or (
            not self.iterations.are_full and is_within(shape, recorded)
        )
        if value.dtype != wanted or not fits:
            raise PlanError(
                f"{where} is recorded as {recorded}, the operator gives {describe(value)}"
            )


def is_within(shape: tuple[int, ...], recorded: Type) -> bool:
    """No dimension is longer than recorded, none is missing."""
    return len(shape) == len(recorded.shape) and all(map(int.__le__, shape, recorded.shape))


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
