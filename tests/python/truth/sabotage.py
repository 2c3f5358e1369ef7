"""Damages sound plans and sees who notices; runs in the worker of `hooked`.

Each damage is one small change of a plan's text, or of the code generated from it. Those who may
notice:

    core        the core refuses to read the plan verifier    magis.verify.verify_plan types
    magis.verify.check_types evaluator   the plan, executed statement by statement, against eager
    PyTorch: names and bits of all that a step leaves step        the generated code against eager
    PyTorch allocator   the generated code's measured peak of tensors against the promise
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from damages import SOURCE_DAMAGES, TEXT_DAMAGES, damaged
from plan_accounts import step_of
from torch import nn

from magis import _core, measure
from magis.errors import PlanError
from magis.verify import check_types, evaluate_all, inputs_from, verify_plan
from magis.verify.text import parse

PLAN = Path(__file__).parents[2] / "data" / "verify_net_plan.magis"

Left = dict[tuple[str, str], torch.Tensor]  # what a step leaves behind, by kind and path


class Net(nn.Module):
    """Dropout, train-mode batch norm, residual, biases: something of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 24), nn.Linear(24, 24)
        self.norm, self.drop, self.last = nn.BatchNorm1d(24), nn.Dropout(0.25), nn.Linear(24, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.drop(nn.functional.gelu(self.norm(self.first(x))))
        h = h - torch.tanh(self.second(h))
        out: torch.Tensor = self.last(self.drop(h))
        return out


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = ((model(x) - y) ** 2).mean()
    return loss


class Subject:
    """The step of tests/data/verify_net_plan.magis, and what eager PyTorch makes of it."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.plan = PLAN.read_text()
        self.model, self.batch = Net(), (torch.randn(16, 12), torch.randn(16, 3))
        self.model.last.weight.grad = torch.ones(3, 24)
        values = inputs_from(self.plan, self.model, self.batch)
        self.values = {name: value.detach().clone() for name, value in values.items()}
        self.expected = self._eager()

    def _eager(self) -> Left:
        torch.manual_seed(2)
        loss = loss_of(self.model, *self.batch)
        loss.backward()
        left = {("loss", ""): loss.detach()}
        left |= {("grad", path): p.grad for path, p in self.model.named_parameters()}
        return left | {("buffer", path): b for path, b in self.model.named_buffers()}

    def left(self, plan: str, outputs: list[torch.Tensor], inputs: dict[str, Any]) -> Left:
        document = parse(plan)
        left = {(o.kind, o.path): value for o, value in zip(document.outputs, outputs, strict=True)}
        return left | {
            (i.kind, i.path): inputs[i.name] for i in document.inputs if i.kind == "grad"
        }

    def is_expected(self, left: Left) -> bool:
        same_names = left.keys() == self.expected.keys()
        return same_names and all(torch.equal(left[k], v) for k, v in self.expected.items())

    def who_notices(self, plan: str, source: str | None = None) -> list[str]:
        """source: what runs instead of the code generated from `plan`."""
        noticed = {
            "verifier": raises(PlanError, lambda: verify_plan(plan)),
            "types": raises(PlanError, lambda: check_types(plan)),
            "evaluator": not self._evaluates(plan),
            "core": raises(_core.UserError, lambda: _core.Plan.parse(plan).verify()),
        }
        if not noticed["core"]:
            sound = _core.Plan.parse(plan)
            promised = sound.simulate("cpu").transient_peak_bytes
            noticed |= self._runs(plan, source or sound.source(), promised)
        return [name for name, notices in noticed.items() if notices]

    def _evaluates(self, plan: str) -> bool:
        try:
            end = evaluate_all(plan, self.values, dtype=None, seed=2)
        except PlanError:
            return False
        return self.is_expected(self.left(plan, end.outputs, end.inputs))

    def _runs(self, plan: str, source: str, promised: int) -> dict[str, bool]:
        log = measure.KernelLog()
        step = step_of(source, log)
        inputs = {name: value.clone() for name, value in self.values.items()}
        ordered = [inputs[i.name] for i in parse(plan).inputs]

        def call() -> Any:
            torch.manual_seed(2)
            with torch.no_grad():
                return step(ordered)

        try:
            measured = measure.measure_kernels(call, log)
        except Exception:
            return {"step": True}
        left = self.left(plan, measured.result, inputs)
        return {
            "step": not self.is_expected(left),
            "allocator": measured.tensor_peak_bytes != promised,
        }


def raises(kind: type[Exception], call: Callable[[], object]) -> bool:
    try:
        call()
    except kind:
        return True
    return False


def who_notices_what() -> dict[str, list[str]]:
    """Of every damage, and of none ("")."""
    subject = Subject()
    source = _core.Plan.parse(subject.plan).source()
    noticed = {"": subject.who_notices(subject.plan)}
    for what, damage in TEXT_DAMAGES.items():
        noticed[what] = subject.who_notices(damaged(subject.plan, damage))
    for what, damage in SOURCE_DAMAGES.items():
        noticed[what] = subject.who_notices(subject.plan, damaged(source, damage))
    return noticed
