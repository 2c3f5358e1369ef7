"""Incremental against full scheduling, from the C++ bench of the scheduler."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

from cells.cell import Cell, Figures
from magis.errors import MagisError

BENCH = Path(os.environ.get("MAGIS_BENCH", Path(__file__).parents[3] / "build/release/magis_bench"))


def rounds(networks: str) -> list[dict[str, Any]]:
    """One for each rewrite of a random NASNet-like network of that kind."""
    if not BENCH.exists():
        raise MagisError(f"{BENCH} is not built: make core-tools")
    command = [str(BENCH), f"--benchmark_filter=Figure14.*/{networks}/", "--benchmark_format=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MagisError(f"{BENCH.name} failed: {done.stderr.strip()[-300:]}")
    found: list[dict[str, Any]] = json.loads(done.stdout)["benchmarks"]
    return found


def compute(cell: Cell) -> Figures:
    """`variant` is forward or training."""
    of = rounds(f"training:{int(cell.variant == 'training')}")
    if not of:
        raise MagisError(f"{BENCH.name} has no rounds of {cell.variant} networks: rebuild it")
    points = [[b["ratio"], b["incremental_peak"] / b["full_peak"], b["operators"]] for b in of]
    speedups = [point[0] for point in points]
    return {
        "points": points,  # full / incremental time, incremental / full peak, operators
        "mean": statistics.mean(speedups),
        "median": statistics.median(speedups),
        "least": min(speedups),
        "most": max(speedups),
        "equal": sum(point[1] == 1 for point in points),
        "lower": sum(point[1] < 1 for point in points),
        "higher": sum(point[1] > 1 for point in points),
        "worst": max(point[1] for point in points),
    }
