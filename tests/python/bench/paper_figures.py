"""Results of the evaluation that were never computed: figures of every kind of cell, made up."""

from __future__ import annotations

import random
from typing import Any

import suite
from cells import Cell, Record
from experiments import EXPERIMENTS, Results, Settings

Made = dict[str, Any]


def made_up(settings: Settings) -> tuple[Results, list[Record]]:
    """Of all that the settings ask for."""
    rng = random.Random(0)
    cells = suite.cells_of(settings, list(EXPERIMENTS))
    records = [Record(cell, str(i), figures_of(cell, rng)) for i, cell in enumerate(cells)]
    return Results(records), records


def figures_of(cell: Cell, rng: random.Random) -> Made:
    baseline = {
        "baseline_peak_bytes": 10**10,
        "baseline_seconds": 0.5,
        "baseline_moving_seconds": 0.0,
    }
    reached = {
        "memory": rng.uniform(0.1, 1),
        "time": rng.uniform(1, 1.3),
        "met": rng.random() < 0.9,
    }
    return baseline | _OF_KIND[cell.kind](rng, reached)


def _plan(_rng: random.Random, reached: Made) -> Made:
    return reached | {"note": "made up", "wall_seconds": 1.0}


def _frontier(rng: random.Random, _reached: Made) -> Made:
    memory = sorted((rng.uniform(0.05, 1) for _ in range(20)), reverse=True)
    return {"points": [{"memory": m, "time": 0.98 + 0.02 / m} for m in memory]}


def _ablation(rng: random.Random, reached: Made) -> Made:
    trace = [[0.1 * i, reached["memory"] + 0.1 / (i + 1), 1.1, i > 2] for i in range(9)]
    return reached | {"met_after": 0.3, "best_after": rng.uniform(0.3, 3), "trace": trace}


def _phases(rng: random.Random, _reached: Made) -> Made:
    names = ("transform", "schedule", "simulate", "hash", "other")
    seconds = {name: rng.uniform(0.1, 1) for name in names}
    return {"seconds": seconds, "generated": 900, "repeated": 500, "evaluated": 400}


def _timeline(_rng: random.Random, reached: Made) -> Made:
    points = [[0.005 * i, 5e9 + 5e7 * min(i, 100 - i)] for i in range(100)]
    return reached | {"persistent_bytes": 5 * 10**9, "points": points}


def _scheduling(rng: random.Random, _reached: Made) -> Made:
    points = [[rng.uniform(2, 300), 1.0, 500] for _ in range(50)]
    return {"points": points} | dict.fromkeys(
        ("mean", "median", "least", "most", "equal", "lower", "higher", "worst"), 1.0
    )


def _measured(rng: random.Random, _reached: Made) -> Made:
    ways = [
        {
            "way": way,
            "memory": rng.uniform(0.3, 1),
            "time": rng.uniform(1, 1.4),
            "promised_memory": None if way == "eager" else 0.5,
            "promised_time": None if way == "eager" else 1.1,
        }
        for way in ("eager", "accumulation, 2 parts", "magis, 60%")
    ]
    return {"words": "Made up.", "ways": ways}


_OF_KIND = {
    "plan": _plan,
    "frontier": _frontier,
    "ablation": _ablation,
    "phases": _phases,
    "timeline": _timeline,
    "scheduling": _scheduling,
    "measured": _measured,
}
