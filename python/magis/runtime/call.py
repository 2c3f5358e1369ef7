"""One call of a planned step: the plan runs, then everything it leaves is put in place at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from magis import _torch_internals as internals
from magis.capture.operators import averaged_by
from magis.errors import TornStep
from magis.runtime.averaging import Averaging
from magis.runtime.compiled import CompiledPlan
from magis.runtime.generator import GeneratorState
from magis.runtime.gradients import (
    Deposit,
    Slot,
    deposit,
    run_post_accumulate_hooks,
    run_tensor_hooks,
)
from magis.runtime.interrupts import DeferredInterrupt
from magis.runtime.model_view import ModelView

if TYPE_CHECKING:
    from magis.runtime.planned import PlannedStep


class Call:
    """One call: the plan runs, then everything it leaves behind is put in place at once."""

    def __init__(
        self,
        step: PlannedStep,
        plan: CompiledPlan,
        view: ModelView,
        leaves: Sequence[Any],
        gradients: list[tuple[Slot, torch.Tensor, Deposit]],
        averaging: Averaging | None = None,
    ) -> None:
        self.step = step
        self.plan = plan
        self.view = view
        self.leaves = leaves
        self.gradients = gradients
        self.averaging = averaging
        self.committed = False

    def run(self) -> Any:
        accumulated = {
            slot.path: target.grad
            for slot, target, way in self.gradients
            if way is Deposit.accumulate
        }
        optimizer = self.step.optimizer
        gradients = Versions(accumulated)
        parameters = Versions({path: self.view.parameters[path] for path in self.step.updated})
        inputs = self.step.inputs(self.plan, self.view, self.leaves, accumulated)
        generators = GeneratorState([self.step.device]) if self.plan.draws_random_numbers else None
        # Half an update is worse than a Ctrl-C that waits for the step's end.
        waiting = contextlib.nullcontext() if optimizer is None else DeferredInterrupt()
        try:
            with waiting:
                with plain_modes(self.step.device.type), self._averaged():
                    outputs = self.plan(inputs)
                    self.step.check(self.plan, outputs)
                result = self._leave(outputs, inputs)
        except BaseException as error:
            if self.committed:
                raise
            with DeferredInterrupt():
                self.plan.settle()
                release_frames(error, self.plan.file_name)
                if generators is not None:
                    generators.restore()
            if updated := parameters.changed():
                raise torn_update(error, updated, len(self.step.updated)) from error
            if touched := gradients.changed():
                raise torn_step(error, touched, len(self.gradients)) from error
            raise
        if optimizer is not None:
            optimizer.finish()
        return result

    @contextlib.contextmanager
    def _averaged(self) -> Iterator[None]:
        """Inside, gradients are averaged over all processes as soon as they are final."""
        if self.averaging is None:
            yield
            return
        if not self.step.capture.checks:  # such a step may yet be abandoned
            self.averaging.expect(
                {
                    slot.path
                    for slot, target, way in self.gradients
                    if way in {Deposit.take, Deposit.accumulate}
                    and not internals.post_accumulate_hooks(target)
                }
            )
        with averaged_by(self.averaging), self.plan.telling(self.averaging.final):
            yield

    def _leave(self, outputs: Sequence[torch.Tensor], inputs: Sequence[Any]) -> Any:
        result = self.step.rebuild(self.plan, outputs, self.leaves)
        values = {
            output.path: value
            for output, value in zip(self.plan.outputs, outputs, strict=True)
            if output.kind == "grad"
        }
        with torch.no_grad():
            state = self._new_state(outputs, inputs)
            for slot, target, way in self.gradients:
                if way is Deposit.hook:
                    values[slot.path] = run_tensor_hooks(slot, target, values[slot.path])
            with DeferredInterrupt():
                self._commit(state, values)
                self.committed = True
            run_post_accumulate_hooks(
                target for _, target, way in self.gradients if way is not Deposit.propagate
            )
        self._propagate(values)
        return result

    def _new_state(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[Any]
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Buffers (and parameters that the forward pass writes to) with their new values. What the
        optimizer updates is in place already.

        No value shares storage with an input.
        """
        places = {"buffer": self.view.buffers(), "param": self.view.parameters}
        found = [
            (places[output.kind][output.path], value)
            for output, value in zip(self.plan.outputs, outputs, strict=True)
            if output.kind in places and output.path not in self.step.updated
        ]
        if not found:
            return found
        # A step may leave one buffer's old value in another; copying one after the other would
        # lose it.
        old = {
            tensor.untyped_storage().data_ptr()
            for tensor in inputs
            if isinstance(tensor, torch.Tensor)
        }
        return [
            (place, value.clone() if value.untyped_storage().data_ptr() in old else value)
            for place, value in found
        ]

    def _commit(
        self,
        state: list[tuple[torch.Tensor, torch.Tensor]],
        gradients: dict[str, torch.Tensor],
    ) -> None:
        for place, value in state:
            place.copy_(value)
        if self.step.optimizer is not None:
            self.step.optimizer.count(self.step.counted, self.view)
        for slot, target, way in self.gradients:
            if way in {Deposit.take, Deposit.add, Deposit.hook}:
                deposit(target, gradients[slot.path])

    def _propagate(self, gradients: dict[str, torch.Tensor]) -> None:
        """Computed batch tensors hand their gradients on to what they were computed from."""
        computed = [
            (target, gradients[slot.path])
            for slot, target, way in self.gradients
            if way is Deposit.propagate
        ]
        if computed:
            tensors, incoming = zip(*computed, strict=True)
            torch.autograd.backward(tensors, incoming)


@contextlib.contextmanager
def plain_modes(device_type: str) -> Iterator[None]:
    """No autograd, no autocast: what a plan needs was written into it at capture."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(outside_inference_mode())  # gradients must be ordinary tensors
        stack.enter_context(torch.no_grad())
        stack.enter_context(without_autocast(device_type))
        yield


def outside_inference_mode() -> contextlib.AbstractContextManager[object]:
    """Ends the caller's inference mode for a while; otherwise leaves the modes as they are."""
    ordinary: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if torch.is_inference_mode_enabled():
        ordinary = torch.inference_mode(False)
    return ordinary


@contextlib.contextmanager
def without_autocast(device_type: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for device in {"cpu", device_type}:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


def release_frames(error: BaseException, file_name: str) -> None:
    """Lets go of the tensors in a failed step's frames, which the traceback would keep alive."""
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file_name:
            traceback.tb_frame.clear()
        traceback = traceback.tb_next


class Versions:
    """Tensors by path, and how often each had been written to when this was made."""

    def __init__(self, tensors: Mapping[str, torch.Tensor | None]) -> None:
        self._tensors = {path: tensor for path, tensor in tensors.items() if tensor is not None}
        self._versions = [internals.version(tensor) for tensor in self._tensors.values()]

    def changed(self) -> list[str]:
        pairs = zip(self._tensors.items(), self._versions, strict=True)
        return [path for (path, t), version in pairs if internals.version(t) != version]


def torn_update(error: BaseException, updated: list[str], count: int) -> TornStep:
    return TornStep(
        f"the step was broken off by {type(error).__name__} after updates had begun, of "
        f"{_some(updated)} "
        f"({len(updated)} of {count}) and their state; go back to a checkpoint. Other "
        "parameters, buffers and the random generator are as before.",
        updated,
    )


def torn_step(error: BaseException, touched: list[str], count: int) -> TornStep:
    return TornStep(
        f"the step was broken off by {type(error).__name__} after it had added into the gradients "
        f"of {_some(touched)} "
        f"({len(touched)} of {count}); zero the gradients before the next step. "
        "Parameters, buffers and the random generator are as before.",
        touched,
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
