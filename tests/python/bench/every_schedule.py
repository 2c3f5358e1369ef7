"""The least time of any schedule of a tiny network, by trying all of them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from network import Network


def least_seconds(network: Network, budget: int) -> float:
    """Of all schedules that run everything for the first time in program order: shortest paths
    over (what is held, how many operators have run). inf: none fits."""
    seconds = network.seconds()
    tensors = {name: 1 << i for i, name in enumerate(network.units)}
    masks = [
        (
            seconds[op.name],
            sum(tensors[read] for read in op.reads),
            sum(tensors[result] for result in op.results),
        )
        for op in network.operators
    ]
    kept = sum(tensors[name] for name in network.outputs)
    bits = [(bit, network.units[name]) for name, bit in tensors.items()]

    def size(held: int) -> int:
        return sum(units for bit, units in bits if held & bit)

    def moves(held: int, done: int) -> Iterator[tuple[float, int, int]]:
        for bit, _ in bits:
            if held & bit and not kept & bit:
                yield 0.0, held & ~bit, done
        for i, (cost, reads, makes) in enumerate(masks[: done + 1]):
            again = i < done
            if held & reads != reads or held & makes == makes or (again and makes & kept):
                continue
            # A result that is there already takes memory twice while the operator runs.
            if size(held) + size(makes) <= budget:
                yield cost, held | makes, done + (not again)

    least = {(0, 0): 0.0}
    queue = [(0.0, 0, 0)]
    while queue:
        time, held, done = heapq.heappop(queue)
        if done == len(masks):
            return time
        if time > least[held, done]:
            continue
        for cost, next_held, next_done in moves(held, done):
            state = (next_held, next_done)
            if time + cost < least.get(state, math.inf):
                least[state] = time + cost
                heapq.heappush(queue, (time + cost, *state))
    return math.inf
