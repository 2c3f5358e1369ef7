"""Trains a six-layer BERT on the standard library's sources in four ways, and compares them.

    python -m magis.demo.train_bert [--steps 20] [--threads 1] [--json build/run.json]

Exit status: 0; 1 if magis broke its promise or its losses are not eager's, up to the rounding of
sums over parts; 2 if the demo cannot run here.
"""

import argparse
import json
import math
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

from magis import measure
from magis.demo import tables, text, trial
from magis.demo.methods import METHODS, Budget, Method, bert, make, persistent_bytes
from magis.demo.trial import Trial
from magis.errors import MagisError

BATCH, SEQ = 8, 128
SEED = 0
# Sums that are added up part by part are rounded another way than eager's, and training carries
# such differences on: relative to the loss.
LOSS_TOLERANCE = 1e-3
REPORT_WIDTH = 110  # fewer columns than this break its operators' module paths
# What magis may take above parameters and batch: less than checkpointing does.
TRANSIENT_LIMIT = 40_000_000
TRANSIENT_LIMIT_WITH_DROPOUT = 49_000_000


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m magis.demo.train_bert",
        description="Trains a six-layer BERT in four ways and compares memory, time and results.",
    )
    parser.add_argument("--steps", type=int, default=20, help="training steps (default 20)")
    parser.add_argument("--threads", type=int, default=1, help="PyTorch's threads (default 1)")
    parser.add_argument("--json", type=Path, default=None, help="also write all figures there")
    parser.add_argument(
        "--dropout",
        type=float,
        nargs="+",
        default=[0.0, 0.1],
        help="rates to train with, one after another (default 0 and 0.1)",
    )
    parser.add_argument(
        "--memory-limit",
        help="for magis, parameters and batch included, such as 70MB or 40%%; by default "
        f"{tables.megabytes(TRANSIENT_LIMIT)} MB above them without dropout, "
        f"{tables.megabytes(TRANSIENT_LIMIT_WITH_DROPOUT)} MB with",
    )
    parser.add_argument(
        "--time-budget",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how long magis may search (default 10)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=list(METHODS),
        default=list(METHODS),
        help="ways to train; eager is always one (default all)",
    )
    options = parser.parse_args(argv)
    if options.steps < 1 or options.threads < 1:
        parser.error("--steps and --threads must be at least 1")
    if not all(0.0 <= rate < 1.0 for rate in options.dropout):
        parser.error("--dropout must lie in [0, 1)")
    return options


def train(options: argparse.Namespace, dropout: float, console: Console) -> dict[str, Any]:
    """One comparison: trains with this dropout, prints the tables, returns the figures."""
    corpus = text.standard_library()
    batches = list(text.masked_batches(corpus, options.steps, BATCH, SEQ, SEED))
    persistent = persistent_bytes(bert(dropout, SEED), batches[0])
    limit = options.memory_limit
    if limit is None:
        limit = persistent + (TRANSIENT_LIMIT_WITH_DROPOUT if dropout else TRANSIENT_LIMIT)

    budget = Budget(limit, options.time_budget)
    errors = Console(stderr=True)
    names = ["eager", *(name for name in METHODS if name in options.methods and name != "eager")]
    methods: list[Method] = []
    for name in names:
        if name == "magis" and errors.is_terminal:
            errors.print("capturing and optimizing ...", style="dim")
        methods.append(make(name, dropout=dropout, seed=SEED, batch=batches[0], budget=budget))
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task(f"training, dropout {dropout:g}", total=options.steps)
        trials = trial.run(methods, batches, lambda done: progress.update(task, completed=done))

    title = f"BERT, 6 layers, batch {BATCH} x {SEQ}, dropout {dropout:g}"
    console.print(tables.costs(trials, f"{title}, {options.threads} thread(s)"))
    console.print(tables.losses(trials, dropout))
    wide = Console(width=max(console.width, REPORT_WIDTH))
    for one in trials:
        if one.report is not None:
            wide.print(one.report)
    return {
        "dropout": dropout,
        "persistent_bytes": persistent,
        "memory_limit": limit,
        "methods": [one.to_json(trials[0]) for one in trials],
        "failures": failures(trials),
    }


def failures(trials: list[Trial]) -> list[str]:
    """What magis promised and did not keep: the first step that shows it, a line each."""
    broken = []
    for one in trials:
        if one.promised_peak_bytes is None:
            continue
        for step, peak in enumerate(one.peak_bytes, start=1):
            if peak != one.promised_peak_bytes:
                broken.append(
                    f"step {step}: promised a peak of {one.promised_peak_bytes:,} bytes, "
                    f"measured {peak:,}"
                )
                break
        pairs = zip(one.losses, trials[0].losses, strict=True)
        for step, (mine, eager) in enumerate(pairs, start=1):
            if not math.isclose(mine, eager, rel_tol=LOSS_TOLERANCE):
                broken.append(f"step {step}: loss {mine!r}, but eager's is {eager!r}")
                break
    return broken


def check_target(path: Path) -> None:
    """Raises OSError now rather than after minutes of training."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path.parent):
        pass


def write_json(path: Path, figures: dict[str, Any]) -> None:
    """Whole or not at all: written beside its place, then renamed."""
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(figures, file, indent=2)
            file.write("\n")
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink()
        raise


def machine(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": options.threads,
        "steps": options.steps,
        "batch": BATCH,
        "seq": SEQ,
        "measured_by": "allocator hook" if measure.available() else "profiler",
    }


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    errors = Console(stderr=True)
    torch.set_num_threads(options.threads)
    try:
        if options.json is not None:
            check_target(options.json)
        runs = [train(options, dropout, Console()) for dropout in options.dropout]
        if options.json is not None:
            write_json(options.json, {**machine(options), "runs": runs})
    except (MagisError, OSError) as error:
        errors.print(f"error: {error}", style="red", markup=False)
        return 2
    broken = [(run["dropout"], line) for run in runs for line in run["failures"]]
    for dropout, line in broken:
        errors.print(f"FAILED with dropout {dropout:g}: {line}", style="red", markup=False)
    return 1 if broken else 0


def run_under_hook() -> int:
    """As `main`, in a process that measures the allocator exactly where that is possible."""
    try:
        measure.reexec_with_hook()
    except measure.HookError as error:
        print(f"measuring with PyTorch's profiler instead: {error}", file=sys.stderr)
    return main()


if __name__ == "__main__":
    sys.exit(run_under_hook())
