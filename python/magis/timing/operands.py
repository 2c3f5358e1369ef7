"""Operands that a kernel takes as long for as for those of a training step: indices within range
and spread over it, masks that keep most elements, floats that are neither zero nor denormal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from magis.verify.document import Arg, Type
from magis.verify.tensors import DTYPES

if TYPE_CHECKING:
    from magis.timing.calls import Call

# What dropout's masks and those of attention are made of.
_KEPT = 0.9
_DRAWN = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8}


def sample(
    call: Call, number: int, type_: Type, device: torch.device, generator: torch.Generator
) -> Tensor:
    """A tensor of that type, in a storage of its own, for operand `number` of `call`."""
    dtype = DTYPES[type_.dtype]
    storage = torch.empty(type_.storage, dtype=torch.uint8, device=device).untyped_storage()
    whole = torch.empty(0, dtype=dtype, device=device)
    whole.set_(storage, 0, (type_.storage // dtype.itemsize,))
    if dtype == torch.bool:
        whole.bernoulli_(_KEPT, generator=generator)
    elif dtype.is_complex:
        torch.view_as_real(whole).uniform_(0.1, 1.0, generator=generator)
    elif dtype.is_floating_point:
        _fill_floats(whole, generator)
    elif dtype in _DRAWN:
        _fill_integers(whole, call, number, type_, generator)
    else:
        whole.zero_()
    return whole.as_strided(type_.shape, type_.strides, type_.offset)


def _fill_floats(whole: Tensor, generator: torch.Generator) -> None:
    # Positive, so that logarithms, roots and reciprocals of them are ordinary numbers.
    if whole.dtype.itemsize == 1:
        drawn = torch.empty(whole.shape, device=whole.device)
        whole.copy_(drawn.uniform_(0.1, 1.0, generator=generator))
    else:
        whole.uniform_(0.1, 1.0, generator=generator)


def _fill_integers(
    whole: Tensor, call: Call, number: int, type_: Type, generator: torch.Generator
) -> None:
    bound = index_bound(call, number)
    if whole.dtype == torch.uint8 and bound is None:
        bound = 256  # bits of a mask
    if bound is None or bound < 1:
        whole.zero_()  # a valid index everywhere
    elif "max_pool" in call.operator:
        # Where the largest elements stand moves along with the windows.
        plane = max(1, type_.shape[-1] * (type_.shape[-2] if len(type_.shape) > 1 else 1))
        places = torch.arange(whole.numel(), device=whole.device) % plane
        whole.copy_(places * bound // plane)
    else:
        whole.random_(0, bound, generator=generator)


def index_bound(call: Call, number: int) -> int | None:
    """What the integers of operand `number` stay below where they are indices; None if they are
    none that we know of.
    """
    from magis.timing.calls import tensors_in

    args = call.operation.args
    for where, item, operand in tensors_in(call):
        if operand != number:
            continue
        if call.operator.startswith(("aten.index.", "aten.index_put", "aten._unsafe_index")):
            indexed = call.type_of(args[0])
            at = item if isinstance(item, int) else 0
            return indexed.shape[at] if indexed and where == 1 and at < len(indexed.shape) else None
        rule = _INDICES.get(call.operator)
        if rule is not None and where == rule[0]:
            return _bound(call, rule[1], rule[2])
    return None


def _bound(call: Call, source: int, dim: int | tuple[int]) -> int | None:
    """The length of dimension `dim` of argument `source`; a tuple holds the position of the
    argument that says which. Of an argument that is a number, itself.
    """
    args = call.operation.args
    arg: Arg = args[source] if source < len(args) else None
    if isinstance(arg, int):
        return arg
    type_ = call.type_of(arg)
    if type_ is None:
        return None
    if isinstance(dim, tuple):
        given = args[dim[0]]
        dim = given if isinstance(given, int) else 0
    if dim == _PLANE:
        return type_.shape[-1] * type_.shape[-2]
    return type_.shape[dim] if -len(type_.shape) <= dim < len(type_.shape) else None


_PLANE = 1000  # height times width

# Operator: (position of the indices, of what they index or of the bound itself, its dimension).
_INDICES: dict[str, tuple[int, int, int | tuple[int]]] = {
    "aten.embedding": (1, 0, 0),
    "aten.embedding_dense_backward": (1, 2, 0),
    "aten.gather": (2, 0, (1,)),
    "aten.gather_backward": (2, 1, (2,)),
    "aten.index_select": (2, 0, (1,)),
    "aten.index_add": (2, 0, (1,)),
    "aten.scatter.src": (2, 0, (1,)),
    "aten.scatter.value": (2, 0, (1,)),
    "aten.scatter_add": (2, 0, (1,)),
    "aten.nll_loss_forward": (1, 0, -1),
    "aten.nll_loss_backward": (2, 1, -1),
    "aten.nll_loss2d_forward": (1, 0, 1),
    "aten.nll_loss2d_backward": (2, 1, 1),
    "aten.max_pool2d_with_indices_backward": (7, 1, _PLANE),
}
