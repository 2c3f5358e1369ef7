"""Runs the model's Python code without leaving a trace on the model or on the process."""

from __future__ import annotations

import contextlib
import logging
import random
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from magis._torch_internals import plain_checkpoint


@contextlib.contextmanager
def isolated(model: nn.Module) -> Iterator[None]:
    """Inside, the model may be run on fake tensors; afterwards, everything is as it was, also after
    an exception.

    Restored: what each module holds (buffers, parameters, hooks, attributes, one level of lists,
    dicts and sets in them), and the random generators of torch, Python and NumPy.
    torch.utils.checkpoint is a plain call inside: its second forward pass would be traced with
    other random numbers, and magis decides itself what to recompute.
    """
    with (
        restored_modules(model),
        restored_generators(),
        plain_checkpoint(),
        _quiet_fake_tensors(),
        torch.inference_mode(False),
        torch.autograd.set_multithreading_enabled(False),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def swap_tensors(
    model: nn.Module, parameters: Mapping[int, torch.Tensor], buffers: Mapping[int, torch.Tensor]
) -> None:
    """Puts replacements, keyed by id() of what they replace, in place of parameters and buffers;
    ties stay ties.

    `isolated`, which must be around it, undoes it.
    """
    for module in model.modules():
        for slots, replacements in ((module._parameters, parameters), (module._buffers, buffers)):
            for name, tensor in slots.items():
                if tensor is not None:
                    slots[name] = replacements[id(tensor)]


@contextlib.contextmanager
def restored_modules(model: nn.Module) -> Iterator[None]:
    saved: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
    contents: list[tuple[Any, Any]] = []
    for module in model.modules():
        attributes = module.__dict__
        saved.append((attributes, dict(attributes)))
        contents += [
            (value, value.copy())
            for value in attributes.values()
            if isinstance(value, (list, dict, set)) and hasattr(value, "copy")
        ]
    try:
        yield
    finally:
        for attributes, before in saved:
            attributes.clear()
            attributes.update(before)
        for value, before in contents:
            if not _holds_the_same(value, before):  # some refuse to be written to
                value.clear()
                value.extend(before) if isinstance(value, list) else value.update(before)


def _holds_the_same(value: Any, before: Any) -> bool:
    """Whether a list, dict or set holds the very objects of `before`."""
    if len(value) != len(before):
        return False
    if isinstance(value, dict):
        return list(value) == list(before) and all(value[k] is before[k] for k in before)
    if isinstance(value, list):
        return all(one is other for one, other in zip(value, before, strict=True))
    return bool(value == before)


@contextlib.contextmanager
def _quiet_fake_tensors() -> Iterator[None]:
    """An operator that refuses its operands is reported by our exception, not also in the log."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


@contextlib.contextmanager
def restored_generators() -> Iterator[None]:
    python_state = random.getstate()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy is not None else None
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=list(devices)):
        try:
            yield
        finally:
            random.setstate(python_state)
            if numpy is not None:
                numpy.random.set_state(numpy_state)
