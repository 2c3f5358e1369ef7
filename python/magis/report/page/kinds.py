"""What memory is for, in the few kinds that a figure can tell apart by colour."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from magis.report import memory
from magis.report.definitions import Definition
from magis.report.lifetimes import storage_of
from magis.report.timeline import Lifetime

if TYPE_CHECKING:
    from magis import _core
    from magis.report.loops import GraphLoops

PARAMETERS, OPTIMIZER, OTHER, GRADIENTS, ACTIVATIONS, BACKWARD, MASKS, WORKSPACE = range(8)
# In the order in which figures stack them.
NAMES = [
    "parameters",
    "optimizer",
    "batch, buffers, outputs",
    "gradients",
    "activations",
    "backward temporaries",
    "masks",
    "workspace",
]

_INPUTS = {"param": PARAMETERS, "state": OPTIMIZER, "grad": GRADIENTS}
_DRAWN = ("bernoulli", "dropout")  # operators that draw masks
_PACKED = ("magis.pack_bits", "magis.unpack_bits")
# Of a mask and numbers alone they make a mask: dropout scales its own.
_SCALING = ("aten.div.Scalar", "aten.mul.Scalar", "aten._to_copy", "aten.clone", *_PACKED)
_BY_ROLE = {
    memory.GRADIENT: GRADIENTS,
    memory.ACCUMULATED: GRADIENTS,
    memory.OUTPUT: OTHER,
    memory.BACKWARD: BACKWARD,
}
UPDATE = "optimizer "  # how the source of an update's operator begins

KindOf = Callable[[Lifetime], tuple[int, str]]


def kinds_of(
    plan: _core.Plan,
    simulation: _core.Simulation,
    loops: GraphLoops,
    definitions: list[Definition],
) -> KindOf:
    """Of a lifetime its kind, and in words what it is."""
    tensors = {tensor.name: tensor for tensor in plan.graph.tensors}
    inputs = {entry.name: entry.kind for entry in plan.graph.inputs}
    role_of = memory.roles(plan, simulation, loops)
    masks = _masks(definitions, tensors)
    gradients = _updating(plan.graph, definitions, tensors)

    def kind(lifetime: Lifetime) -> tuple[int, str]:
        tensor = lifetime.tensor
        if tensor.is_input:
            entry = inputs.get(tensor.name, "")
            return _INPUTS.get(entry, OTHER), memory.PERSISTENT_KINDS.get(entry, entry)
        role = role_of(lifetime)
        if tensor.name in masks:
            return MASKS, f"mask, {role}"
        if tensor.name in gradients:
            return GRADIENTS, memory.GRADIENT
        if tensor.source.startswith(UPDATE):
            return OPTIMIZER, "temporary of the optimizer"
        if role in (memory.ACCUMULATED, memory.CONCATENATED):
            backward = loops.results[tensor.name].backward
            if not backward:
                return ACTIVATIONS, role
            return GRADIENTS if role == memory.ACCUMULATED else BACKWARD, role
        return _BY_ROLE.get(role, ACTIVATIONS), role

    return kind


def _masks(definitions: list[Definition], tensors: dict[str, _core.TensorInfo]) -> set[str]:
    masks: set[str] = set()
    for found in definitions:
        drawn = any(word in found.operator for word in _DRAWN) and "backward" not in found.operator
        for name, kind in zip(found.results, found.types, strict=False):
            first_of_dropout = "dropout" in found.operator and name == found.results[0]
            flags = kind.startswith("bool[") and name in tensors
            scaled = (
                found.operator in _SCALING and found.operands[:1] and found.operands[0] in masks
            )
            if (drawn and not first_of_dropout) or flags or scaled:
                masks.add(name)
    return masks


def _updating(
    graph: _core.Graph, definitions: list[Definition], tensors: dict[str, _core.TensorInfo]
) -> set[str]:
    """Gradients that updates of the step's own optimizer read."""
    updates = [found for found in definitions if found.source.startswith(UPDATE)]
    if not updates:
        return set()
    storage = storage_of(graph)
    read: set[str] = set()
    for update in updates:
        for operand in update.operands:
            owner = tensors.get(storage(operand))
            if owner is not None and not owner.is_input and not owner.source.startswith(UPDATE):
                read.add(owner.name)
    return read
