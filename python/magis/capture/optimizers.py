"""Which optimizers can stand in a step, and what of them shapes its graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from magis.errors import CaptureError

Rule = Literal["sgd", "adam"]
Decay = Literal["none", "coupled", "decoupled"]

Unlike = tuple[Any, ...]  # name, dtype, shape, strides, device

# Exact classes: a subclass may step otherwise.
_RULES: dict[type[torch.optim.Optimizer], Rule] = {
    torch.optim.SGD: "sgd",
    torch.optim.Adam: "adam",
    torch.optim.AdamW: "adam",
}

OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]] = {
    kind.__name__.lower(): kind for kind in _RULES
}

_HALF = (torch.float16, torch.bfloat16)

WITHOUT = "Or leave `optimizer` out, and call optimizer.step() after the step."


@dataclass(frozen=True)
class GroupForm:
    """What of a parameter group shapes the graph. Its numbers do not: they are runtime scalars."""

    rule: Rule
    decay: Decay
    momentum: bool = False
    nesterov: bool = False
    fused: bool = False  # one kernel for each parameter

    @property
    def state(self) -> tuple[str, ...]:
        """Names of the tensors of a parameter's size that the optimizer keeps for it."""
        if self.rule == "adam":
            return ("exp_avg", "exp_avg_sq")
        return ("momentum_buffer",) if self.momentum else ()

    @property
    def counts_itself(self) -> bool:
        """Whether the update counts its steps: a fused kernel reads them from a tensor."""
        return self.fused and self.rule == "adam"


@dataclass(frozen=True)
class Update:
    """One parameter that the optimizer updates."""

    path: str
    group: int
    # Parameters of a group that have made equally many steps share one; they go on together.
    cohort: int
    unlike: tuple[Unlike, ...] = ()  # state whose layout is not the parameter's


@dataclass(frozen=True)
class OptimizerForm:
    """All that a graph with the optimizer's updates takes for granted about the optimizer."""

    name: str
    groups: tuple[GroupForm, ...]
    updates: tuple[Update, ...]
    clip_grad_norm: float | None = None


class OptimizerView:
    """A torch optimizer as a step sees it: parameters by the model's names, settings, state.

    `averaged` names parameters whose gradients are averaged over several processes before they are
    used. Nothing is changed. Raises CaptureError for what cannot stand in a step.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        named_parameters: Mapping[str, nn.Parameter],
        clip_grad_norm: float | None = None,
        averaged: frozenset[str] = frozenset(),
    ) -> None:
        check_optimizer(optimizer, clip_grad_norm)
        self.averaged = averaged
        self.optimizer = optimizer
        self.clip_grad_norm = clip_grad_norm
        self.parameters: dict[str, nn.Parameter] = {}  # by path, in the optimizer's order
        paths = {id(parameter): path for path, parameter in named_parameters.items()}
        for number, group in enumerate(optimizer.param_groups):
            for position, parameter in enumerate(group["params"]):
                path = paths.get(id(parameter))
                if path is None:
                    raise CaptureError(
                        f"parameter {position} of the optimizer's group {number},"
                        f" {parameter.dtype} {tuple(parameter.shape)}, is none of the model's: is"
                        " it another model's optimizer, or was the parameter replaced? Make the"
                        f" optimizer from model.parameters(). {WITHOUT}"
                    )
                if parameter.is_complex():
                    raise CaptureError(
                        f"the parameter {path} is complex, which an optimizer in the step cannot"
                        f" update. {WITHOUT}"
                    )
                self.parameters[path] = parameter

    @property
    def name(self) -> str:
        return type(self.optimizer).__name__

    def form(self, updated: Collection[str] | None = None) -> OptimizerForm:
        """As it is now; of these parameters' updates alone, if they are named."""
        paths = iter(self.parameters)
        groups = []
        updates = []
        cohorts: dict[tuple[int, float], int] = {}
        for number, group in enumerate(self.optimizer.param_groups):
            form = _group_form(number, group, _RULES[type(self.optimizer)])
            groups.append(form)
            counts = form.rule == "adam" and not form.counts_itself
            for parameter in group["params"]:
                path = next(paths)
                if updated is not None and path not in updated:
                    continue
                if form.fused and form.momentum and parameter.dtype in _HALF:
                    # PyTorch's kernel tells the first step from others by more than its rounding.
                    raise CaptureError(
                        f"the parameter {path} has 16 bits, in which fused SGD with momentum cannot"
                        f" stand in the step: make the optimizer without fused=True. {WITHOUT}"
                    )
                # What was never updated is no cohort, unless it is about to be.
                cohort = -1
                if updated is not None or self.optimizer.state.get(parameter):
                    steps = self.steps(parameter) if counts else 0.0
                    cohort = cohorts.setdefault((number, steps), len(cohorts))
                updates.append(Update(path, number, cohort, self._unlike(parameter, form.state)))
        return OptimizerForm(self.name, tuple(groups), tuple(updates), self.clip_grad_norm)

    def steps(self, parameter: nn.Parameter) -> float:
        """How often the parameter was updated, where that counts; 0 before the first time."""
        steps = self.optimizer.state.get(parameter, {}).get("step", 0.0)
        return float(steps)

    def state(self, path: str, name: str) -> torch.Tensor:
        """The state of that name of a parameter, or one like it: only dtype, shape and strides
        count.
        """
        parameter = self.parameters[path]
        known = self.optimizer.state.get(parameter, {}).get(name)
        if isinstance(known, torch.Tensor):
            return known
        if name == "step":
            return torch.empty((), device="meta")
        return torch.empty_like(parameter, device="meta", requires_grad=False)

    def _unlike(self, parameter: nn.Parameter, names: tuple[str, ...]) -> tuple[Unlike, ...]:
        state = self.optimizer.state.get(parameter)
        if not state:
            return ()
        found = []
        for name in names:
            tensor = state.get(name)
            if tensor is not None and not _alike(tensor, parameter):
                facts = (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
                found.append((name, *facts))
        return tuple(found)


def optimizer_named(name: str, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """One of those in `OPTIMIZERS`, in either case, with PyTorch's default settings."""
    return OPTIMIZERS[name.lower()](parameters)


def check_optimizer(optimizer: torch.optim.Optimizer, clip_grad_norm: float | None) -> None:
    """Raises CaptureError for what cannot stand in a step, whatever the model."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise CaptureError(
            f"optimizer= takes a torch.optim.Optimizer, not a {type(optimizer).__name__}"
        )
    if type(optimizer) not in _RULES:
        known = ", ".join(kind.__name__ for kind in _RULES)
        raise CaptureError(
            f"{type(optimizer).__name__} cannot stand in the step; torch.optim's own {known} can."
            f" {WITHOUT}"
        )
    if clip_grad_norm is None:
        return
    number = isinstance(clip_grad_norm, (int, float)) and not isinstance(clip_grad_norm, bool)
    if not number or not 0 < clip_grad_norm < math.inf:
        raise CaptureError(f"clip_grad_norm={clip_grad_norm!r} must be a positive number")


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(
        a.shape == b.shape
        and a.dtype == b.dtype
        and a.stride() == b.stride()
        and a.device == b.device
    )


# Names under which runtime scalars read the optimizer's numbers (magis.capture.scalars).


def setting(group: int, name: str) -> str:
    return f"optimizer[{group}]['{name}']"


def step_of(cohort: int) -> str:
    """How many steps the cohort's parameters will have made after this one."""
    return f"optimizer['step'][{cohort}]"


def numbers(form: OptimizerForm, view: OptimizerView) -> dict[str, float]:
    """What all these names stand for now."""
    values: dict[str, float] = {}
    for number, group in enumerate(view.optimizer.param_groups):
        for name, value in _settings_of(group).items():
            values[setting(number, name)] = value
    for update in form.updates:
        name = step_of(update.cohort)
        if name not in values:
            values[name] = view.steps(view.parameters[update.path]) + 1.0
    return values


def _settings_of(group: Mapping[str, Any]) -> dict[str, float]:
    names = [name for name in ("lr", "weight_decay", "momentum", "eps") if name in group]
    values = {name: float(group[name]) for name in names}
    if "betas" in group:
        values["beta1"], values["beta2"] = map(float, group["betas"])
    return values


def _group_form(number: int, group: Mapping[str, Any], rule: Rule) -> GroupForm:
    for name in ("amsgrad", "maximize", "capturable", "differentiable"):
        if group.get(name):
            raise CaptureError(
                f"the optimizer's group {number} has {name}=True, which cannot stand in the step:"
                f" make the optimizer without it. {WITHOUT}"
            )
    if group.get("dampening"):
        raise CaptureError(
            f"the optimizer's group {number} has dampening={group['dampening']}, which cannot stand"
            f" in the step: make the optimizer without it. {WITHOUT}"
        )
    for name in ("lr", "weight_decay", "betas", "momentum", "eps"):
        values = group.get(name, 0.0)
        for value in values if isinstance(values, tuple) else (values,):
            if isinstance(value, torch.Tensor):
                raise CaptureError(
                    f"{name} of the optimizer's group {number} is a tensor; in the step it must be"
                    f" a number. {WITHOUT}"
                )
    decay: Decay = "none"
    if group["weight_decay"] != 0:
        decay = "decoupled" if group.get("decoupled_weight_decay") else "coupled"
    return GroupForm(
        rule,
        decay,
        momentum=group.get("momentum", 0) != 0,
        nesterov=bool(group.get("nesterov", False)),
        fused=bool(group.get("fused", False)),
    )
