"""Measures plans of a zoo model under the allocator hook; runs in the worker of `hooked`."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from optimizer_states import captured_step, step_inputs
from random_plans import random_plan

from magis import _core, measure, zoo
from magis.runtime.scratch import with_measured_scratch
from magis.verify import evaluate_all, inputs_from, verify_plan
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
    equal: bool  # outputs and inputs bitwise as the graph leaves them, statement by statement
    on_devices: bool  # verifier and core agree on devices that round and that do not


def step_of(source: str, log: measure.KernelLog | None = None) -> Callable[..., Any]:
    """The function `step` of generated code; with a log, its operators are watched."""
    names: dict[str, Any] = {}
    exec(compile(source, "<plan>", "exec"), names)
    if log is not None:
        operators = {k: v for k, v in names.items() if isinstance(v, torch._ops.OpOverload)}
        names |= {name: log.watch(operator) for name, operator in operators.items()}
    step: Callable[..., Any] = names["step"]
    return step


class Subject:
    """Graph text and values for its inputs."""

    def __init__(self, text: str, values: dict[str, Any]) -> None:
        declared = parse(text).inputs
        constants = {i.name: constant(i) for i in declared if i.kind == "const"}
        self.text, self.values = text, values | constants
        self.names = [i.name for i in declared]
        self.expected = evaluate_all(text, self.values, dtype=None, seed=2)

    def account(self, plan: _core.Plan) -> Account:
        promised = plan.simulate("cpu")
        facts = verify_plan(plan.text())
        log = measure.KernelLog()
        step, watched = step_of(plan.source()), step_of(plan.source(), log)
        self._call(step, self._inputs())()
        inputs = self._inputs()
        alone = measure.measure_peak(self._call(step, inputs))
        kernels = measure.measure_kernels(self._call(watched, self._inputs()), log)
        end = dict(zip(self.names, inputs, strict=True))
        return Account(
            promised=promised.transient_peak_bytes,
            verified=facts.transient_peak_bytes,
            promised_persistent=promised.persistent_bytes,
            verified_persistent=facts.persistent_bytes,
            tensors=kernels.tensor_peak_bytes,
            measured=alone.peak_bytes,
            bracketed=kernels.peak_bytes,
            recomputed=len(facts.recomputed),
            equal=same(self.expected.outputs, alone.result)
            and same(self.expected.inputs.values(), [end[name] for name in self.expected.inputs]),
            on_devices=all(
                verify_plan(plan.text(), device=device).peak_bytes
                == plan.simulate(device).peak_bytes
                for device in ("reference", "a100")  # as they are, and rounded
            ),
        )

    def _inputs(self) -> list[Any]:
        """Copies: a step may write to them."""
        values = [self.values[name] for name in self.names]
        return [v.detach().clone() if isinstance(v, torch.Tensor) else v for v in values]

    def _call(self, step: Callable[[list[Any]], Any], inputs: list[Any]) -> Callable[[], Any]:
        def call() -> Any:
            torch.manual_seed(2)
            with torch.no_grad():
                return step(inputs)

        return call

    def plans(self, random_plans: int) -> Iterator[tuple[str, _core.Plan]]:
        """Program order, random plans, and what the optimizer makes of a limit out of reach."""
        graph = _core.Graph.parse(self.text)
        yield "program order", _core.Plan.program_order(graph)
        for seed in range(random_plans):
            yield f"random {seed}", _core.Plan.parse(random_plan(self.text, FORMS, seed))
        limit = graph.persistent_bytes + 1
        options = {
            "device": "cpu",
            "memory_limit": limit,
            "state_budget": 30_000,
            "time_budget": 4.0,
        }
        yield "optimized", _core.optimize(graph, fission=False, rewrite=False, **options).plan


def same(references: Iterable[Any], values: Iterable[Any]) -> bool:
    return all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(references, values, strict=True)
    )


def accounts(
    name: str,
    *,
    variant: str = "real",
    optimizer: str | None = None,
    threads: int = 1,
    random_plans: int = 1,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Of plans of a tiny zoo model's step: without and with kernels' scratch in the graph, and
    adding into gradients that are there.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model, loss_fn, batch = zoo.build(name, size="tiny", variant=variant)
    text = captured_step(model, loss_fn, batch, optimizer).text
    values = step_inputs(text, model, batch, optimizer)
    subjects = {
        "without scratch": Subject(text, values),
        "with scratch": Subject(with_measured_scratch(text), values),
    }
    paths = [output.path for output in parse(text).outputs if output.kind == "grad"]
    if paths:
        adding = _core.Graph.parse(text).accumulate_gradients(paths).text()
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        values = inputs_from(adding, model, batch)
        subjects["adding"] = Subject(with_measured_scratch(adding), values)
    return {
        kind: {
            what: vars(subject.account(plan))
            for what, plan in subject.plans(random_plans if kind != "adding" else 1)
        }
        for kind, subject in subjects.items()
    }
