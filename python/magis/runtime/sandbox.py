"""Running a step, eager or planned, so that nothing of it remains: for comparing the two from the
same state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator

import torch

from magis import _torch_internals as internals
from magis.capture.isolate import restored_generators, restored_modules
from magis.runtime.in_step import InStepOptimizer
from magis.runtime.model_view import ModelView


@contextlib.contextmanager
def sandbox(
    view: ModelView,
    written: Iterable[str] = (),
    optimizer: InStepOptimizer | None = None,
    gradients: Collection[str] = (),
) -> Iterator[None]:
    """While the block runs gradients are set aside (they are None) and gradient hooks are silent.
    Parameters named in `gradients` have some, always the same, for steps that add into them.

    At its end parameters' gradients and hooks, what the modules hold (buffers with their values,
    attributes), and the random generators of PyTorch, Python and NumPy are as they were on entry.
    Of the parameters' values only those named in `written` are looked after: hardly any step
    changes one without an optimizer. That optimizer's state is put back, too; its hooks are silent.
    """
    state = {} if optimizer is None else optimizer.tensors(view)
    parameters = [view.parameters[name] for name in written]
    with (
        restored_modules(view.model),
        restored_generators(),
        _restored_values([*view.buffers().values(), *parameters, *state.values()]),
        _other_gradients(view, gradients),
        contextlib.nullcontext() if optimizer is None else optimizer.silenced(),
    ):
        yield


@contextlib.contextmanager
def _restored_values(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    saved = [(tensor, tensor.detach().clone()) for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in saved:
                if not same_bits(tensor, value):
                    tensor.copy_(value)


@contextlib.contextmanager
def _other_gradients(view: ModelView, wanted: Collection[str]) -> Iterator[None]:
    saved = [(parameter, parameter.grad) for parameter in view.parameters.values()]
    silenced = []
    for name, parameter in view.parameters.items():
        parameter.grad = parameter.detach().clone() if name in wanted else None
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
    plain = tensor.detach().resolve_conj().resolve_neg()  # lazily conjugated is not stored so
    return plain.contiguous().reshape(-1).view(torch.uint8)
