"""Running a step, eager or planned, so that nothing of it remains: for comparing the two from the
same state.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch

from magis import _torch_internals as internals
from magis.runtime.generator import GeneratorState
from magis.runtime.model_view import ModelView

Hooks = dict[int, Callable[[torch.Tensor], Any]]


class Sandbox:
    """While the block runs gradients are set aside (they are None) and gradient hooks are silent.

    At its end parameters' gradients, buffers (their identity and their values),
    hooks and the random generators of PyTorch, Python and NumPy are as they were on entry.
    Parameters are not looked after: a step does not change them.
    """

    def __init__(self, view: ModelView, device: torch.device) -> None:
        self._view = view
        self._device = device
        self._targets = list(view.parameters.values())

    def __enter__(self) -> Sandbox:
        self._grads = [target.grad for target in self._targets]
        self._hooks: list[tuple[Hooks, Hooks]] = []
        for target in self._targets:
            target.grad = None
            for hooks in (internals.tensor_hooks(target), internals.post_accumulate_hooks(target)):
                if hooks:
                    self._hooks.append((hooks, dict(hooks)))
                    hooks.clear()
        self._buffers = {
            name: (buffer, buffer.detach().clone()) for name, buffer in self._view.buffers().items()
        }
        self._generators = GeneratorState([self._device])
        self._python = random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy = numpy.random.get_state() if numpy is not None else None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for target, grad in zip(self._targets, self._grads, strict=True):
            target.grad = grad
        for hooks, registered in self._hooks:
            hooks.update(registered)
        with torch.no_grad():
            for name, (buffer, value) in self._buffers.items():
                self._view.set_buffer(name, buffer)
                if not same_bits(buffer, value):
                    buffer.copy_(value)
        self._generators.restore()
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one dtype and shape hold the same bits: 0.0 is not -0.0, nan may be
    nan.
    """
    if torch.equal(a, b) and not a.dtype.is_floating_point and not a.dtype.is_complex:
        return True
    return bool(torch.equal(_bits(a), _bits(b)))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
