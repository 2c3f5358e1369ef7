"""Runtime scalars: the path of a `scalar` input is an expression over the floats of the batch.

    ['weight']                          a float of the batch
    sub(1.0, ['weight'])                Python arithmetic that the step did on it

Arithmetic is done before the step starts; the graph only ever sees numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from magis.errors import CaptureError

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "neg": operator.neg,
    "abs": abs,
    "max": max,
    "min": min,
    "float": float,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
}


@dataclass(frozen=True)
class Scalar:
    """A number known only at run time, as an expression in the language above."""

    expression: str

    @staticmethod
    def of(value: Any) -> str:
        return value.expression if isinstance(value, Scalar) else repr(float(value))


def apply(function: Callable[..., Any], args: tuple[Any, ...]) -> Scalar:
    """The scalar that `function`, as recorded by the tracer, makes of scalars and numbers.

    Raises CaptureError for a function that has no spelling here.
    """
    name = getattr(function, "__name__", str(function)).removeprefix("_").removeprefix("sym_")
    if function is operator.pow or name == "pow_by_natural":
        name = "pow"
    if name not in _FUNCTIONS:
        raise CaptureError(
            f"the step applies {name}() to a float of the batch, which cannot be carried into the"
            " graph. Compute it outside and pass the result in the batch."
        )
    return Scalar(f"{name}({', '.join(Scalar.of(arg) for arg in args)})")


def evaluate(expression: str, values: Mapping[str, float]) -> float:
    """The number that `expression` stands for; `values` maps the batch's paths to its floats.

    Raises ValueError if the expression is malformed or names a path that is not in `values`.
    """
    result, rest = _parse(expression, values)
    if rest:
        raise ValueError(f"{rest!r} is left over after the scalar expression in {expression!r}")
    return float(result)


def _parse(text: str, values: Mapping[str, float]) -> tuple[Any, str]:
    for path in sorted(values, key=len, reverse=True):
        if text.startswith(path):
            return values[path], text[len(path) :]
    head, parenthesis, rest = text.partition("(")
    if parenthesis and head in _FUNCTIONS:
        args: list[Any] = []
        while True:
            arg, rest = _parse(rest, values)
            args.append(arg)
            if rest.startswith(", "):
                rest = rest[2:]
            elif rest.startswith(")"):
                return _FUNCTIONS[head](*args), rest[1:]
            else:
                raise ValueError(f"expected ', ' or ')' before {rest!r} in a scalar expression")
    end = min((i for i in (text.find(","), text.find(")")) if i >= 0), default=len(text))
    try:
        return float(text[:end]), text[end:]
    except ValueError:
        raise ValueError(
            f"{text[:end]!r} in a scalar expression is neither a number, a function nor one of"
            f" the batch's floats: {', '.join(values) or 'there are none'}"
        ) from None


def is_scalar_node(node: torch.fx.Node) -> bool:
    """Whether the tracer recorded a number, not a tensor, at this node."""
    return isinstance(node.meta.get("val"), (torch.SymFloat, torch.SymInt, torch.SymBool))
