"""One call's batch: how it is passed on, and its leaves by path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from magis.capture.batch import flatten_batch, normalise_batch
from magis.errors import GuardError

Batch = tuple[Any, ...] | dict[str, Any]


@dataclass(frozen=True)
class Form:
    """How a batch is passed: so many positional arguments, or keyword arguments of these names.

    Holds no tensor: a step must not keep its example batch alive.
    """

    count: int
    keywords: tuple[str, ...] | None

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """What was passed to a step. Raises GuardError if it has another form.

        Keyword arguments may come in any order.
        """
        if self.keywords is None:
            if kwargs:
                raise GuardError(
                    f"the step takes {self.count} positional arguments, as its example batch was "
                    f"a tuple; the keyword {next(iter(kwargs))!r} was given"
                )
            return Arguments(args)
        if args:
            raise GuardError(
                f"the step takes keyword arguments ({', '.join(self.keywords)}), as its example "
                f"batch was a dict; {len(args)} positional ones were given"
            )
        if kwargs.keys() == set(self.keywords):
            kwargs = {key: kwargs[key] for key in self.keywords}
        return Arguments(kwargs)


class Arguments:
    """A batch in the form in which a loss function takes it: positional (tuple) or keyword (dict)
    arguments.
    """

    def __init__(self, batch: Any) -> None:
        self.batch: Batch = normalise_batch(batch)
        leaves, self.spec = pytree.tree_flatten(self.batch)
        self.leaves: list[Any] = leaves
        self._paths: list[str] | None = None

    @property
    def paths(self) -> list[str]:
        """The leaves' paths as capture spells them: "[0]" or "['labels'][1]"."""
        if self._paths is None:
            self._paths = [path for path, _ in flatten_batch(self.batch)[0]]
        return self._paths

    @property
    def form(self) -> Form:
        keywords = tuple(self.batch) if isinstance(self.batch, dict) else None
        return Form(len(self.batch), keywords)

    def call(self, function: Callable[..., Any], *before: Any) -> Any:
        """`function(*before, *batch)` or `function(*before, **batch)`."""
        if isinstance(self.batch, dict):
            return function(*before, **self.batch)
        return function(*before, *self.batch)

    def cut_off(self) -> Arguments:
        """The same batch without history, hooks and gradients: what flows back stops there.

        Tensors made under inference mode come as copies that autograd can save.
        """

        def cut(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            part = leaf.clone() if leaf.is_inference() else leaf
            return part.detach().requires_grad_() if leaf.requires_grad else part

        with torch.inference_mode(False):
            return self.with_leaves([cut(leaf) for leaf in self.leaves])

    def for_autograd(self) -> Arguments:
        """The same batch, with copies for tensors made under inference mode that need no gradient:
        autograd refuses to save such tensors.
        """

        def ordinary(leaf: Any) -> Any:
            refused = isinstance(leaf, torch.Tensor) and leaf.is_inference()
            return leaf.clone() if refused and not leaf.requires_grad else leaf

        with torch.inference_mode(False):
            return self.with_leaves([ordinary(leaf) for leaf in self.leaves])

    def with_leaves(self, leaves: Sequence[Any]) -> Arguments:
        """The same structure around other leaves."""
        return Arguments(pytree.tree_unflatten(list(leaves), self.spec))
