"""Plans with random absences from the device, measured under the allocator hook; runs in the worker
of `hooked`."""

from __future__ import annotations

import gc
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from emulated_streams import EmulatedStep, RaceError
from random_plans import random_plan
from swap_programs import swapped
from torch import Tensor

from magis import _core, measure, zoo
from magis.capture import capture
from magis.runtime.compiled import CompiledPlan
from magis.runtime.host_pool import HostPool
from magis.runtime.sandbox import same_bits
from magis.runtime.scratch import with_measured_scratch, with_parts_measured
from magis.verify import inputs_from
from magis.verify.tensors import constant
from magis.verify.text import parse

CPU = torch.device("cpu")
FORMS = {operator: positions for operator, _, _, positions in _core.in_place_forms()}
SEED = 2
_IN_LOOP = re.compile(r"^ {8,}# \w+ leaves for the host$", re.MULTILINE)


@dataclass
class Account:
    """A plan beside the one that it was made of, which keeps every tensor on the device."""

    stores: int
    loads: int
    in_loops: int  # of the stores
    promised: int  # transient bytes
    measured: int
    without: int  # transient bytes promised of the other
    host: int  # bytes of the pool
    equal: bool  # bitwise: what the step returns and what it leaves in its inputs
    races: list[str]  # what went wrong on emulated streams


class Subject:
    """Values for a graph's inputs, and plans of it."""

    def __init__(self, text: str, values: dict[str, Any], directory: Path | None = None) -> None:
        declared = parse(text).inputs
        constants = {i.name: constant(i) for i in declared if i.kind == "const"}
        self.text, self.values = text, values | constants
        self.pool = HostPool(CPU, directory)
        self.known: dict[str, tuple[int, list[Any]]] = {}  # of the plan asked for last

    def account(self, plain: str, seed: int, share: float) -> Account:
        """Of the plan `plain` with tensors absent as `seed` says."""
        without, expected = self._before(plain)
        plan = _core.Plan.parse(swapped(plain, random.Random(seed), share=share).text)
        plan.verify()
        compiled = CompiledPlan(plan, CPU, host=self.pool)
        if plan.host_bytes:
            self.pool.at_least(plan.host_bytes).fill_(0xFF)
        same_as = self._left_by(compiled)
        inputs = self._inputs(plan)
        promised = plan.simulate("cpu")
        measured = measure.measure_peak(lambda: self._call(compiled, inputs)).peak_bytes
        kinds = [point.kind for point in promised.copies]
        return Account(
            stores=kinds.count("store"),
            loads=kinds.count("load"),
            in_loops=len(_IN_LOOP.findall(compiled.source)),
            promised=promised.transient_peak_bytes,
            measured=measured,
            without=without,
            host=plan.host_bytes,
            equal=same(expected, same_as),
            races=list(self.races(plan, expected)),
        )

    def _before(self, plain: str) -> tuple[int, list[Any]]:
        """Transient bytes promised of the plan `plain`, and what it leaves."""
        if plain not in self.known:
            plan = _core.Plan.parse(plain)
            left = self._left_by(CompiledPlan(plan, CPU))
            self.known = {plain: (plan.simulate("cpu").transient_peak_bytes, left)}
        return self.known[plain]

    def races(self, plan: _core.Plan, expected: Sequence[Any]) -> Iterator[str]:
        """What goes wrong on emulated streams."""
        if not plan.host_bytes:
            return
        text = plan.text().replace("\ndevice cpu\n", "\ndevice cuda\n", 1)
        source = _core.Plan.parse(text).source()
        for seed, eagerness in enumerate((0.0, 0.2, 0.6, 0.95)):
            step = EmulatedStep(source, seed=seed, eagerness=eagerness)
            host = torch.empty(plan.host_bytes, dtype=torch.uint8)
            inputs = self._inputs(plan)
            try:
                outputs = self._call(lambda given: step(given, host), inputs)  # noqa: B023
            except RaceError as error:
                yield f"{eagerness}: {error}"
                continue
            if not same(expected, [*outputs, *inputs]):
                yield f"{eagerness}: other values"

    def _left_by(self, compiled: CompiledPlan) -> list[Any]:
        inputs = self._inputs(compiled.plan)
        return [*self._call(compiled, inputs), *inputs]

    def _inputs(self, plan: _core.Plan) -> list[Any]:
        """Copies: a step may write to them."""
        values = [self.values[entry.name] for entry in plan.graph.inputs]
        return [v.detach().clone() if isinstance(v, Tensor) else v for v in values]

    @staticmethod
    def _call(step: Any, inputs: list[Any]) -> Any:
        torch.manual_seed(SEED)
        with torch.no_grad():
            return step(inputs)


def same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return all(
        _same_bits(a, b) if isinstance(a, Tensor) else a == b
        for a, b in zip(left, right, strict=True)
    )


def _same_bits(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.stride() == b.stride() and same_bits(a, b)


def subject_of(name: str, *, directory: str | None = None, **options: Any) -> Subject:
    """A tiny zoo model's step on CPU, its kernels' scratch measured."""
    torch.manual_seed(1)
    model, loss_fn, batch = zoo.build(name, **{"size": "tiny", **options})
    text = with_measured_scratch(capture(model, loss_fn, batch).text)
    gc.freeze()  # each measurement collects garbage first
    where = None if directory is None else Path(directory)
    return Subject(text, inputs_from(text, model, batch), where)


def accounts(
    name: str, *, plans: int, share: float = 0.3, directory: str | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Of plans in program order, and of as many random ones."""
    subject = subject_of(name, directory=directory, **options)
    order = _core.Plan.program_order(_core.Graph.parse(subject.text)).text()
    found = []
    for seed in [*range(0, plans, 2), *range(1, plans, 2)]:
        plain = order if seed % 2 == 0 else random_plan(subject.text, FORMS, seed)
        found.append(vars(subject.account(plain, seed, share)))
    return found


def accounts_in_parts(
    name: str, *, limit: float, plans: int, share: float = 0.3, parts: int = 0, **options: Any
) -> list[dict[str, Any]]:
    """Of a plan whose regions run in parts, found for `limit` of the bytes of program order."""
    subject = subject_of(name, **options)
    graph = _core.Graph.parse(subject.text)
    order = _core.Plan.program_order(graph).simulate("cpu")
    result = _core.optimize(
        graph,
        device="cpu",
        memory_limit=order.persistent_bytes + int(limit * order.transient_peak_bytes),
        state_budget=4_000,
        time_budget=20.0,
        batch_parts=parts,
    )
    assert result.regions
    plain = with_parts_measured(result.plan.text(), result.source.text())
    return [vars(subject.account(plain, seed, share)) for seed in range(plans)]
