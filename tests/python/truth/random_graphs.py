"""Random graphs over the operator table, written in the text language as they are computed.

Every operator is called on real tensors while the graph grows: its recorded type is what came out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from axes_cases import all_cases
from axes_support import Case, argument_text
from torch import Tensor

from magis.verify.document import VIEW_OPERATORS, Type
from magis.verify.kernels import find_operator
from magis.verify.tensors import describe

LARGEST = 4096  # elements of a value


@dataclass(frozen=True, eq=False)
class Value:
    name: str
    tensor: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)


@dataclass
class RandomGraph:
    text: str
    inputs: dict[str, Tensor]


@dataclass
class Writer:
    """A graph as text, and its values as tensors."""

    lines: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    inputs: dict[str, Tensor] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    read: set[str] = field(default_factory=set)

    def input(self, tensor: Tensor, kind: str = "batch") -> Value:
        value = Value(f"in{len(self.inputs)}", tensor.detach().clone())
        self.inputs[value.name] = value.tensor
        self.lines.append(f'{kind} %{value.name} "{value.name}" : {describe(value.tensor)}')
        return value

    def call(self, operator: str, *args: Any, **kwargs: Any) -> list[Value]:
        """Results that are tensors; `Value`s among the arguments, in lists too, are operands."""
        given = [_replaced(arg, lambda v: v.tensor) for arg in args]
        named = {key: _replaced(arg, lambda v: v.tensor) for key, arg in kwargs.items()}
        made = find_operator(operator)(*given, **named)
        results = list(made) if isinstance(made, tuple | list) else [made]
        names = [f"v{len(self.statements)}_{i}" for i in range(len(results))]
        words = [argument_text(_replaced(arg, self._reading)) for arg in args]
        words += [
            f"{key}={argument_text(_replaced(arg, self._reading))}" for key, arg in kwargs.items()
        ]
        types = [_type(r, operator in VIEW_OPERATORS) for r in results]
        left = ", ".join("%" + name for name in names)
        self.statements.append(f"{left} = {operator}({', '.join(words)}) : {', '.join(types)}")
        values = [Value(n, r) for n, r in zip(names, results, strict=True) if isinstance(r, Tensor)]
        self.values += values
        return values

    def one(self, operator: str, *args: Any, **kwargs: Any) -> Value:
        return self.call(operator, *args, **kwargs)[0]

    def _reading(self, value: Value) -> str:
        self.read.add(value.name)
        return f"%{value.name}"

    def finish(self, also: list[Value]) -> RandomGraph:
        """What nobody reads is an output, and so are the values `also`."""
        wanted = [v for v in self.values if v.name not in self.read or v in also]
        outputs = [f'output aux "{value.name}" %{value.name}' for value in wanted]
        lines = ["magis 1", "device cpu", *self.lines, *self.statements, *outputs]
        return RandomGraph("\n".join(lines) + "\n", self.inputs)


def _type(result: Any, is_view: bool) -> str:
    """A kernel owns what its result needs: some return a part of what they worked in."""
    if not isinstance(result, Tensor):
        return "none"
    found = describe(result)
    if not is_view:
        storage = Type.minimal_storage(found.dtype, found.shape, found.strides, 0)
        found = replace(found, offset=0, storage=storage)
    return str(found)


def _replaced(arg: Any, change: Callable[[Value], Any]) -> Any:
    if isinstance(arg, Value):
        return change(arg)
    return [_replaced(item, change) for item in arg] if isinstance(arg, list) else arg


class Generator:
    """Grows one graph: `steps` are tried in turn, those that find no operand do nothing."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.noise = torch.Generator().manual_seed(seed)
        self.graph = Writer()
        self.batch = self.rng.choice((3, 4, 5, 6))

    def generate(self) -> RandomGraph:
        for _ in range(self.rng.choice((1, 2))):
            self._start()
        for _ in range(self.rng.randrange(6, 22)):
            self.rng.choice(STEPS)(self)
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            self.embed(self.rng.choice(CASES))
        inner = [v for v in self.graph.values if self.rng.random() < 0.06]
        return self.graph.finish(inner)

    def _start(self) -> None:
        rank = self.rng.choice((2, 2, 3, 3, 4))
        shape = [self.batch, *(self.rng.choice((2, 3, 4, 6)) for _ in range(rank - 1))]
        self.graph.one("aten.tanh", self.new(shape))

    # ---- operands

    def new(self, shape: list[int], kind: str = "batch") -> Value:
        return self.graph.input(torch.randn(shape, generator=self.noise), kind)

    def old(
        self, least: int = 1, most: int = 4, dtype: torch.dtype = torch.float32
    ) -> Value | None:
        """A value of so many dimensions; the latest are likeliest."""
        found = [
            v
            for v in self.graph.values
            if least <= v.tensor.dim() <= most
            and v.tensor.dtype == dtype
            and 0 < v.tensor.numel() <= LARGEST
        ]
        return self.rng.choice(found[-6:] if self.rng.random() < 0.7 else found) if found else None

    def same_shape(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Value:
        found = [v for v in self.graph.values if v.shape == shape and v.tensor.dtype == dtype]
        return self.rng.choice(found) if found and self.rng.random() < 0.7 else self.new([*shape])

    def dim(self, value: Value) -> int:
        dim = self.rng.randrange(value.tensor.dim())
        return dim if self.rng.random() < 0.5 else dim - value.tensor.dim()

    def dims(self, value: Value) -> list[int]:
        rank = value.tensor.dim()
        return sorted(self.rng.sample(range(rank), self.rng.randrange(1, rank + 1)))

    # ---- whole table

    def embed(self, case: Case) -> None:
        """A call from the table's tests on the values that it needs, made in this graph."""

        def operand(arg: Any) -> Any:
            if isinstance(arg, Tensor):
                value = self.graph.input(arg)
                if arg.dtype == torch.float64 and self.rng.random() < 0.8:
                    return self.graph.one("aten.mul.Scalar", value, 1.0)
                return value
            return [operand(item) for item in arg] if isinstance(arg, list) else arg

        kwargs = {key: operand(arg) for key, arg in case.kwargs.items()}
        for result in self.graph.call(case.operator, *map(operand, case.args), **kwargs):
            if result.tensor.dtype == torch.float64 and self.rng.random() < 0.7:
                doubled = self.graph.one("aten.mul.Scalar", result, 2.0)
                if doubled.tensor.dim() and self.rng.random() < 0.5:
                    self.graph.one("aten.sum.dim_IntList", doubled, self.dims(doubled), True)


# Steps that grow a graph. Magnitudes stay tame, so that sums in another order differ by rounding.
Step = Callable[[Generator], object]


def pointwise(g: Generator) -> None:
    names = ["tanh", "sigmoid", "relu", "neg", "abs", "sin", "gelu", "silu", "square", "softplus"]
    if x := g.old(0):
        if g.rng.random() < 0.3:
            g.graph.one(g.rng.choice(("aten.mul.Scalar", "aten.add.Scalar")), x, 0.5)
        else:
            g.graph.one(f"aten.{g.rng.choice(names)}", x)


def broadcasting(g: Generator) -> None:
    names = ("add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum", "atan2")
    if x := g.old():
        shape = [n if g.rng.random() < 0.7 else 1 for n in x.shape]
        shape = shape[g.rng.randrange(len(shape)) :] if g.rng.random() < 0.3 else shape
        other = g.same_shape(tuple(shape))
        args = (x, other) if g.rng.random() < 0.5 else (other, x)
        g.graph.one(f"aten.{g.rng.choice(names)}", *args)


def backward(g: Generator) -> None:
    """Gradients that a pointwise operator's backward makes of a value and what it reads."""
    if x := g.old():
        grad = g.same_shape(x.shape)
        name = g.rng.choice(("tanh", "sigmoid", "gelu", "silu", "threshold"))
        extra = [0] if name == "threshold" else []
        g.graph.one(f"aten.{name}_backward", grad, x, *extra)


def comparison(g: Generator) -> None:
    if x := g.old():
        mask = g.graph.one(f"aten.{g.rng.choice(('gt', 'le'))}.Scalar", x, 0.1)
        kind = g.rng.randrange(4)
        if kind == 0:
            g.graph.one("aten.where.self", mask, x, g.same_shape(x.shape))
        elif kind == 1:
            g.graph.one("aten.masked_fill.Scalar", x, mask, -1.0)
        elif kind == 2:
            g.graph.one(g.rng.choice(("aten.any.dim", "aten.all.dim")), mask, g.dim(x), True)
        else:
            count = g.graph.one("aten.sum.dim_IntList", mask, g.dims(mask))
            g.graph.one("aten.mul.Scalar", count, 3)


def product(g: Generator) -> None:
    if x := g.old(2, 3):
        columns = g.rng.choice((2, 3, 5))
        if x.tensor.dim() == 2:
            w = g.new([x.shape[1], columns], "param")
            if g.rng.random() < 0.3:
                w = g.graph.one("aten.permute", g.new([columns, x.shape[1]], "param"), [1, 0])
            if g.rng.random() < 0.6:
                g.graph.one("aten.mm", x, w)
            else:
                bias = g.new(g.rng.choice(([columns], [x.shape[0], columns], [1, columns])))
                g.graph.one("aten.addmm", bias, x, w)
        else:
            other = g.same_shape((x.shape[0], x.shape[2], columns))
            if g.rng.random() < 0.7:
                g.graph.one("aten.bmm", x, other)
            else:
                bias = g.new([x.shape[0], x.shape[1], columns])
                g.graph.one("aten.baddbmm", bias, x, other)


def weight_gradient(g: Generator) -> None:
    """x^T y, a sum over rows."""
    if x := g.old(2, 3):
        y = g.same_shape((*x.shape[:-1], g.rng.choice((2, 4))))
        order = [1, 0] if x.tensor.dim() == 2 else [0, 2, 1]
        transposed = g.graph.one("aten.permute", x, order)
        g.graph.one("aten.mm" if len(order) == 2 else "aten.bmm", transposed, y)


def reduction(g: Generator) -> None:
    if x := g.old():
        kind, keep = g.rng.randrange(8), g.rng.random() < 0.5
        if kind < 3:
            g.graph.one(g.rng.choice(("aten.sum.dim_IntList", "aten.mean.dim")), x, g.dims(x), keep)
        elif kind == 3:
            g.graph.one(g.rng.choice(("aten.amax", "aten.amin", "aten.logsumexp")), x, g.dims(x))
        elif kind == 4:
            g.graph.one(g.rng.choice(("aten.sum", "aten.mean")), x)
        elif kind == 5:
            g.graph.one("aten.prod.dim_int", x, g.dim(x), keep)
        elif kind == 6:
            g.graph.call("aten.max.dim", x, g.dim(x), keep)
        else:
            g.graph.call("aten.var_mean.correction", x, g.dims(x), correction=0, keepdim=keep)


def softmax(g: Generator) -> None:
    if x := g.old():
        dim = g.dim(x)
        name = g.rng.choice(("_softmax", "_log_softmax"))
        y = g.graph.one(f"aten.{name}", x, dim, False)
        if g.rng.random() < 0.4:
            grad = g.same_shape(x.shape)
            g.graph.one(f"aten.{name}_backward_data", grad, y, dim, torch.float32)


def layer_norm(g: Generator) -> None:
    if (x := g.old(2)) and x.shape[-1] > 1:
        w, b = g.new([x.shape[-1]], "param"), g.new([x.shape[-1]], "param")
        _, mean, rstd = g.graph.call("aten.native_layer_norm", x, [x.shape[-1]], w, b, 1e-3)
        if g.rng.random() < 0.5:
            args = (g.same_shape(x.shape), x, [x.shape[-1]], mean, rstd, w, b, [True, True, True])
            g.graph.call("aten.native_layer_norm_backward", *args)


def view(g: Generator) -> None:
    if x := g.old():
        rank = x.tensor.dim()
        kind = g.rng.randrange(8)
        if kind == 0:
            g.graph.one("aten.permute", x, g.rng.sample(range(rank), rank))
        elif kind == 1:
            g.graph.one("aten.unsqueeze", x, g.rng.randrange(-rank - 1, rank + 1))
        elif kind == 2:
            g.graph.one("aten.squeeze.dim", x, g.dim(x))
        elif kind == 3:
            dim = g.dim(x)
            start = g.rng.randrange(x.shape[dim])
            end = g.rng.randrange(start + 1, x.shape[dim] + 1)
            g.graph.one("aten.slice.Tensor", x, dim, start, end, g.rng.choice((1, 1, 2)))
        elif kind == 4 and rank > 1:
            dim = g.dim(x)
            g.graph.one("aten.select.int", x, dim, g.rng.randrange(x.shape[dim]))
        elif kind == 5:
            wider = g.graph.one("aten.unsqueeze", x, g.rng.randrange(rank + 1))
            sizes = [n if n > 1 or g.rng.random() < 0.3 else 3 for n in wider.shape]
            g.graph.one("aten.expand", wider, sizes)
        else:
            reshape(g, x)


def reshape(g: Generator, x: Value) -> None:
    """Merges two neighbouring dimensions or takes one apart, with a copy where it takes one."""
    shape = [*x.shape]
    at = g.rng.randrange(len(shape))
    if at + 1 < len(shape) and g.rng.random() < 0.6:
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    elif shape[at] in (4, 6):
        first = g.rng.choice((2, shape[at] // 2))
        shape[at : at + 1] = [first, shape[at] // first]
    try:
        x.tensor.view(shape)
    except RuntimeError:
        x = g.graph.one("aten.clone", x, memory_format=torch.contiguous_format)
    g.graph.one("aten.view", x, shape)


def movers(g: Generator) -> None:
    if x := g.old():
        dim = g.dim(x)
        kind = g.rng.randrange(5)
        if kind == 0:
            g.graph.one("aten.cat", [x, g.same_shape(x.shape)], dim)
        elif kind == 1:
            g.graph.one("aten.constant_pad_nd", x, [1, 0], 0.5)
        elif kind == 2:
            index = torch.randint(x.shape[dim], (4,), generator=g.noise)
            g.graph.one("aten.index_select", x, dim, g.graph.input(index))
        elif kind == 3:
            index = torch.randint(x.shape[dim], x.shape, generator=g.noise)
            g.graph.one("aten.gather", x, dim, g.graph.input(index))
        else:
            whole = [*x.shape]
            whole[dim] += 3
            args = (x, whole, dim, 1, 1 + x.shape[dim], 1)
            g.graph.one("aten.slice_backward", *args)


def embedding(g: Generator) -> None:
    index = torch.randint(7, (g.batch, g.rng.choice((2, 4))), generator=g.noise)
    tokens, table = g.graph.input(index), g.new([7, 4], "param")
    rows = g.graph.one("aten.embedding", table, tokens)
    if g.rng.random() < 0.5:
        grad = g.same_shape(rows.shape)
        g.graph.one("aten.embedding_dense_backward", grad, tokens, 7, -1, False)


def loss(g: Generator) -> None:
    if not (x := g.old(2)):
        return
    if g.rng.random() < 0.5:
        name = g.rng.choice(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"))
        target, reduction = g.same_shape(x.shape), g.rng.choice((1, 1, 2))
        g.graph.one(f"aten.{name}", x, target, reduction)
        if name == "mse_loss":
            g.graph.one("aten.mse_loss_backward", g.new([]), x, target, reduction)
    elif x.tensor.dim() == 2:
        scores = g.graph.one("aten._log_softmax", x, 1, False)
        labels = torch.randint(x.shape[1], (x.shape[0],), generator=g.noise)
        labels[0] = -100
        target, kind = g.graph.input(labels), g.rng.choice((1, 1, 2))
        _, weight = g.graph.call("aten.nll_loss_forward", scores, target, None, kind, -100)
        args = (g.new([]), scores, target, None, kind, -100, weight)
        grad = g.graph.one("aten.nll_loss_backward", *args)
        g.graph.one("aten._log_softmax_backward_data", grad, scores, 1, torch.float32)


def dropout(g: Generator) -> None:
    if x := g.old(2):
        shape = [*x.shape]
        if shape[-1] == 4 and g.rng.random() < 0.7:  # masks of 8 in a row are kept as bits
            x = g.graph.one("aten.cat", [x, x], -1)
            shape = [*x.shape]
        strides = [*torch.empty(shape).stride()]
        mask = g.graph.one("magis.bernoulli", shape, strides, 0.75, dtype=torch.float32)
        scaled = g.graph.one("aten.div.Scalar", mask, 0.75)
        g.graph.one("aten.mul.Tensor", x, scaled)


def half(g: Generator) -> None:
    if x := g.old():
        word = g.rng.choice((torch.float16, torch.bfloat16))
        y = g.graph.one("aten._to_copy", x, dtype=word)
        y = g.graph.one("aten.tanh", y) if g.rng.random() < 0.5 else y
        if g.rng.random() < 0.7:
            y = g.graph.one("aten.sum.dim_IntList", y, g.dims(y), True)
        g.graph.one("aten._to_copy", y, dtype=torch.float32)


def integers(g: Generator) -> None:
    shape = [g.batch, g.rng.choice((3, 4))]
    x = g.graph.input(torch.randint(9, shape, generator=g.noise))
    y = g.graph.one("aten.add.Scalar", x, 2)
    y = g.graph.one("aten.mul.Tensor", y, x)
    g.graph.one("aten.amax", y, g.dims(y))
    if g.rng.random() < 0.5:
        g.graph.one("aten._to_copy", y, dtype=torch.float32)


STEPS: list[Step] = (
    [pointwise] * 4 + [broadcasting] * 3 + [product] * 3 + [reduction] * 3 + [view] * 5
) + [backward, comparison, weight_gradient, weight_gradient, softmax, layer_norm, movers, movers]
STEPS += [embedding, loss, dropout, half, integers]

# Not the random ones, which no region holds, and those whose results mean nothing.
CASES = [
    case
    for case in all_cases()
    if case.compared and case.operator not in VIEW_OPERATORS and case.device == "cpu"
]


def random_graph(seed: int) -> RandomGraph:
    return Generator(seed).generate()
