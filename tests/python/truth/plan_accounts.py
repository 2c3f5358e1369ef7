"""Measures plans of a zoo model under the allocator hook; runs in the worker of `hooked`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from random_plans import random_plan

from magis import _core, measure, zoo
from magis.capture import capture
from magis.runtime.scratch import with_measured_scratch
from magis.verify import evaluate, inputs_from, verify_plan
from magis.verify.tensors import constant
from magis.verify.text import parse

FORMS = {operator: positions for operator, _, _, positions in _core.in_place_forms()}


@dataclass
class Account:
    """One plan seen by all who count, in bytes; transient unless it says persistent."""

    promised: int  # by the core
    verified: int  # by the plan verifier
    promised_persistent: int
    verified_persistent: int
    tensors: int  # measured, kernel scratch apart
    measured: int  # measured, all of it
    bracketed: int  # the same, while kernels are watched one by one
    recomputed: int
    equal: bool  # outputs bitwise those of the graph, statement by statement


def step_of(source: str, log: measure.KernelLog | None = None) -> Callable[[list[Any]], Any]:
    """The function `step` of generated code; with a log, its operators are watched."""
    names: dict[str, Any] = {}
    exec(compile(source, "<plan>", "exec"), names)
    if log is not None:
        operators = {k: v for k, v in names.items() if isinstance(v, torch._ops.OpOverload)}
        names |= {name: log.watch(operator) for name, operator in operators.items()}
    step: Callable[[list[Any]], Any] = names["step"]
    return step


class Model:
    """A tiny zoo model's captured step and inputs."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(1)
        model, loss_fn, batch = zoo.build(name, size="tiny")
        self.text = capture(model, loss_fn, batch).text
        self.values = inputs_from(self.text, model, batch)
        declared = parse(self.text).inputs
        self.values |= {i.name: constant(i) for i in declared if i.kind == "const"}
        self.inputs = [self.values[i.name] for i in declared]
        self.expected = evaluate(self.text, self.values, dtype=None, seed=2)

    def account(self, plan: _core.Plan) -> Account:
        promised = plan.simulate("cpu")
        facts = verify_plan(plan.text())
        log = measure.KernelLog()
        call, watched = self._call(step_of(plan.source())), self._call(step_of(plan.source(), log))
        call()
        alone = measure.measure_peak(call)
        kernels = measure.measure_kernels(watched, log)
        pairs = zip(self.expected, alone.result, strict=True)
        return Account(
            promised=promised.transient_peak_bytes,
            verified=facts.transient_peak_bytes,
            promised_persistent=promised.persistent_bytes,
            verified_persistent=facts.persistent_bytes,
            tensors=kernels.tensor_peak_bytes,
            measured=alone.peak_bytes,
            bracketed=kernels.peak_bytes,
            recomputed=len(facts.recomputed),
            equal=all(torch.equal(reference, value) for reference, value in pairs),
        )

    def _call(self, step: Callable[[list[Any]], Any]) -> Callable[[], Any]:
        def call() -> Any:
            torch.manual_seed(2)
            with torch.no_grad():
                return step(self.inputs)

        return call

    def plans(self, text: str, random_plans: int) -> Iterator[tuple[str, _core.Plan]]:
        """Program order, random plans, and what the optimizer makes of a limit out of reach."""
        graph = _core.Graph.parse(text)
        yield "program order", _core.Plan.program_order(graph)
        for seed in range(random_plans):
            yield f"random {seed}", _core.Plan.parse(random_plan(text, FORMS, seed))
        limit = graph.persistent_bytes + 1
        options = {"device": "cpu", "memory_limit": limit, "state_budget": 20_000}
        yield "optimized", _core.optimize(graph, **options).plan


def accounts(name: str, random_plans: int = 2) -> dict[str, dict[str, dict[str, Any]]]:
    """Of each plan, without and with kernels' scratch in the graph."""
    model = Model(name)
    texts = {"without scratch": model.text, "with scratch": with_measured_scratch(model.text)}
    return {
        kind: {what: vars(model.account(plan)) for what, plan in model.plans(text, random_plans)}
        for kind, text in texts.items()
    }
