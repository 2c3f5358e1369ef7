"""The MAGIS paper's evaluation: every figure, with this project's figures beside the paper's.

    python bench/paper/run.py            # all of it: hours; broken off, it goes on where it was
    python bench/paper/run.py --quick    # every figure with fewer cells and small budgets
    python bench/paper/run.py --figures 9 10 --workloads bert vit --planner magis dtr

Writes OUT/results.json and OUT/index.html, one page that needs nothing else. Each cell is kept in
OUT/cells under what its result depends on: the graph, the planner, the limit, the budget, the code.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import suite
import workloads
from cells import Cell, Record, Store
from experiments import EXPERIMENTS, PLANNER_NAMES, Settings
from profiles import PROFILES
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

QUICK = Settings(seconds=3.0, peer_seconds=1.0, quick=True)


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="less than ten minutes on two cores")
    parser.add_argument("--figures", choices=EXPERIMENTS, default=list(EXPERIMENTS), nargs="+")
    parser.add_argument("--workloads", choices=workloads.WORKLOADS, nargs="+")
    parser.add_argument("--variants", choices=workloads.VARIANTS, nargs="+")
    parser.add_argument("--profiles", choices=list(PROFILES)[:3], nargs="+")
    parser.add_argument("--planner", choices=PLANNER_NAMES, dest="planners", nargs="+")
    parser.add_argument("--seconds", type=positive, help="budget of each of our searches")
    parser.add_argument("--peer-seconds", type=positive, help="budget of every other planner")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cells at once")
    parser.add_argument("--out", type=Path, default=Path("build/paper"))
    parser.add_argument("--graphs", type=Path, default=workloads.GRAPHS, help="of the workloads")
    parser.add_argument("--retry", action="store_true", help="compute again what failed")
    parser.add_argument("--draw-only", action="store_true", help="compute nothing")
    return parser.parse_args(arguments)


def positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} must be more than 0")
    return value


def settings_of(options: argparse.Namespace) -> Settings:
    names = ("workloads", "variants", "profiles", "planners", "seconds", "peer_seconds", "seed")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    return replace(QUICK if options.quick else Settings(), **given)


class Watching:
    """Progress on the terminal; a line for each cell where there is none."""

    def __init__(self, progress: Progress, console: Console) -> None:
        self.progress = progress
        self.console = console
        self.task = progress.add_task("", total=None)

    def __call__(self, done: int, whole: int, running: list[Cell], record: Record | None) -> None:
        words = "; ".join(map(str, running[:2]))
        self.progress.update(self.task, completed=done, total=whole, description=words)
        if record is not None and record.failure:
            self.console.print(f"{record.cell}: {record.failure}", style="yellow", markup=False)
        elif record is not None and not self.console.is_terminal:
            self.console.print(
                f"{done}/{whole} {record.cell}: {record.seconds:.1f} s", markup=False
            )


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(sys.argv[1:] if arguments is None else arguments)
    settings = settings_of(options)
    console = Console(stderr=True)
    places = suite.Places(options.out, options.graphs)
    store = Store(places.cells)
    plan = suite.look_up(
        suite.cells_of(settings, options.figures), store, options.graphs, options.retry
    )
    for path in plan.damaged:
        console.print(f"{path}: damaged; the cell is computed again", style="yellow", markup=False)
    console.print(f"{len(plan.known)} cells are there, {len(plan.jobs)} to be computed")
    records = list(plan.known)
    stopped = False
    if not options.draw_only:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            watching = Watching(progress, console)
            try:
                suite.compute(plan, store, options.graphs, options.jobs, watching)
            except KeyboardInterrupt:
                stopped = True
        done = (store.find(job.key) for job in plan.jobs)
        records += [record for record in done if record is not None]
    found = suite.write_results(places, settings, options.figures, records)
    out = Console()
    for verdict in found:
        word = {True: "yes", False: "NO ", None: " ? "}[verdict.holds]
        out.print(f"{word} {verdict.bar}: {verdict.words}", markup=False, highlight=False)
    out.print(f"{places.page}: the page; {places.results}: its data", markup=False)
    if stopped:
        console.print("stopped; the same command goes on from here")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
