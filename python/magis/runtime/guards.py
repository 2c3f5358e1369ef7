"""What a plan takes for granted, as a key to look plans up by, and differences between keys in
words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from magis.capture.optimizers import OptimizerForm
from magis.errors import MagisError
from magis.runtime.model_view import ModelFacts, TensorFacts, tensor_facts


class AnyFloat:
    """Stands for every float in a batch: floats are given at run time and are not guarded."""


Leaf = TensorFacts | type[AnyFloat] | tuple[type, Any]


class Globals(NamedTuple):
    """State of PyTorch outside the model that decides which kernels run."""

    autocast: tuple[tuple[str, bool, torch.dtype], ...]
    deterministic: tuple[bool, bool]
    matmul_precision: str
    attention_kernels: tuple[bool, ...]
    cudnn: tuple[bool, ...]
    threads: int  # the scratch of CPU kernels depends on it

    @classmethod
    def now(cls, device_type: str) -> Globals:
        on_cuda = device_type == "cuda"
        devices = ("cpu", "cuda") if on_cuda else ("cpu",)
        cuda = torch.backends.cuda
        cudnn = torch.backends.cudnn
        return cls(
            tuple(
                (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
                for device in devices
            ),
            (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            ),
            torch.get_float32_matmul_precision(),
            (
                cuda.flash_sdp_enabled(),
                cuda.mem_efficient_sdp_enabled(),
                cuda.math_sdp_enabled(),
                cuda.cudnn_sdp_enabled(),
            ),
            (cudnn.enabled, cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32)
            if on_cuda
            else (),
            0 if on_cuda else torch.get_num_threads(),
        )


_GLOBAL_WORDS = {
    "autocast": "autocast",
    "deterministic": "deterministic algorithms (on, warn only)",
    "matmul_precision": "float32 matmul precision",
    "attention_kernels": "attention kernels (flash, efficient, math, cudnn)",
    "cudnn": "cudnn (enabled, deterministic, benchmark, tf32)",
    "threads": "number of threads",
}


@dataclass(frozen=True)
class Key:
    """Everything that must be equal for a plan to be used."""

    spec: pytree.TreeSpec
    leaves: tuple[Leaf, ...]
    model: ModelFacts
    globals: Globals
    optimizer: OptimizerForm | None = None


def describe_leaf(leaf: Any) -> Leaf:
    """What is guarded about one leaf of a batch. Raises MagisError if it can neither vary nor be
    compared.
    """
    if isinstance(leaf, torch.Tensor):
        return tensor_facts(leaf)
    if isinstance(leaf, float):
        return AnyFloat
    try:
        hash(leaf)
    except TypeError:
        raise MagisError(
            f"the batch holds a {type(leaf).__name__}, which can neither vary nor be compared "
            "cheaply; "
            "pass a tensor, a float, or something hashable"
        ) from None
    return type(leaf), leaf


def leaf_paths(batch: Any) -> list[str]:
    """The path of each leaf in the pytree `batch`, such as "['input_ids']" or "[0]"."""
    return [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(batch)[0]]


def leaf_words(path: str) -> str:
    """A leaf's path as a user would name it: "['x']" is x, "[0]" is batch[0]."""
    if path.startswith("['") and path.endswith("']") and path.count("[") == 1:
        return path[2:-2]
    return f"batch{path}"


def difference(planned: Key, given: Key, paths: list[str]) -> str:
    """The first difference between two unequal keys, in words: "x: shape [8, 128] planned, [5, 128]
    given".

    `paths` are those of the planned batch's leaves.
    """
    if planned.spec != given.spec:
        return f"the batch's structure: {planned.spec} planned, {given.spec} given"
    for path, before, now in zip(paths, planned.leaves, given.leaves, strict=True):
        if before != now:
            return f"{leaf_words(path)}: {_leaf_difference(before, now)}"
    return (
        _model_difference(planned.model, given.model)
        or _optimizer_difference(planned.optimizer, given.optimizer)
        or _globals_difference(planned.globals, given.globals)
    )


def _leaf_difference(planned: Leaf, given: Leaf) -> str:
    if isinstance(planned, tuple) and isinstance(given, tuple) and len(planned) == len(given) == 5:
        return _tensor_difference(planned, given)
    return f"{_leaf_kind(planned)} planned, {_leaf_kind(given)} given"


def _leaf_kind(leaf: Leaf) -> str:
    if not isinstance(leaf, tuple):
        return "a float"
    if len(leaf) == 5:
        return f"a tensor of shape {list(leaf[1])}"
    return repr(leaf[1])


def _tensor_difference(planned: TensorFacts, given: TensorFacts) -> str:
    # Shape before strides: a new shape nearly always has new strides, and is what the user knows.
    for position, word in (
        (1, "shape"),
        (0, "dtype"),
        (3, "device"),
        (4, "requires_grad"),
        (2, "strides"),
    ):
        before, now = planned[position], given[position]
        if before != now:
            before, now = (list(v) if isinstance(v, tuple) else v for v in (before, now))
            return f"{word} {before} planned, {now} given"
    raise AssertionError("two different tensors have the same facts")


def _model_difference(planned: ModelFacts, given: ModelFacts) -> str | None:
    for word, before, now in (
        ("parameter", planned.parameters, given.parameters),
        ("buffer", planned.buffers, given.buffers),
    ):
        for name in [*before, *now]:
            if name not in now:
                return f"{word} {name} is gone"
            if name not in before:
                return f"{word} {name} is new"
            if before[name] != now[name]:
                return f"{word} {name}: {_tensor_difference(before[name], now[name])}"
    for name in [*planned.code, *given.code]:
        if planned.code.get(name) != given.code.get(name):
            return f"{name or 'the model'}: another module, other hooks or another forward"
    for name in [*planned.modes, *given.modes]:
        before_mode, now_mode = planned.modes.get(name), given.modes.get(name)
        if before_mode != now_mode:
            module = f"module {name}" if name else "the model"
            return f"{module}: {_mode(before_mode)} planned, {_mode(now_mode)} given"
    if planned.ties != given.ties:
        return f"tied parameters: {dict(planned.ties)} planned, {dict(given.ties)} given"
    return None


def _mode(training: bool | None) -> str:
    return "no such module" if training is None else "train mode" if training else "eval mode"


def _optimizer_difference(planned: OptimizerForm | None, given: OptimizerForm | None) -> str | None:
    if planned is None or given is None or planned == given:
        return None
    if len(planned.groups) != len(given.groups):
        return (
            f"the optimizer: {len(planned.groups)} parameter groups planned, {len(given.groups)}"
            " given"
        )
    for number, (before, now) in enumerate(zip(planned.groups, given.groups, strict=True)):
        if before != now:
            return f"the optimizer's group {number}: {before} planned, {now} given"
    if [u.path for u in planned.updates] != [u.path for u in given.updates]:
        return "the optimizer's parameters"
    if [u.cohort for u in planned.updates] != [u.cohort for u in given.updates]:
        return "the optimizer's parameters have not made equally many steps any more"
    return "the layout of the optimizer's state"


def _globals_difference(planned: Globals, given: Globals) -> str:
    for name, word in _GLOBAL_WORDS.items():
        before, now = getattr(planned, name), getattr(given, name)
        if before != now:
            return f"{word}: {before} planned, {now} given"
    return "nothing that has a name"
