"""The user's optimizer in a step: its state, its settings and its hooks, around plans that make its
updates.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

from magis import _torch_internals as internals
from magis.capture.optimizers import OptimizerForm, OptimizerView, check_optimizer, numbers
from magis.errors import GuardError
from magis.runtime.model_view import ModelView

if TYPE_CHECKING:
    from magis import _core

# Added to a gradient it gives that gradient, bit for bit, whatever its sign.
_NOTHING_YET = -0.0


class InStepOptimizer:
    """Everything lives in the torch optimizer, in PyTorch's own layout, and is looked up anew at
    each call: `load_state_dict`, schedulers and eager steps in between need not be told about.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        clip_grad_norm: float | None,
        averaged: frozenset[str] = frozenset(),
    ) -> None:
        check_optimizer(optimizer, clip_grad_norm)
        self.averaged = averaged  # over several processes
        self.optimizer = optimizer
        self.clip_grad_norm = clip_grad_norm

    def view(self, model: ModelView) -> OptimizerView:
        return OptimizerView(self.optimizer, model.parameters, self.clip_grad_norm, self.averaged)

    def form(self, model: ModelView) -> OptimizerForm:
        return self.view(model).form()

    def create_state(self, paths: list[str], model: ModelView) -> None:
        """The state that the optimizer would make at its first step, where it is not there yet;
        `paths` are the graph's.
        """
        for path in paths:
            parameter_path, _, name = path.rpartition(".")
            parameter = model.parameters[parameter_path]
            state = self.optimizer.state[parameter]
            if name == "momentum_buffer" and state.get(name) is None:
                state[name] = torch.full_like(parameter, _NOTHING_YET, requires_grad=False)
            elif name == "step":  # of a fused kernel
                state.setdefault(name, torch.zeros((), device=parameter.device))
            elif name not in state:
                state.setdefault("step", torch.tensor(0.0, dtype=_scalar_dtype()))
                state[name] = torch.zeros_like(parameter, requires_grad=False)

    def state(self, paths: list[str], model: ModelView) -> dict[str, torch.Tensor]:
        """State that updates write to, by the graph's paths; made anew where it was cleared."""

        def at(path: str) -> torch.Tensor | None:
            parameter, _, name = path.rpartition(".")
            tensor: torch.Tensor | None = self.optimizer.state[model.parameters[parameter]].get(
                name
            )
            return tensor

        found = {path: at(path) for path in paths}
        if any(tensor is None for tensor in found.values()):
            self.create_state(paths, model)
            found = {path: at(path) for path in paths}
        return {path: tensor for path, tensor in found.items() if tensor is not None}

    def numbers(self, form: OptimizerForm, model: ModelView) -> dict[str, float]:
        """What the names that a plan's runtime scalars use for the optimizer's numbers stand for.

        Requires that `form` is what the optimizer's still is.
        """
        return numbers(form, self.view(model))

    def check(self, updated: list[str], model: ModelView) -> None:
        """Raises GuardError if a parameter has what an update in the step would pass over."""
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    path = next(p for p, t in model.parameters.items() if t is parameter)
                    raise GuardError(
                        f"{path} has a gradient already; with the optimizer in the step each"
                        " gradient is used up in the step. Call optimizer.zero_grad()"
                        " (set_to_none=True) first."
                    )
        for path in updated:
            parameter = model.parameters[path]
            if internals.tensor_hooks(parameter) or internals.post_accumulate_hooks(parameter):
                raise GuardError(
                    f"{path} has a gradient hook, which an update in the step would pass over."
                    " Remove the hook, or plan the step without the optimizer."
                )

    # ---- as optimizer.step() would

    def begin(self) -> None:
        """Runs the hooks before a step, whose arguments they cannot replace: it has none."""
        for hook in internals.optimizer_hooks(self.optimizer)[0]:
            hook(self.optimizer, (self.optimizer,), {})

    def finish(self) -> None:
        """Tells schedulers and hooks of a step."""
        internals.note_step(self.optimizer)
        for hook in internals.optimizer_hooks(self.optimizer)[1]:
            hook(self.optimizer, (self.optimizer,), {})

    def count(self, counted: list[str], model: ModelView) -> None:
        """Counts a step of these parameters."""
        states = [self.optimizer.state.get(model.parameters[path]) for path in counted]
        steps = [state["step"] for state in states if state and "step" in state]
        if steps:
            internals.count_steps(steps)

    # ---- eager's own

    def step_eagerly(self) -> None:
        """What a plan does, by the optimizer itself, after `backward()`; the gradients that it used
        are gone then.
        """
        if self.clip_grad_norm is not None:
            groups = self.optimizer.param_groups
            parameters = [p for group in groups for p in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, self.clip_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def tensors(self, model: ModelView) -> dict[str, torch.Tensor]:
        """All that the optimizer holds for the model's parameters, counts of steps included."""
        return {
            f"{path}.{name}": value
            for path, parameter in model.parameters.items()
            for name, value in self.optimizer.state.get(parameter, {}).items()
            if isinstance(value, torch.Tensor)
        }

    def silenced(self) -> contextlib.AbstractContextManager[None]:
        """Inside, a step runs no hooks of the optimizer, and no scheduler hears of it."""
        return internals.optimizer_silenced(self.optimizer)


def updated_parameters(graph: _core.Graph) -> list[str]:
    """Parameters that the graph updates in place, by path: outputs that are inputs."""
    names = {entry.name for entry in graph.inputs if entry.kind == "param"}
    return [o.path for o in graph.outputs if o.kind == "param" and o.name in names]


def counted_parameters(graph: _core.Graph) -> list[str]:
    """Those whose steps the graph does not count itself."""
    counting = set(written_states(graph))
    return [path for path in updated_parameters(graph) if f"{path}.step" not in counting]


def written_states(graph: _core.Graph) -> list[str]:
    return [entry.path for entry in graph.inputs if entry.kind == "state"]


def _scalar_dtype() -> torch.dtype:
    return torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
