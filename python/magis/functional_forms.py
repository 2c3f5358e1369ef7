"""Users' operators that write to their operands, as operators that return what they wrote.

For `mylib::op(Tensor(a!) x, Tensor y) -> ()` that is `mylib::op_functional(Tensor x, Tensor y) ->
Tensor`, which runs `op` on a copy of `x` laid out as `x` is, and returns the copy. PyTorch's own
names for such pairs are made in the same way (`normal_functional`). It is defined where it is first
asked for: when a step is captured, or when a plan that has it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from magis import _torch_internals as internals
from magis._torch_internals import OpOverload
from magis.errors import CaptureError

_aten = torch.ops.aten
_SUFFIX = "_functional"
_PYTORCHS = ("aten", "prims", "prim", "magis")
_ALIAS = re.compile(r"\([a-z]\w*!?(?: -> \*)?\)")  # of "Tensor(a0!) x"

_libraries: dict[str, torch.library.Library] = {}


def writes_unseen(func: OpOverload) -> bool:
    """Whether functionalisation does not know what the operator is without its writing."""
    return (
        func._schema.is_mutable
        and func.namespace not in _PYTORCHS
        and not internals.functionalises_itself(func)
    )


def written(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[torch.Tensor]:
    """The operands that a call writes to, in the order of the schema."""
    for value in _written(func, args, kwargs):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                yield item


def _written(func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    for position, argument in enumerate(func._schema.arguments):
        if _is_write(argument):
            yield args[position] if position < len(args) else kwargs.get(argument.name)


def run_functionally(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], place: str
) -> Any:
    """What `func` returns, after what it writes was written to its operands by `aten.copy_`.

    Raises CaptureError, naming `place`, for an operator that writes to a list of tensors.
    """
    targets = list(_written(func, args, kwargs))
    if any(isinstance(target, (list, tuple)) for target in targets):
        raise CaptureError(
            f"{place}: the operator {func} writes to a list of tensors, whose number no operator's"
            " schema tells. Let it write to tensors that are arguments of their own, or return"
            " what it makes in place of writing (mutates_args=())."
        )
    results = functional_form(func)(*args, **kwargs)
    flat = list(results) if isinstance(results, (list, tuple)) else [results]
    own = flat[: len(flat) - len(targets)]
    for target, copy in zip(targets, flat[len(own) :], strict=True):
        if target is not None:
            _aten.copy_.default(target, copy)
    by_alias = {_alias(a): t for a, t in zip(_writes(func), targets, strict=True)}
    made = iter(own)
    returned = [
        by_alias[_alias(result)] if _is_write(result) else next(made)
        for result in func._schema.returns
    ]
    return tuple(returned) if len(returned) > 1 else next(iter(returned), None)


def functional_form(func: OpOverload) -> OpOverload:
    """Defined, if it is not yet."""
    namespace, _, name = func._schema.name.partition("::")
    known = getattr(getattr(torch.ops, namespace), name + _SUFFIX, None)
    overload = func._schema.overload_name or "default"
    if known is None or overload not in known.overloads():
        _define(func, namespace, name)
        known = getattr(getattr(torch.ops, namespace), name + _SUFFIX)
    form: OpOverload = getattr(known, overload)
    return form


def find_functional_form(namespace: str, operator: str, overload: str) -> OpOverload | None:
    """The form that `<namespace>.<operator>.<overload>` names, if the user's operator is there."""
    packet = getattr(getattr(torch.ops, namespace), operator.removesuffix(_SUFFIX), None)
    if not operator.endswith(_SUFFIX) or packet is None or overload not in packet.overloads():
        return None
    return functional_form(getattr(packet, overload))


def _define(func: OpOverload, namespace: str, name: str) -> None:
    if namespace not in _libraries:
        _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
    library = _libraries[namespace]
    overload = func._schema.overload_name
    own = name + _SUFFIX + (f".{overload}" if overload else "")
    _, _, rest = str(func._schema).partition("(")
    parameters, _, returns = rest.rpartition(") -> ")
    words = (returns[1:-1] if returns.startswith("(") else returns).split(", ")
    made = [word for word in words if word and not _ALIAS.search(word)]
    made += ["Tensor"] * len(_writes(func))
    seeded = torch.Tag.nondeterministic_seeded
    library.define(
        f"{own}({_ALIAS.sub('', parameters)}) -> ({', '.join(made)})",
        tags=tuple({seeded} & set(func.tags)),
    )

    run = _on_copies(func)
    library.impl(own, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{namespace}::{own}", run, lib=library)


def _on_copies(func: OpOverload) -> Callable[..., Any]:
    names = [argument.name for argument in func._schema.arguments]

    def run(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        copies = {a.name: _copy(given.get(a.name)) for a in _writes(func)}
        for name, copy in copies.items():
            if given.get(name) is not None:
                given[name] = copy
        results = func(**given)
        flat = results if isinstance(results, (list, tuple)) else [results]
        returns = zip(flat, func._schema.returns, strict=False)
        made = (*(r for r, declared in returns if not _is_write(declared)), *copies.values())
        return made if len(made) > 1 else made[0]

    return run


def _copy(target: torch.Tensor | None) -> torch.Tensor:
    """In the layout of `target`, gaps included; something empty for an operand left out."""
    if target is None:
        return torch.empty(0)
    return torch.empty_strided(
        target.shape, target.stride(), dtype=target.dtype, device=target.device
    ).copy_(target)


def _writes(func: OpOverload) -> list[Any]:
    return [argument for argument in func._schema.arguments if _is_write(argument)]


def _is_write(item: Any) -> bool:
    """Of an argument or a result of a schema."""
    return item.alias_info is not None and item.alias_info.is_write


def _alias(item: Any) -> frozenset[str]:
    return frozenset(item.alias_info.before_set)
