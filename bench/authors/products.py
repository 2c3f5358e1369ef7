"""Einsums of the authors' graphs as mm and bmm on views.

Heads are the difficulty. A projection [n, t, c] x [c, h, d] is one mm of [n t, c], whose result has
its heads beside each other, [n, t, h, d]; attention wants them apart, [n h, t, d], and no view
shows the one as the other. So projections that attention reads multiply sample by sample, with the
weight expanded over the batch and from the left: W^T x^T is [n, h d, t], which is [n h, d, t]. What
attention makes is laid out like that too, and is projected back sample by sample. Only the weights'
gradients, sums over n and t at once, need copies.
"""

from __future__ import annotations

import math

from arrays import Array
from writer import ConversionError, Graph, Node

APART = [0, 2, 1, 3]  # [n, t, h, d] to [n, h, t, d], and back


def matmul(graph: Graph, node: Node) -> list[Array]:
    """C[..., m, n] = A[..., m, k] B[..., k, n]; trans_a, trans_b and trans_c swap the last two
    dimensions of A, B and C."""
    left, right = factors(graph, node, len(node.shape) - 2, 1)
    return [graph.reshape(product(graph, node, left, right), node.shape)]


def flex_matmul(graph: Graph, node: Node) -> list[Array]:
    """The same where m, n and k are any number of dimensions each."""
    attrs = node.attrs
    if attrs.get("activation") is not None:
        raise ConversionError(f"node {node.id}: flex_matmul with an activation")
    batch, summed = attrs["n_batch_dims"], attrs["n_reduce_dims"]
    plain = batch == 0 and not attrs["trans_a"] and not attrs["trans_c"]
    array = graph.operand(node, 0)
    if plain and len(array.shape) - summed == 2:
        rows = (math.prod(array.shape[:2]), math.prod(array.shape[2:]))
        if is_taken_apart(graph, node) or array.viewed(rows) is None:
            return [sample_by_sample(graph, node, summed)]
    left, right = factors(graph, node, batch, summed)
    return [graph.reshape(product(graph, node, left, right), node.shape)]


def is_taken_apart(graph: Graph, node: Node) -> bool:
    readers = graph.readers[node.id]
    return bool(readers) and all(
        reader.kind == "permute" and reader.attrs["dims"] == APART for reader in readers
    )


def sample_by_sample(graph: Graph, node: Node, summed: int) -> Array:
    samples, rows, *inner = graph.operand(node, 0).shape
    left = graph.reshape(graph.operand(node, 0), (samples, rows, math.prod(inner)))
    weight = matrix(graph, graph.operand(node, 1), 0, summed, not node.attrs["trans_b"], right=True)
    right = graph.expand(weight, samples)
    if not is_taken_apart(graph, node):
        return graph.reshape(product(graph, node, left, right), node.shape)
    swapped = graph.product(transpose(graph, right), transpose(graph, left), f"mm_{node.id}")
    kept = node.shape[2:]
    last = len(kept) + 1
    return graph.permute(graph.reshape(swapped, (samples, *kept, rows)), (0, last, *range(1, last)))


def factors(graph: Graph, node: Node, batch: int, summed: int) -> tuple[Array, Array]:
    """[m, k] and [k, n] with m, n and k one dimension each, or the same for each of a batch."""
    trans_a, trans_b, trans_c = (node.attrs[f"trans_{x}"] for x in "abc")
    left, right = graph.operands(node)
    left = matrix(graph, left, batch, summed, not trans_a)
    right = matrix(graph, right, batch, summed, not trans_b, right=True)
    return (transpose(graph, right), transpose(graph, left)) if trans_c else (left, right)


def product(graph: Graph, node: Node, left: Array, right: Array) -> Array:
    name = f"mm_{node.id}"
    if len(left.shape) == 3 and is_taken_apart(graph, node):
        swapped = graph.product(transpose(graph, right), transpose(graph, left), name)
        return transpose(graph, swapped)
    return graph.product(left, right, name)


def matrix(
    graph: Graph, array: Array, batch: int, summed: int, rows_first: bool, right: bool = False
) -> Array:
    """A factor as [batch, rows, columns], whose dimensions stand in this order or, if not
    `rows_first`, with the columns before the rows. The summed dimensions are a left factor's
    columns, a right one's rows."""
    rest = array.shape[batch:]
    rows = summed if right else len(rest) - summed
    first = rows if rows_first else len(rest) - rows
    groups = (math.prod(rest[:first]), math.prod(rest[first:]))
    shape = (math.prod(array.shape[:batch]), *groups) if batch else groups
    folded = graph.reshape(array, shape)
    return folded if rows_first else transpose(graph, folded)


def transpose(graph: Graph, array: Array) -> Array:
    last = len(array.shape) - 1
    return graph.permute(array, (*range(last - 1), last, last - 1))
