"""Bytes and lifetimes of a program, as the core counts them, for planners that ask all the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planners.problem import Problem, Step


@dataclass(frozen=True)
class Profile:
    moments: list[int]  # bytes during each step, inputs not counted
    live_after: list[int]

    @property
    def peak(self) -> int:
        return max(self.moments, default=0)


def last_uses(problem: Problem, steps: Sequence[Step]) -> tuple[list[int], list[list[int]]]:
    """Copies are numbered in the order in which they are made. Returns the last step that names
    each copy (-1: an output's first, which stays), and the copies that each step names: operands,
    then what it makes."""
    current: dict[int, int] = {}
    last: list[int] = []
    stays: list[bool] = []
    named: list[list[int]] = []
    made_once: set[int] = set()
    for position, (kind, subject) in enumerate(steps):
        if kind == "run":
            names = [current[t] for t in problem.reads[subject] if t in current]
            made = problem.makes[subject]
        else:
            names = [] if kind == "load" else [current[subject]]
            made = [subject] if kind == "load" else []
        for tensor in made:
            current[tensor] = len(last)
            names.append(len(last))
            last.append(position)
            stays.append(problem.is_output[tensor] and tensor not in made_once)
            made_once.add(tensor)
        for copy in names:
            last[copy] = position
        named.append(names)
    return [-1 if stay else at for at, stay in zip(last, stays, strict=True)], named


def profile(problem: Problem, steps: Sequence[Step]) -> Profile:
    """Equal to the byte to what the core counts. O(steps)."""
    last, named = last_uses(problem, steps)
    size = copy_bytes(problem, steps)
    live = 0
    moments, after = [], []
    for position, (kind, subject) in enumerate(steps):
        names = named[position]
        scratch, over = 0, None
        if kind == "run":
            operator = problem.operators[subject]
            made = len(problem.makes[subject])
            operands = [t for t in problem.reads[subject] if problem.producer[t] >= 0]
            copies = dict(zip(operands, names, strict=False))
            scratch = operator.scratch
            for place in operator.in_place:
                copy = copies.get(problem.reads[subject][place])
                if copy is not None and last[copy] == position:
                    over = copy
                    break
            makes = names[len(names) - made :]
            live += sum(size[c] for c in makes)
            if over is not None:
                live -= size[makes[0]]  # it takes over the operand's storage
        elif kind == "load":
            live += size[names[0]]
        moments.append(live + scratch)
        live -= sum(size[c] for c in set(names) if last[c] == position and c != over)
        after.append(live)
    return Profile(moments, after)


def copy_bytes(problem: Problem, steps: Sequence[Step]) -> list[int]:
    sizes: list[int] = []
    for kind, subject in steps:
        if kind == "run":
            sizes += [problem.bytes[t] for t in problem.makes[subject]]
        elif kind == "load":
            sizes.append(problem.bytes[subject])
    return sizes


def without_dead_runs(problem: Problem, steps: Sequence[Step]) -> list[Step]:
    """Without runs for a second time whose results nobody reads."""
    kept: list[Step] = []
    needed: set[int] = set()  # tensors that a later step reads, of the copy that is current here
    first = first_runs(steps)
    for position in range(len(steps) - 1, -1, -1):
        kind, subject = step = steps[position]
        if kind == "run":
            makes = problem.makes[subject]
            if first[subject] != position and not needed.intersection(makes):
                continue
            needed.difference_update(makes)
            needed.update(problem.reads[subject])
        elif kind == "load":
            needed.discard(subject)
        else:
            needed.add(subject)
        kept.append(step)
    return kept[::-1]


def first_runs(steps: Sequence[Step]) -> dict[int, int]:
    first: dict[int, int] = {}
    for position, (kind, subject) in enumerate(steps):
        if kind == "run":
            first.setdefault(subject, position)
    return first
