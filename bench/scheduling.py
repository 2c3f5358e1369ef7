"""Incremental against full scheduling, as in the paper's Figure 14, as a table and as a figure.

python bench/scheduling.py [--bench build/release/magis_bench] [--graphs FOLDER] [--out build]

With --graphs also the peaks of other compilers' orders on every captured graph in the folder
(`magis capture NAME --size full -o FOLDER/NAME.magis`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

ORDERS = [
    "program order",
    "reverse post-order",
    "Inductor lpmf",
    "Inductor bfs",
    "Inductor dfs",
    "ours",
]


def measure(bench: Path, graphs: Path | None) -> list[dict[str, Any]]:
    environment = dict(os.environ)
    if graphs is not None:
        environment["MAGIS_BENCH_GRAPHS"] = str(graphs)
    command = [str(bench), "--benchmark_filter=Figure14|Reschedule|ScheduleFully|Orders"]
    done = subprocess.run(
        [*command, "--benchmark_format=json"],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)["benchmarks"]
    return found


def arguments(name: str) -> dict[str, int]:
    """ "BM_X/training:1/network:3/iterations:1" -> {"training": 1, "network": 3, ...}"""
    return {key: int(value) for key, value in (part.split(":") for part in name.split("/")[1:])}


def rounds_of(found: list[dict[str, Any]], training: int) -> list[dict[str, Any]]:
    rounds = [b | arguments(b["name"]) for b in found if b["name"].startswith("BM_Figure14")]
    return [r for r in rounds if r["training"] == training]


def quality(r: dict[str, Any]) -> float:
    return float(r["incremental_peak"] / r["full_peak"])


def print_networks(kind: str, rounds: list[dict[str, Any]]) -> None:
    print(f"\n{kind}: incremental against full, {len(rounds)} rewrites")
    print("network  operators   full, us   incr., us   full / incr.   worst peak ratio   equal")
    for network in sorted({r["network"] for r in rounds}):
        of = [r for r in rounds if r["network"] == network]
        print(
            f"{network:7} {of[-1]['operators']:10.0f}"
            f" {statistics.mean(r['full_us'] for r in of):10.0f}"
            f" {statistics.mean(r['incremental_us'] for r in of):11.1f}"
            f" {statistics.mean(r['ratio'] for r in of):14.1f}"
            f" {max(map(quality, of)):18.4f}"
            f" {sum(quality(r) == 1 for r in of):4}/{len(of)}"
        )
    worse = [quality(r) for r in rounds if quality(r) > 1]
    ratios = [r["ratio"] for r in rounds]
    print(
        f"full / incremental: mean {statistics.mean(ratios):.1f}, median"
        f" {statistics.median(ratios):.1f}, least {min(ratios):.1f}; peak equal in"
        f" {sum(quality(r) == 1 for r in rounds)}, lower in {sum(quality(r) < 1 for r in rounds)},"
        f" higher in {len(worse)} of {len(rounds)}, at most {max(worse, default=1):.4f} times"
    )


def print_others(found: list[dict[str, Any]]) -> None:
    for b in found:
        if b["name"].startswith("BM_Reschedule"):
            print(
                f"\nBERT-base, {b['operators']:.0f} operators: one reschedule, median"
                f" {b['median_us']:.1f} us"
            )
        if b["name"].startswith("BM_ScheduleFully"):
            print(f"BERT-base, scheduled in full: {b['real_time']:.1f} {b['time_unit']}")
    orders = [b for b in found if b["name"].startswith("BM_Orders")]
    if orders:
        print(f"\n{'peak, MB':24}" + "".join(f"{order:>20}" for order in ORDERS) + "   ours, ms")
    for b in orders:
        peaks = "".join(f"{b[order] / 1e6:20.3f}" for order in ORDERS)
        print(f"{b['name'].split('/')[1]:24}{peaks}{b['real_time']:11.1f}")


def draw(found: list[dict[str, Any]], path: Path) -> None:
    figure = go.Figure()
    for training, kind in enumerate(["forward", "training"]):
        rounds = rounds_of(found, training)
        figure.add_trace(
            go.Scatter(
                x=[r["ratio"] for r in rounds],
                y=[quality(r) for r in rounds],
                mode="markers",
                name=kind,
                text=[f"network {r['network']}, round {r['round']}" for r in rounds],
            )
        )
    figure.update_layout(
        title="Incremental against full scheduling of rewritten NASNet-like networks",
        xaxis_title="time of full / time of incremental scheduling",
        yaxis_title="peak of incremental / peak of full scheduling",
        xaxis_type="log",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.write_html(path, include_plotlyjs=True)
    print(f"\nfigure: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", type=Path, default=Path("build/release/magis_bench"))
    parser.add_argument("--graphs", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build"))
    options = parser.parse_args()
    found = measure(options.bench, options.graphs)
    for training, kind in enumerate(["forward", "training"]):
        print_networks(kind, rounds_of(found, training))
    print_others(found)
    draw(found, options.out / "scheduling.html")


if __name__ == "__main__":
    main()
