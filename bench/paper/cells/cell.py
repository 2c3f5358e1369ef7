"""One thing to be computed, and what its result depends on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import workloads

import magis._core as core
from magis.errors import MagisError

PAPER = Path(__file__).parents[1]

Figures = dict[str, Any]
"""What a cell comes to, as JSON."""


@dataclass(frozen=True)
class Limit:
    """A ratio of program order's peak or time."""

    of: str  # memory | latency
    ratio: float

    def __post_init__(self) -> None:
        if self.of not in ("memory", "latency") or not self.ratio > 0:
            raise MagisError(f'limit "{self}": memory or latency, and a positive ratio')

    def __str__(self) -> str:
        return f"{self.of} {self.ratio:g}"

    @classmethod
    def parse(cls, text: str) -> Limit:
        of, _, ratio = text.partition(" ")
        try:
            return cls(of, float(ratio))
        except ValueError:
            raise MagisError(f'limit "{text}": as in "memory 0.4" or "latency 1.1"') from None


@dataclass(frozen=True)
class Cell:
    kind: str  # in cells.compute.KINDS
    workload: str
    variant: str
    profile: str = ""
    planner: str = ""
    limit: str = ""  # a Limit
    seconds: float = 10.0  # of one core
    seed: int = 0

    def __str__(self) -> str:
        words = (self.workload, self.variant, self.profile, self.planner, self.limit)
        return " ".join([self.kind, *filter(None, words)])

    def key(self, graphs: Path) -> str:
        """Of equal results: the same graph, planner, limit and budget, by the same code."""
        facts = asdict(self) | {
            "graph": fingerprint(self.workload, self.variant, graphs) if self.on_graph else "",
            "code": code_version(),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]

    @property
    def on_graph(self) -> bool:
        return self.kind not in ("scheduling", "measured")


@cache
def fingerprint(workload: str, variant: str, graphs: Path) -> str:
    return workloads.load(workload, variant, graphs).fingerprint()


@cache
def code_version() -> str:
    """Of the core as built, the planners and what computes cells; drawing does not count."""
    digest = hashlib.sha256(Path(core.__file__).read_bytes())
    for folder in ("cells", "planners"):
        for path in sorted((PAPER / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    digest.update((PAPER / "profiles.py").read_bytes())
    return digest.hexdigest()[:16]
