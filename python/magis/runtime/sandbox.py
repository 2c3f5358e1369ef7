"""Running a step, eager or planned, so that nothing of it remains: for comparing the two from the
same state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from magis import _torch_internals as internals
from magis.capture.isolate import restored_generators, restored_modules
from magis.runtime.model_view import ModelView


@contextlib.contextmanager
def sandbox(view: ModelView) -> Iterator[None]:
    """While the block runs gradients are set aside (they are None) and gradient hooks are silent.

    At its end parameters' gradients and hooks, what the modules hold (buffers with their values,
    attributes), and the random generators of PyTorch, Python and NumPy are as they were on entry.
    The values of parameters are not looked after: a step does not change them.
    """
    with (
        restored_modules(view.model),
        restored_generators(),
        _restored_buffers(view),
        _without_gradients(view),
    ):
        yield


@contextlib.contextmanager
def _restored_buffers(view: ModelView) -> Iterator[None]:
    saved = [(buffer, buffer.detach().clone()) for buffer in view.buffers().values()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in saved:
                if not same_bits(buffer, value):
                    buffer.copy_(value)


@contextlib.contextmanager
def _without_gradients(view: ModelView) -> Iterator[None]:
    saved = [(parameter, parameter.grad) for parameter in view.parameters.values()]
    silenced = []
    for parameter, _ in saved:
        parameter.grad = None
        for hooks in (
            internals.tensor_hooks(parameter),
            internals.post_accumulate_hooks(parameter),
        ):
            silenced.append((hooks, dict(hooks)))
            hooks.clear()
    try:
        yield
    finally:
        for parameter, grad in saved:
            parameter.grad = grad
        for hooks, registered in silenced:
            hooks.update(registered)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one dtype and shape hold the same bits: 0.0 is not -0.0, nan may be
    nan.
    """
    return bool(torch.equal(_bits(a), _bits(b)))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
