"""One captured step with its plans: chooses a plan, runs it, and leaves what backward would have
left.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from magis.capture.batch import OutputLeaf, OutputScalar
from magis.capture.scalars import evaluate
from magis.report.text import bytes_text
from magis.runtime.averaging import Averaging
from magis.runtime.call import Call
from magis.runtime.compiled import CompiledPlan
from magis.runtime.gradients import Deposit, added_to, slots_of
from magis.runtime.in_step import InStepOptimizer, counted_parameters, updated_parameters
from magis.runtime.model_view import ModelView
from magis.runtime.speculation import SpeculationFailed

if TYPE_CHECKING:
    from magis.capture import Capture

# Which gradients are present on entry is nearly always all or none. More patterns than this are not
# planned for: their gradients are added after the plan has run.
MOST_ACCUMULATING_PLANS = 4

PlanAccumulation = Callable[[frozenset[str]], CompiledPlan]


class _Table(Enum):
    """Where an input of a plan comes from."""

    parameters = auto()
    buffers = auto()
    leaves = auto()
    scalars = auto()
    constants = auto()
    gradients = auto()
    state = auto()


_TABLE_OF_KIND = {
    "param": _Table.parameters,
    "buffer": _Table.buffers,
    "batch": _Table.leaves,
    "scalar": _Table.scalars,
    "const": _Table.constants,
    "grad": _Table.gradients,
    "state": _Table.state,
}


class PlannedStep:
    """A captured step that can be run.

    `base` returns every gradient as a new tensor. A plan that adds into the gradients of given
    paths is made by `plan_accumulation` the first time it is needed.
    """

    def __init__(
        self,
        capture: Capture,
        base: CompiledPlan,
        leaf_paths: Sequence[str],
        device: torch.device,
        plan_accumulation: PlanAccumulation,
        optimizer: InStepOptimizer | None = None,
    ) -> None:
        self.capture = capture
        self.base = base
        self.device = device
        self.leaf_paths = list(leaf_paths)
        self.slots = slots_of(base.plan.graph, leaf_paths)
        self.optimizer = optimizer
        self.updated = [] if optimizer is None else updated_parameters(base.plan.graph)
        self.counted = [] if optimizer is None else counted_parameters(base.plan.graph)
        self.last = base  # the plan that ran last
        self._plan_accumulation = plan_accumulation
        self._accumulating: dict[frozenset[str], CompiledPlan] = {}
        self._sources: dict[CompiledPlan, list[tuple[_Table, Any]]] = {}

    @property
    def averaging_order(self) -> list[str]:
        """Parameters with gradients, in the order in which their averaging may begin."""
        return list(self.capture.averaged) if self.optimizer else self.base.gradient_order

    def run(
        self, view: ModelView, leaves: Sequence[Any], averaging: Averaging | None = None
    ) -> Any:
        """Runs the step on a batch whose leaves are `leaves`, and returns what the loss function
        returned, detached. `averaging`: of the processes that run it together; it goes on when this
        returns, unless the optimizer is in the step.

        Raises TornStep if it fails after some gradient was added into, or some parameter updated;
        after any other failure everything is as before.
        """
        if self.optimizer is not None:
            self.optimizer.check(self.updated, view)
        targets = [slot.target(view.parameters, leaves) for slot in self.slots]
        deposits = [slot.deposit(target) for slot, target in zip(self.slots, targets, strict=True)]
        plan = self._choose(deposits)
        self.last = plan
        gradients = list(zip(self.slots, targets, deposits, strict=True))
        return Call(self, plan, view, leaves, gradients, averaging).run()

    def plan_ahead(self, view: ModelView) -> None:
        """Makes the plan for calls that find the gradients which a call of this step leaves."""
        paths = frozenset(added_to(self.capture, self.base.plan.graph, view.parameters))
        own = [slot for slot in self.slots if slot.leaf is None]
        targets = {slot.path: slot.target(view.parameters, ()) for slot in own}
        kept = sum(t.untyped_storage().nbytes() for p, t in targets.items() if p not in paths)
        if kept:
            warnings.warn(
                f"gradients of {bytes_text(kept)} are added after the plan has run, as their "
                "parameters have hooks or the step decides by a value that it computes: from the "
                "second call on they are there beside what is promised",
                stacklevel=4,
            )
        if paths:
            self._accumulating[paths] = self._plan_accumulation(paths)

    def inputs(
        self, plan: CompiledPlan, view: ModelView, leaves: Sequence[Any], grads: dict[str, Any]
    ) -> list[Any]:
        """What `plan` takes, in its order."""
        sources = self._sources.get(plan)
        if sources is None:
            sources = self._sources[plan] = self._find_sources(plan)
        expressions = [key for table, key in sources if table is _Table.scalars]
        floats = self._floats(leaves) if expressions else {}
        state: dict[str, torch.Tensor] = {}
        if self.optimizer is not None and self.capture.optimizer is not None:
            floats |= self.optimizer.numbers(self.capture.optimizer, view)
            paths = [key for table, key in sources if table is _Table.state]
            state = self.optimizer.state(paths, view)
        tables: dict[_Table, Any] = {
            _Table.parameters: view.parameters,
            _Table.buffers: view.buffers(),
            _Table.leaves: leaves,
            _Table.scalars: {key: evaluate(key, floats) for key in expressions},
            _Table.constants: plan.constants,
            _Table.gradients: grads,
            _Table.state: state,
        }
        return [tables[table][key] for table, key in sources]

    def _find_sources(self, plan: CompiledPlan) -> list[tuple[_Table, Any]]:
        leaf = {path: i for i, path in enumerate(self.leaf_paths)}
        constants = iter(range(len(plan.constants)))
        sources: list[tuple[_Table, Any]] = []
        for entry in plan.inputs:
            table = _TABLE_OF_KIND[entry.kind]
            key: Any = entry.path
            if table is _Table.leaves:
                key = leaf[entry.path]
            elif table is _Table.constants:
                key = next(constants)
            sources.append((table, key))
        return sources

    def _choose(self, deposits: list[Deposit]) -> CompiledPlan:
        """The plan for this pattern of gradients; turns `accumulate` into `add` where there is
        none.
        """
        paths = frozenset(
            slot.path
            for slot, way in zip(self.slots, deposits, strict=True)
            if way is Deposit.accumulate
        )
        if not paths:
            return self.base
        if self.capture.checks:  # a plan that may be abandoned must not touch gradients
            deposits[:] = [Deposit.add if way is Deposit.accumulate else way for way in deposits]
            return self.base
        plan = self._accumulating.get(paths)
        if plan is None and len(self._accumulating) < MOST_ACCUMULATING_PLANS:
            plan = self._accumulating[paths] = self._plan_accumulation(paths)
        if plan is not None:
            return plan
        deposits[:] = [Deposit.add if way is Deposit.accumulate else way for way in deposits]
        return self.base

    def check(self, plan: CompiledPlan, outputs: Sequence[torch.Tensor]) -> None:
        """Raises SpeculationFailed if a predicate came out otherwise than the plan supposes."""
        if not self.capture.checks:
            return
        paths = {output.path: i for i, output in enumerate(plan.outputs) if output.kind == "aux"}
        found = torch.stack([outputs[paths[c.path]].reshape(()) for c in self.capture.checks])
        for position, (check, value) in enumerate(
            zip(self.capture.checks, found.tolist(), strict=True)
        ):
            if value != check.expected:
                raise SpeculationFailed(position, check)

    def rebuild(
        self, plan: CompiledPlan, outputs: Sequence[torch.Tensor], leaves: Sequence[Any]
    ) -> Any:
        """The loss function's result, its tensors taken from `outputs`."""
        position = {(output.kind, output.path): i for i, output in enumerate(plan.outputs)}
        results: list[Any] = []
        for leaf in self.capture.out_leaves:
            if isinstance(leaf, OutputLeaf):
                output = self.base.outputs[leaf.index]
                value = outputs[position[output.kind, output.path]]
                results.append(value.detach() if value.requires_grad else value)
            elif isinstance(leaf, OutputScalar):
                results.append(evaluate(leaf.expression, self._floats(leaves)))
            else:
                results.append(leaf.value)
        return pytree.tree_unflatten(results, self.capture.out_spec)

    def _floats(self, leaves: Sequence[Any]) -> dict[str, float]:
        pairs = zip(self.leaf_paths, leaves, strict=True)
        return {path: leaf for path, leaf in pairs if isinstance(leaf, float)}
