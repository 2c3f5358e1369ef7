"""The model's parameters, buffers and modes by name: found once, checked before every call."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import nn

TensorFacts = tuple[torch.dtype, tuple[int, ...], tuple[int, ...], torch.device, bool]
# What a module runs: its class, a forward of its own, hooks around it.
Code = tuple[Hashable, ...]


def tensor_facts(tensor: torch.Tensor) -> TensorFacts:
    """dtype, shape, strides, device, requires_grad: all that a plan takes for granted about a
    tensor.
    """
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.device, tensor.requires_grad


def code_of(module: nn.Module) -> Code:
    return (
        type(module),
        module.__dict__.get("forward"),
        *module._forward_pre_hooks.values(),
        *module._forward_hooks.values(),
    )


class ModelView:
    """Names and places of a model's tensors as they were when the view was made.

    Walking a module tree takes longer than a small step, so the walk is done once; `is_current`
    says whether its result still holds. Parameters are known by identity. Buffers may be
    re-assigned by the forward pass and are looked up anew each time. Where a tensor has several
    names (tied weights) the first one counts, as in `named_parameters`.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.parameters: dict[str, nn.Parameter] = dict(model.named_parameters())
        self._modules = dict(model.named_modules())
        # Each (mapping, key, value) must still be so for the view to be current.
        self._links: list[tuple[dict[str, Any], str, object]] = []
        self._sizes: list[tuple[dict[str, Any], int]] = []
        self._present: list[tuple[dict[str, Any], str, bool]] = []  # buffers may be None
        self._buffers: dict[str, tuple[dict[str, Any], str]] = {}
        seen: set[int] = set()
        for prefix, module in self._modules.items():
            for table in (module._parameters, module._modules):
                self._links.extend((table, key, value) for key, value in table.items())
            for table in (module._parameters, module._modules, module._buffers):
                self._sizes.append((table, len(table)))
            for key, buffer in module._buffers.items():
                self._present.append((module._buffers, key, buffer is not None))
                if buffer is not None and id(buffer) not in seen:
                    seen.add(id(buffer))
                    name = f"{prefix}.{key}" if prefix else key
                    self._buffers[name] = (module._buffers, key)
        self._ties = tuple(
            (name, first) for name, first in self._first_names().items() if name != first
        )

    def _first_names(self) -> dict[str, str]:
        names = {id(parameter): name for name, parameter in self.parameters.items()}
        return {
            name: names[id(parameter)]
            for name, parameter in self.model.named_parameters(remove_duplicate=False)
        }

    def is_current(self) -> bool:
        """Whether modules and parameters are, by identity, those that the view was made from."""
        return (
            all(table.get(key) is value for table, key, value in self._links)
            and all(len(table) == size for table, size in self._sizes)
            and all((table.get(key) is not None) == there for table, key, there in self._present)
        )

    def buffers(self) -> dict[str, torch.Tensor]:
        """The buffers as they are now."""
        return {name: table[key] for name, (table, key) in self._buffers.items()}

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        return self._modules

    def module_of(self, path: str) -> str:
        """The module that a parameter or buffer belongs to, in words fit for a message."""
        owner, _, _ = path.rpartition(".")
        if owner not in self._modules:
            return "the model"
        kind = type(self._modules[owner]).__name__
        return f"{owner} ({kind})" if owner else f"the model ({kind})"

    def facts(self) -> ModelFacts:
        """What a plan takes for granted about the model."""
        return ModelFacts(
            {name: tensor_facts(parameter) for name, parameter in self.parameters.items()},
            {name: tensor_facts(buffer) for name, buffer in self.buffers().items()},
            {name: module.training for name, module in self._modules.items()},
            {name: code_of(module) for name, module in self._modules.items()},
            self._ties,
        )


class ModelFacts:
    """Facts about every parameter, buffer and module of a model, comparable as a whole and one by
    one.
    """

    __slots__ = ("_key", "buffers", "code", "modes", "parameters", "ties")

    def __init__(
        self,
        parameters: dict[str, TensorFacts],
        buffers: dict[str, TensorFacts],
        modes: dict[str, bool],
        code: dict[str, Code],
        ties: tuple[tuple[str, str], ...],
    ) -> None:
        self.parameters = parameters
        self.buffers = buffers
        self.modes = modes
        self.code = code
        self.ties = ties
        self._key: Hashable = (
            tuple(parameters.items()),
            tuple(buffers.items()),
            tuple(modes.items()),
            tuple(code.items()),
            ties,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelFacts) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)
