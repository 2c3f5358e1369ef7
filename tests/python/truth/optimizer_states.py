"""Steps with an optimizer inside: captured, and with inputs as in the middle of training."""

from typing import Any

from torch import Tensor, nn

from magis.capture import Capture, capture
from magis.capture.optimizers import OptimizerView, numbers, optimizer_named
from magis.capture.scalars import evaluate
from magis.verify import inputs_from, random_inputs
from magis.verify.evaluator import Value
from magis.verify.text import parse


def captured_step(model: nn.Module, loss_fn: Any, batch: Any, optimizer: str | None) -> Capture:
    """With the update of an optimizer of that name inside, if one is named."""
    named = None if optimizer is None else optimizer_named(optimizer, model.parameters())
    return capture(model, loss_fn, batch, optimizer=named)


def step_inputs(text: str, model: nn.Module, batch: Any, optimizer: str | None) -> dict[str, Value]:
    """As inputs_from gives them, with the optimizer's state and numbers."""
    if optimizer is None:
        return inputs_from(text, model, batch)
    parameters = dict(model.named_parameters())
    view = OptimizerView(optimizer_named(optimizer, parameters.values()), parameters)
    values = numbers(view.form(set(parameters)), view)
    scalars = {
        i.path: evaluate(i.path, values)
        for i in parse(text).inputs
        if i.kind == "scalar" and "optimizer" in i.path
    }
    return inputs_from(text, model, batch, state=_states(text), scalars=scalars)


def _states(text: str, *, seed: int = 0) -> dict[str, Tensor]:
    """By path: positive, as second moments are."""
    values = random_inputs(text, seed=seed)
    found = {i.path: values[i.name] for i in parse(text).inputs if i.kind == "state"}
    return {path: value for path, value in found.items() if isinstance(value, Tensor)}
