"""A plan for a graph by one of the planners of the paper's evaluation, or by all of them.

python bench/paper/plan.py GRAPH --planner dtr --memory 40%
python bench/paper/plan.py GRAPH --planner all --latency 110% --device reference --json
python bench/paper/plan.py --list

GRAPH is graph text, compressed or not: what `magis capture` writes, or a file of bench/authors.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from planners import PLANNERS, Outcome, Task

import magis._core as core
from magis.errors import LimitError, MagisError
from magis.files import write_text
from magis.limits import LatencyLimit, MemoryLimit


@dataclass(frozen=True)
class Row:
    planner: str
    outcome: Outcome
    peak_ratio: float  # of program order's, as the next
    time_ratio: float

    def record(self) -> dict[str, object]:
        outcome = self.outcome
        found = outcome.plan is not None
        return {
            "planner": self.planner,
            "found": found,
            "met": outcome.met,
            "peak_bytes": outcome.peak_bytes if found else None,
            "seconds": outcome.seconds if found else None,
            "peak_ratio": self.peak_ratio if found else None,
            "time_ratio": self.time_ratio if found else None,
            "wall_seconds": outcome.wall_seconds,
            "note": outcome.note,
        }

    def line(self) -> str:
        outcome = self.outcome
        figures = "".join(f"{'-':>{width}}" for width in (9, 8, 10, 8))
        if outcome.plan is not None:
            figures = (
                f"{outcome.peak_bytes / 1e9:9.3f}{self.peak_ratio:8.3f}"
                f"{outcome.seconds * 1e3:10.3f}{self.time_ratio:8.4f}"
            )
        met = "yes" if outcome.met else "no"
        return f"{self.planner:20}{figures}  {met:3} {outcome.wall_seconds:6.1f}  {outcome.note}"


HEADER = f"{'planner':20}{'GB':>9}{'ratio':>8}{'ms':>10}{'ratio':>8}  met {'s':>6}  note"


def load(path: Path) -> core.Graph:
    """Raises MagisError if it cannot be read, or is no graph."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise MagisError(f"{path} cannot be read: {error}") from None
    return core.Graph.parse(text, str(path))


def latency_ratio(text: str) -> float:
    """110% and 1.1 are a tenth more than program order takes. Raises LimitError."""
    number = text.strip().removesuffix("%")
    try:
        ratio = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        raise LimitError(f"--latency {text}: give 110%, or 1.1, of program order's time") from None
    return LatencyLimit.parse(ratio).resolve(1.0)


def task_of(options: argparse.Namespace, graph: core.Graph, base: core.Simulation) -> Task:
    memory = latency = None
    if options.memory is not None:
        limit = MemoryLimit.parse(options.memory)
        if limit.auto:
            raise LimitError("--memory auto: say how many bytes, or what share of program order's")
        memory = limit.resolve(base.peak_bytes)
    else:
        latency = latency_ratio(options.latency) * base.seconds
    return Task(graph, options.device, memory, latency, options.seconds, options.seed)


def rows(task: Task, base: core.Simulation, names: Sequence[str]) -> list[Row]:
    found = []
    for name in names:
        if len(names) > 1:
            print(f"{name} ...", end="\r", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            outcome = PLANNERS[name].plan(task)
        except core.UserError as error:
            outcome = Outcome(None, 0, 0.0, False, time.monotonic() - began, str(error))
        found.append(
            Row(name, outcome, outcome.peak_bytes / base.peak_bytes, outcome.seconds / base.seconds)
        )
    return found


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", nargs="?", type=Path, help="graph text, perhaps compressed")
    parser.add_argument("--planner", nargs="+", default=["magis"], choices=[*PLANNERS, "all"])
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument("--memory", help="40%% of program order's peak, or 12GiB")
    limits.add_argument("--latency", help="110%% of program order's time, or 1.1")
    parser.add_argument("--device", default="reference", choices=core.device_profiles())
    parser.add_argument("--seconds", type=float, default=30, help="for each planner, of one core")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="write the plan here (of one planner)")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    parser.add_argument("--list", action="store_true", help="say what the planners are, and end")
    options = parser.parse_args(arguments)
    if options.list:
        return options
    if options.graph is None or (options.memory is None) == (options.latency is None):
        parser.error("give a graph, and either --memory or --latency")
    if "all" in options.planner:
        options.planner = list(PLANNERS)
    if options.output and len(options.planner) > 1:
        parser.error("--output takes the plan of one planner")
    if not options.seconds > 0:
        parser.error("--seconds has to be more than 0")
    return options


def list_planners() -> None:
    for planner in PLANNERS.values():
        print(f"{planner.name}: {planner.published}\n    {planner.simplified}")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.list:
        list_planners()
        return 0
    try:
        graph = load(options.graph)
        base = core.Plan.program_order(graph).simulate(options.device)
        found = rows(task_of(options, graph, base), base, options.planner)
        plan = found[0].outcome.plan
        if options.output and plan is not None:
            write_text(options.output, plan.text())
    except (MagisError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([row.record() for row in found], indent=1))
    else:
        print("\n".join([HEADER, *(row.line() for row in found)]))
    return 0 if all(row.outcome.met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
