"""Plans with regions for zoo models, measured under the allocator hook; runs in the worker of
`hooked`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from optimizer_states import captured_step, step_inputs
from plan_accounts import same, step_of
from torch import Tensor

from magis import _core, measure, zoo
from magis.capture import capture
from magis.runtime.scratch import with_measured_scratch, with_parts_measured
from magis.verify import check_types, evaluate_all, inputs_from, verify_plan
from magis.verify.evaluator import Evaluation
from magis.verify.tensors import constant
from magis.verify.text import parse

SEED = 2
# Of the step's result in float64: rounding of single operations, which either order has.
ROUNDING = 2.0**-21


@dataclass
class Account:
    """A plan seen by all who count, in transient bytes, and what it computes."""

    regions: int
    before: int  # in program order
    promised: int
    verified: int
    measured: int
    bits: bool  # code and evaluator leave the same bits
    whole: bool  # and those are the bits of the captured graph, run as a whole
    generator: bool  # and the generator where the captured graph leaves it
    errors: dict[str, tuple[float, float, float]]  # by name: plan's, the graph's, size in float64
    exact: list[str]  # integers and booleans that differ, and what has other types


class Subject:
    def __init__(self, text: str, values: dict[str, Any]) -> None:
        document = parse(text)
        constants = {i.name: constant(i) for i in document.inputs if i.kind == "const"}
        self.text, self.values = text, values | constants
        self.document = document
        self.source = evaluate_all(text, self.values, dtype=None, seed=SEED)
        self.generator = torch.get_rng_state()
        self.truth = evaluate_all(text, self.values, seed=SEED)

    def account(self, plan: _core.Plan, regions: int, *, scratch: bool) -> Account:
        check_types(plan.text())
        order = [i.name for i in parse(plan.text()).inputs]
        log = measure.KernelLog()
        watched = step_of(plan.source(), log)

        def inputs() -> list[Any]:
            given = [self.values[name] for name in order]
            return [v.detach().clone() if isinstance(v, Tensor) else v for v in given]

        left = inputs()
        pool = [torch.full((plan.host_bytes,), 0xFF, dtype=torch.uint8)] if plan.host_bytes else []

        def call() -> Any:
            torch.manual_seed(SEED)
            with torch.no_grad():
                return watched(left, *pool)

        kernels = measure.measure_kernels(call, log)
        after = torch.get_rng_state()
        found = Evaluation(list(kernels.result), dict(zip(order, left, strict=True)))
        expected = evaluate_all(plan.text(), self.values, dtype=None, seed=SEED)
        errors, exact = self._errors(found)
        return Account(
            regions=regions,
            before=_core.Plan.program_order(_core.Graph.parse(self.text))
            .simulate("cpu")
            .transient_peak_bytes,
            promised=plan.simulate("cpu").transient_peak_bytes,
            verified=verify_plan(plan.text()).transient_peak_bytes,
            measured=kernels.peak_bytes if scratch else kernels.tensor_peak_bytes,
            bits=same(expected.outputs, found.outputs)
            and same(expected.inputs.values(), found.inputs.values()),
            whole=same(self.source.outputs, found.outputs)
            and same(self.source.inputs.values(), [found.inputs[n] for n in self.source.inputs]),
            generator=torch.equal(after, self.generator),
            errors=errors,
            exact=exact,
        )

    def _errors(self, found: Evaluation) -> tuple[dict[str, tuple[float, float, float]], list[str]]:
        """Of everything the step leaves, in the Euclidean norm."""
        names = [f"{o.kind} {o.path}" for o in self.document.outputs] + list(found.inputs)
        rows = (
            [*evaluation.outputs, *evaluation.inputs.values()]
            for evaluation in (found, self.source, self.truth)
        )
        errors, exact = {}, []
        for name, plan, source, truth in zip(names, *rows, strict=True):
            if not isinstance(plan, Tensor):
                continue
            assert isinstance(source, Tensor)
            assert isinstance(truth, Tensor)
            if plan.dtype != source.dtype or plan.shape != source.shape:
                exact.append(name)
            elif plan.is_floating_point():
                far = (plan.double() - truth.double()).norm().item()
                before = (source.double() - truth.double()).norm().item()
                errors[name] = far, before, truth.double().norm().item()
            elif not torch.equal(plan, source):
                exact.append(name)
        return errors, exact


def accounts(
    name: str,
    *,
    share: float,
    optimizer: str | None = None,
    autocast: bool = False,
    scratch: bool = False,
    exact: bool = False,
    parts: int = 0,
    strategy: str = "default",
    **options: Any,
) -> dict[str, Any]:
    """Of the plan that the optimizer makes for `share` of the transient bytes of program order, the
    batch in `parts` parts if that is not left to it."""
    torch.manual_seed(1)
    model, loss_fn, batch = zoo.build(name, **options)

    def under_autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss_fn(*args, **kwargs)

    captured = captured_step(model, under_autocast if autocast else loss_fn, batch, optimizer)
    text = with_measured_scratch(captured.text) if scratch else captured.text
    graph = _core.Graph.parse(text)
    order = _core.Plan.program_order(graph).simulate("cpu")
    limit = order.persistent_bytes + int(share * order.transient_peak_bytes)
    result = _core.optimize(
        graph,
        device="cpu",
        memory_limit=limit,
        state_budget=4_000,
        time_budget=20.0,
        exact=exact,
        batch_parts=parts,
        strategy=strategy,
    )
    plan = (
        _core.Plan.parse(with_parts_measured(result.plan.text(), result.source.text()))
        if scratch
        else result.plan
    )
    subject = Subject(text, step_inputs(text, model, batch, optimizer))
    return vars(subject.account(plan, result.regions, scratch=scratch))


def rewritten_accounts(name: str) -> list[dict[str, Any]]:
    """What a zoo model takes in program order after random rewrites, promised and measured."""
    model, loss_fn, batch = zoo.build(name, batch=3)
    text = capture(model, loss_fn, batch).text
    graph = _core.Graph.parse(text)
    given = inputs_from(text, model, batch)
    found = []
    for seed in range(3):
        rewritten, taken = _core.rewrite_at_random(graph, count=20, seed=seed)
        plan = _core.Plan.program_order(rewritten)
        account = Subject(text, given).account(plan, 0, scratch=False)
        found.append({"promised": account.promised, "measured": account.measured, "taken": taken})
    return found
