"""Re-runs a text's operators on fake tensors and compares what comes out with what is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from magis._torch_internals import FakeTensorMode
from magis.errors import PlanError
from magis.verify.document import Copy, Input, Operation, Type, base_of
from magis.verify.evaluator import Machine, Value, is_within
from magis.verify.execution import execute
from magis.verify.tensors import DTYPES, describe
from magis.verify.text import parse


def check_types(text: str) -> None:
    """Runs the graph (or the program, copies included) under FakeTensorMode: no memory, no
    arithmetic. Loops run their first iteration, and their last one if there are several.

    Raises PlanError naming the statement if a result's shape, strides, offset, dtype or storage
    bytes differ from what is recorded, a view does not share its base's storage, or an operator's
    result shares anybody's.
    """
    document = parse(text)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        machine = _TypeMachine(document)
        machine.load({})
        execute(machine)
        for output in document.outputs:
            machine.output(output.name, output.line)


class _TypeMachine(Machine):
    """An evaluator of types alone."""

    def load(self, inputs: Mapping[str, Value]) -> None:
        self.owners: dict[int, str] = {}  # of live storages, by identity
        for declared in self.document.inputs:
            value = _fake(declared, self.document.device)
            self.live[Copy(declared.name)] = value
            if isinstance(value, Tensor):
                self.owners[id(value.untyped_storage())] = declared.name

    def drop(self, copy: Copy, why: str, where: str) -> None:
        value = self.live.get(copy)
        super().drop(copy, why, where)
        if isinstance(value, Tensor):
            del self.owners[id(value.untyped_storage())]

    def replace(self, copy: Copy, value: Tensor) -> None:
        former = self.live[copy]
        assert isinstance(former, Tensor)
        del self.owners[id(former.untyped_storage())]
        super().replace(copy, value)
        self.owners[id(value.untyped_storage())] = copy.tensor

    def hold(self, copy: Copy, value: Tensor) -> None:
        super().hold(copy, value)
        self.owners[id(value.untyped_storage())] = copy.tensor

    def numbers(self, count: int) -> Sequence[int]:
        return sorted({0, count - 1})

    def check_results(
        self, operation: Operation, args: list[Any], results: list[Value], where: str
    ) -> None:
        for name, value, recorded in zip(operation.results, results, operation.types, strict=True):
            if not isinstance(value, Tensor) or recorded is None:
                continue
            actual = describe(value)
            if not self._is_recorded(operation, actual, recorded):
                raise PlanError(
                    f"{where}: %{name} is recorded as {recorded}, the operator gives {actual}"
                )
            storage = value.untyped_storage()
            if operation.is_view:
                if storage is not args[0].untyped_storage():
                    raise PlanError(
                        f"{where}: %{name} does not share storage with %{base_of(operation)}"
                    )
                continue
            if id(storage) in self.owners:
                raise PlanError(f"{where}: %{name} shares storage with %{self.owners[id(storage)]}")
            self.owners[id(storage)] = name

    def _is_recorded(self, operation: Operation, actual: Type, recorded: Type) -> bool:
        """Types are written for full parts, and for the first iteration where offsets differ. What
        is written in a loop was derived, not recorded: strides that are never used do not count."""
        if not self.iterations.open:
            return _same(actual, recorded)
        if self.iterations.are_at_start:
            return _same(_with_used_strides(actual), _with_used_strides(recorded))
        return actual.dtype == recorded.dtype and is_within(actual.shape, recorded)


def _with_used_strides(type_: Type) -> Type:
    pairs = zip(type_.shape, type_.strides, strict=True)
    return replace(type_, strides=tuple(s if length != 1 else 0 for length, s in pairs))


def _same(actual: Type, recorded: Type) -> bool:
    """Equal, but for the strides of what has no elements."""
    if 0 in recorded.shape:
        return (actual.dtype, actual.shape) == (recorded.dtype, recorded.shape)
    return actual == recorded


def _fake(declared: Input, device: str) -> Value:
    recorded = declared.type
    if recorded is None:
        return 1.0
    dtype = DTYPES[recorded.dtype]
    whole = torch.empty(recorded.storage // dtype.itemsize, dtype=dtype, device=device)
    return whole.as_strided(recorded.shape, recorded.strides, recorded.offset)
