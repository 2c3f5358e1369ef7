"""Regions of a graph grown at random, one operator at a time, with the core's word on validity."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from magis import _core
from magis.verify.document import Document, Operation
from magis.verify.text import parse

Label = tuple[str, int, int]  # first result, axis, elements of it a unit


@dataclass
class Grown:
    """A valid region: its number, labels by operator, and the length of its axis in units."""

    number: int
    labels: dict[str, Label]
    length: int


class Regions:
    """A graph's operators, their axes, and who reads what, from the opened graph's text."""

    def __init__(self, text: str) -> None:
        graph = _core.Graph.parse(text)
        self.core = _core.fission_regions(graph, device="cpu", least_saving=-(2**62), limit=48)
        opened = self.core.opened()
        self.document: Document = parse(opened.text())
        kernels = [op for op in self.document.operations if not op.is_view]
        self.operators: dict[str, Operation] = {op.results[0]: op for op in kernels}
        signatures = [signature for _, signature in _core.axis_signatures(opened)]
        self.signatures = dict(zip(self.operators, signatures, strict=True))
        self.producer = {r: name for name, op in self.operators.items() for r in op.results}
        self.reads = {
            name: {self.producer[t] for t in self.document.read_tensors(op) if t in self.producer}
            for name, op in self.operators.items()
        }
        self.readers: dict[str, set[str]] = {name: set() for name in self.operators}
        for name, producers in self.reads.items():
            for producer in producers:
                self.readers[producer].add(name)

    def axes(self, name: str) -> list[int]:
        """Lengths of an operator's axes; 0: it needs that one whole."""
        signature = self.signatures[name]
        return [n if splits else 0 for n, splits in signature["axes"]] if signature else []

    def add(self, labels: dict[str, Label], length: int) -> Grown | str:
        why = self.core.add(list(labels.values()), length=length)
        return why if why is not None else Grown(len(self.core) - 1, dict(labels), length)

    def grow(self, rng: random.Random, size: int) -> Grown | None:
        """From a random axis of a random operator, by neighbours on the same axis."""
        seeds = [(n, a, k) for n in self.operators for a, k in enumerate(self.axes(n)) if k > 1]
        if not seeds:
            return None
        name, axis, length = rng.choice(seeds)
        region = self.add({name: (name, axis, 1)}, length)
        if isinstance(region, str):
            return None  # a random operator, say
        for _ in range(size):
            around = {n for o in region.labels for n in self.reads[o] | self.readers[o]}
            candidates = list(self._labels(sorted(around - region.labels.keys()), length))
            rng.shuffle(candidates)
            for label in candidates[:6]:
                wider = self.add(region.labels | {label[0]: label}, length)
                if not isinstance(wider, str):
                    region = wider
                    break
        return region

    def _labels(self, names: list[str], length: int) -> Iterator[Label]:
        for name in names:
            for axis, elements in enumerate(self.axes(name)):
                if elements and elements % length == 0:
                    yield name, axis, elements // length

    # ---- invalid ones

    def broken(self, region: Grown, rng: random.Random) -> Iterator[tuple[str, dict[str, Label]]]:
        """What cannot be split, in words, and its labels."""
        names = list(region.labels)
        for name in rng.sample(names, min(3, len(names))):
            _, axis, step = region.labels[name]
            yield (
                f"units of {name} that do not make up its axis",
                region.labels | {name: (name, axis, step + 1)},
            )
            yield f"an axis that {name} does not have", region.labels | {name: (name, 99, step)}
            rest = {n: label for n, label in region.labels.items() if n != name}
            if rest and self._leaves_and_returns(rest, name):
                yield f"left and entered again through {name}", rest
        for name, label in region.labels.items():
            for reader in sorted(self._readers_of_reduced(name, label) - region.labels.keys()):
                for added in self._labels([reader], region.length):
                    yield f"{reader} reads what {name} reduced", region.labels | {reader: added}
        for name, operation in self.operators.items():
            if operation.operator == "magis.bernoulli" and name not in region.labels:
                yield f"{name} is random", region.labels | {name: (name, 0, 1)}

    def _leaves_and_returns(self, labels: dict[str, Label], through: str) -> bool:
        return bool(self._after(through) & labels.keys()) and any(
            through in self._after(name) for name in labels
        )

    def _after(self, name: str) -> set[str]:
        found, waiting = set(), [name]
        while waiting:
            for reader in self.readers[waiting.pop()]:
                if reader not in found:
                    found.add(reader)
                    waiting.append(reader)
        return found

    def _readers_of_reduced(self, name: str, label: Label) -> set[str]:
        """Operators that read a result of which every part has a share."""
        signature: Any = self.signatures[name]
        reduced = {
            result
            for result, rows in zip(
                self.operators[name].results, signature["dependence"], strict=True
            )
            if rows and rows[label[1]] not in ("sliced", "once")
        }
        return {
            reader
            for reader in self.readers[name]
            if reduced & set(self.document.read_tensors(self.operators[reader]))
        }
