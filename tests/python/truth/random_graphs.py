"""Random graphs over the operator table. Magnitudes stay tame, so that sums in another order differ
by rounding."""

import torch
from graph_generator import Generator, RandomGraph, Step, Value


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
                bias = g.same_shape(g.rng.choice(((columns,), (x.shape[0], columns), (1, columns))))
                g.graph.one("aten.addmm", bias, x, w, **scales(g))
        else:
            other = g.same_shape((x.shape[0], x.shape[2], columns))
            if g.rng.random() < 0.7:
                g.graph.one("aten.bmm", x, other)
            else:
                bias = g.same_shape((x.shape[0], x.shape[1], columns))
                g.graph.one("aten.baddbmm", bias, x, other, **scales(g))


def scales(g: Generator) -> dict[str, float]:
    """Of what a product is added to, and of the product."""
    words = {"beta": g.rng.choice((1, 0.5, 0)), "alpha": g.rng.choice((1, 2, 0.25))}
    return {word: scale for word, scale in words.items() if g.rng.random() < 0.3}


def convolution(g: Generator) -> None:
    """Its bias is added to a sum over the channels."""
    if (x := g.old(3, 4)) and min(x.shape) > 1:
        image, transposed, channels = x.tensor.dim() - 2, g.rng.random() < 0.3, g.rng.choice((2, 4))
        size = g.rng.choice((1, 2))
        pair = (x.shape[1], channels) if transposed else (channels, x.shape[1])
        weight = g.new([*pair, *[size] * image], "param")
        bias = g.new([channels], "param") if g.rng.random() < 0.7 else None
        args = ([1] * image, [0] * image, [1] * image, transposed, [0] * image, 1)
        y = g.graph.one("aten.convolution", x, weight, bias, *args)
        if g.rng.random() < 0.4:
            grad = g.same_shape(y.shape)
            sizes = None if bias is None else [channels]
            mask = [True, True, bias is not None]
            g.graph.call("aten.convolution_backward", grad, x, weight, sizes, *args, mask)


def rows_added(g: Generator) -> None:
    """Rows added to what is there, some to the same place."""
    if x := g.old(2):
        dim, kind = g.dim(x), g.rng.randrange(3)
        count = x.shape[dim]
        shape = [*x.shape]
        shape[dim] = 3
        into = g.same_shape(tuple(shape))
        if kind == 0:
            index = g.graph.input(torch.randint(3, (count,), generator=g.noise))
            g.graph.one("aten.index_add", into, dim, index, x, alpha=g.rng.choice((1, 2)))
        elif kind == 1:
            index = g.graph.input(torch.randint(3, x.shape, generator=g.noise))
            g.graph.one("aten.scatter_add", into, dim, index, x)
        else:
            index = g.graph.input(torch.randint(3, (x.shape[0],), generator=g.noise))
            into = g.same_shape((3, *x.shape[1:]))
            g.graph.one("aten.index_put", into, [index], x, True)


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


def balanced(g: Generator, gradient: Value) -> None:
    """Of a norm or a softmax: sums of it are zero but for rounding, which is not to be compared.
    Nobody reads it as it is."""
    g.graph.one("aten.sigmoid", gradient)
    g.graph.values.remove(gradient)


def softmax(g: Generator) -> None:
    if x := g.old():
        dim = g.dim(x)
        name = g.rng.choice(("_softmax", "_log_softmax"))
        y = g.graph.one(f"aten.{name}", x, dim, False)
        if g.rng.random() < 0.4:
            grad = g.same_shape(x.shape)
            balanced(g, g.graph.one(f"aten.{name}_backward_data", grad, y, dim, torch.float32))


def layer_norm(g: Generator) -> None:
    if (x := g.old(2)) and x.shape[-1] > 1:
        w, b = g.new([x.shape[-1]], "param"), g.new([x.shape[-1]], "param")
        _, mean, rstd = g.graph.call("aten.native_layer_norm", x, [x.shape[-1]], w, b, 1e-3)
        if g.rng.random() < 0.5:
            args = (g.same_shape(x.shape), x, [x.shape[-1]], mean, rstd, w, b, [True, True, True])
            balanced(g, g.graph.call("aten.native_layer_norm_backward", *args)[0])


def group_norm(g: Generator) -> None:
    if (x := g.old(3, 4)) and x.shape[1] in (4, 6) and x.tensor.is_contiguous():
        n, c, places = x.shape[0], x.shape[1], x.tensor[0, 0].numel()
        w, b = g.new([c], "param"), g.new([c], "param")
        _, mean, rstd = g.graph.call("aten.native_group_norm", x, w, b, n, c, places, 2, 1e-3)
        grad = g.new([*x.shape])
        args = (grad, x, mean, rstd, w, n, c, places, 2, [True, True, True])
        balanced(g, g.graph.call("aten.native_group_norm_backward", *args)[0])


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
        balanced(g, g.graph.one("aten._log_softmax_backward_data", grad, scores, 1, torch.float32))


def dropout(g: Generator) -> None:
    if x := g.old(2):
        shape = [*x.shape]
        if shape[-1] == 4 and g.rng.random() < 0.7:  # masks of 8 in a row are kept as bits
            x = g.graph.one("aten.cat", [x, x], -1)
            shape = [*x.shape]
        if g.rng.random() < 0.3:  # as CUDA graphs have it: drawn and applied at once
            y, drawn = g.graph.call("aten.native_dropout", x, 0.15, True)
            g.graph.one("aten.native_dropout_backward", y, drawn, 1 / 0.85)
            return
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
STEPS += [embedding, loss, dropout, half, integers, convolution, rows_added, group_norm]


def random_graph(seed: int) -> RandomGraph:
    return Generator(seed).generate(STEPS)
