"""Measured peaks and times of magis beside what a user would pick today, on a six-layer BERT.

    python bench/peers/run.py [--dropout 0] [--threads 1] [--without-fission] [--json FILE]

Peaks are what the allocator handed out above its level when the step began: gradients are in them,
parameters are not. Times are medians over rounds of a step's time over that of eager's step in the
same round, by the clock of the one thread that computes, or on the wall if there are several.

With fission: a plan for each of `LIMITS` and for the peak of each peer. Without: one search for the
whole frontier, and 20 budgets that are looked up in it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from magis import measure

MB = 1e6
# Megabytes without parameters, and how much longer than eager's the step may take without dropout
# on one thread.
BARS = {48: 1.03, 35: 1.10, 30: 1.20}
# That a plan of more memory takes longer than one of less, over eager's time: what a median over so
# few rounds is uncertain by.
NOISE = 0.02


def ratios(ways: list[Any], rounds: int) -> list[float]:
    """Of each way's time to the first one's, medians over rounds in which all take a step, in turns
    from both ends."""
    from magis.timing.stopwatch import CpuClock

    now = CpuClock().now
    seconds: list[list[float]] = [[] for _ in ways]
    for turn in range(rounds + 1):
        order = range(len(ways))
        for i in order if turn % 2 else reversed(order):
            start = now()
            loss = ways[i].step()
            spent = now() - start
            del loss
            if turn:  # the first one warms up
                seconds[i].append(spent)
    return [
        median(mine / eagers for mine, eagers in zip(own, seconds[0], strict=True))
        for own in seconds
    ]


def report(ways: list[Any], peaks: list[int], times: list[float]) -> list[dict[str, Any]]:
    print(f"{'way':28} {'peak, MB':>9} {'promised':>9} {'time':>6}")
    rows = []
    for way, peak, relative in zip(ways, peaks, times, strict=True):
        promised = "" if way.promised is None else f"{way.promised:.3f}"
        print(f"{way.name:28} {peak / MB:9.2f} {promised:>9} {relative:6.3f}", flush=True)
        rows.append(
            {
                "way": way.name,
                "peak_bytes": peak,
                "time": relative,
                "promised_time": way.promised,
                "promised_bytes": way.promised_bytes,
                "words": way.words,
            }
        )
    return rows


def verdicts(rows: list[dict[str, Any]], bars: bool, monotone: bool) -> list[tuple[bool, str]]:
    """What magis is held to, and whether it is so."""
    ours = [row for row in rows if row["promised_time"] is not None]
    peers = [row for row in rows[1:] if row["promised_time"] is None]
    kept = sum(row["peak_bytes"] == row["promised_bytes"] for row in ours)
    found = [(kept == len(ours), f"peaks as promised to the byte: {kept} of {len(ours)}")]
    for peer in peers:
        within = [row["time"] for row in ours if row["peak_bytes"] <= peer["peak_bytes"]]
        least = min(within, default=math.inf)
        words = f"{peer['way']}, {peer['peak_bytes'] / MB:.1f} MB at {peer['time']:.3f}"
        found.append((least < peer["time"], f"below {words}: {least:.3f}"))
    for bar, most in BARS.items() if bars else ():
        least = min(row["time"] for row in ours if row["peak_bytes"] <= bar * MB)
        found.append((least <= most, f"{bar} MB at {most:.2f}: {least:.3f}"))
    if monotone:
        times = [row["time"] for row in sorted(ours, key=lambda row: row["peak_bytes"])]
        worst = max(later - earlier for earlier, later in pairwise(times))
        found.append((worst <= NOISE, f"monotone: more memory costs {max(worst, 0):.3f} at most"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--without-fission", action="store_true")
    parser.add_argument("--inductor", action="store_true", help="also torch.compile's own kernels")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each search")
    parser.add_argument("--measure", type=float, default=120.0, help="seconds, for all operators")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    measure.reexec_with_hook()

    import plans
    import steps
    import torch

    torch.set_num_threads(options.threads)
    ways = [steps.eager(options.dropout), steps.checkpointing(options.dropout)]
    if options.without_fission:
        backends = ("aten", "inductor") if options.inductor else ("aten",)
        ways += [
            steps.compiled(options.dropout, budget, backend)
            for backend in backends
            for budget in steps.BUDGETS
        ]
    else:
        ways += [steps.accumulation(options.dropout, n) for n in steps.ACCUMULATED_PARTS]
    peaks = [way.peak_bytes() for way in ways]
    held_to_bars = options.dropout == 0 and options.threads == 1 and not options.without_fission
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("MAGIS_CACHE_DIR", folder)
        if options.without_fission:
            found = plans.without_fission(options)
        else:
            limits = peaks[1:] + [int(bar * MB) for bar in BARS if held_to_bars]
            found = (plans.within(limit, options) for limit in sorted(limits, reverse=True))
        for way in found:
            print(f"{way.name}: {way.words}; promised {way.promised:.3f}", flush=True)
            ways.append(way)
    peaks += [way.peak_bytes() for way in ways[len(peaks) :]]
    rows = report(ways, peaks, ratios(ways, options.rounds))
    for holds, words in verdicts(rows, held_to_bars, options.without_fission):
        print(f"{'yes' if holds else 'NO ':3} {words}")
    if options.json:
        options.json.write_text(json.dumps({**vars(options), "json": None, "ways": rows}, indent=1))


if __name__ == "__main__":
    main()
