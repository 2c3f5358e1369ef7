"""Which operators of a training step go forward, and which backward."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planners.problem import Problem
from planners.remember import remembered

FEW = 4  # operators that come of a weight's gradient, at most


@dataclass(frozen=True)
class Phases:
    """In program order each. Where the batch runs in parts, these are the operators of the loop;
    what stands before and after it is apart."""

    before: list[int]  # up to the beginning of the loop
    forward: list[int]  # what the loss, and whatever else the forward pass hands out, is made of
    # All others that have to run; weights' gradients as soon as they can be made, as autograd does.
    backward: list[int]
    # Of these, what has no gradient in it, and so may run wherever somebody reads it.
    free_to_wait: frozenset[int]
    after: list[int]  # from the end of the loop on

    @property
    def inner(self) -> list[int]:
        return self.forward + self.backward


@remembered
def phases_of(problem: Problem) -> Phases:
    operators = problem.operators
    before, inner, after = _around_loop(problem)
    within = set(inner)
    handed_out = [op for op in inner if not operators[op].backward and _hands_out(problem, op)]
    ancestors = _ancestors(problem, handed_out, within)
    if not handed_out:  # a graph without a loss
        ancestors = within
    forward = [op for op in inner if op in ancestors and not operators[op].backward]
    in_forward = set(forward)
    backward = [op for op in inner if op not in in_forward]
    carries = _carries_gradient(problem, backward)
    free = {
        op
        for op in backward
        if op not in carries and problem.recomputable[op] and not _ends_here(problem, op)
    }
    backward = _weights_at_once(problem, backward, free, in_forward)
    return Phases(before, forward, backward, frozenset(free), after)


def _weights_at_once(
    problem: Problem, backward: list[int], free: set[int], forward: set[int]
) -> list[int]:
    """What uses a tensor of the forward pass and leads to nothing but an output comes as soon as
    its gradient is there."""
    within = set(backward)
    ends = {
        op
        for op in backward
        if op not in free
        and any(problem.producer[t] in forward | free for t in problem.reads[op])
        and _leads_to_few(problem, op)
    }
    order: list[int] = []
    done: set[int] = set()

    def is_ready(op: int) -> bool:
        return all(p in done or p not in within or p in free for p in problem.predecessors[op])

    waiting = [op for op in backward if op in ends]
    for op in backward:
        if op in done:
            continue
        for earlier in [e for e in waiting if e < op and e not in done]:
            order.append(earlier)
            done.add(earlier)
        order.append(op)
        done.add(op)
        ready = [e for e in waiting if e not in done and is_ready(e)]
        order += ready
        done.update(ready)
        waiting = [e for e in waiting if e not in done]
    return order


def _carries_gradient(problem: Problem, backward: list[int]) -> set[int]:
    """What comes of the operator from which most of the backward pass comes: the loss' own
    gradient."""
    within = set(backward)
    descendants: dict[int, int] = {}  # as bits
    for op in reversed(backward):
        found = 1 << op
        for tensor in problem.makes[op]:
            for reader in problem.readers[tensor]:
                found |= descendants.get(reader, 0)
        descendants[op] = found
    if not within:
        return set()
    first = max(backward, key=lambda op: (descendants[op].bit_count(), -op))
    return {op for op in within if descendants[first] >> op & 1}


def _leads_to_few(problem: Problem, op: int) -> bool:
    found = {op}
    waiting = [op]
    while waiting:
        for tensor in problem.makes[waiting.pop()]:
            new = [reader for reader in problem.readers[tensor] if reader not in found]
            found.update(new)
            waiting += new
        if len(found) > FEW:
            return False
    return True


def _around_loop(problem: Problem) -> tuple[list[int], list[int], list[int]]:
    """Operators before, in and after the loop with most operators; without loops all are in it."""
    operators = problem.operators
    everything = list(range(len(operators)))
    sizes: dict[str, int] = {}
    for op in operators:
        if op.loop:
            sizes[op.loop] = sizes.get(op.loop, 0) + 1
    if not sizes:
        return [], everything, []
    loop = max(sizes, key=lambda name: sizes[name])
    bounds = [op for op in everything if operators[op].bounds == loop]
    inside = [op for op in everything if operators[op].loop == loop]
    return everything[: bounds[0] + 1], inside, everything[bounds[1] :]


def _hands_out(problem: Problem, op: int) -> bool:
    """It makes an output, or, in a loop, puts a part in its place."""
    return any(problem.is_output[t] for t in problem.makes[op]) or not problem.makes[op]


def _ends_here(problem: Problem, op: int) -> bool:
    return any(problem.is_output[t] or not problem.readers[t] for t in problem.makes[op])


def _ancestors(problem: Problem, roots: Iterable[int], within: set[int]) -> set[int]:
    found = set(roots)
    waiting = list(found)
    while waiting:
        for tensor in problem.reads[waiting.pop()]:
            source = problem.producer[tensor]
            if source in within and source not in found:
                found.add(source)
                waiting.append(source)
    return found
