"""Kendall's rank correlation of promised and measured step times over plans of one zoo model, with
what splitting the batch in 2, 4, 8 and 16 parts costs by promise and by measurement.

Plans are those that the search finds for limits from nearly all of the baseline's memory down to
little, and the batch in parts. Times are processor times of the one thread that computes, medians
of steps taken in turns.

    python bench/plan_ranking.py [--model bert] [--plans 30] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import torch


def candidate_plans(graph: Any, device: Any, count: int) -> list[tuple[str, Any]]:
    """(what it is, plan): the baseline, the batch in parts, and what is found for limits."""
    from magis import _core
    from magis.timing.candidates import PARTS, part_plans

    found = [("baseline", _core.Plan.program_order(graph))]
    parts = part_plans(graph, device)
    found += [(f"{n} parts", plan) for n, plan in zip(PARTS, parts, strict=False)]
    results = _core.find_frontier(graph, device=device, time_budget=30.0, host_memory=0)
    found += [
        (f"{r.peak_bytes / 2**20:.0f} MiB", r.plan) for r in spread(results, count - len(found))
    ]
    return found


def spread(results: list[Any], count: int) -> list[Any]:
    """So many of the results, as evenly apart in promised time as there are any."""
    left = sorted(results, key=lambda result: result.seconds)
    first, last = math.log(left[0].seconds), math.log(left[-1].seconds)
    chosen = []
    for number in range(min(count, len(left))):
        wanted = first + (last - first) * number / max(1, count - 1)
        nearest = min(left, key=lambda result: abs(math.log(result.seconds) - wanted))
        left.remove(nearest)
        chosen.append(nearest)
    return chosen


def kendall(pairs: list[tuple[float, float]]) -> float:
    """Tau-a: of all pairs, the share in the same order less the share in the other."""
    same = other = 0
    for (a, b), (c, d) in combinations(pairs, 2):
        same += (a - c) * (b - d) > 0
        other += (a - c) * (b - d) < 0
    return (same - other) / (same + other)


def run(name: str, count: int, rounds: int, budget: float) -> dict[str, Any]:
    from magis import _core, zoo
    from magis.capture import capture
    from magis.cli.trial import Trial
    from magis.cli.workload import Workload
    from magis.runtime.refinement import Refinement
    from magis.timing.times import Times

    workload = Workload(*zoo.build(name, size="small"), {})
    captured = capture(workload.model, workload.loss_fn, workload.batch)
    graph = _core.Graph.parse(captured.text, name)
    refinement = Refinement(Times(torch.device("cpu")), "cpu", budget)
    refinement.learn(_core.Plan.program_order(graph))
    plans = candidate_plans(graph, refinement.device, count)
    for _, plan in plans:
        refinement.learn(plan)
    trials = [(words, plan, Trial(workload, captured, plan)) for words, plan in plans]
    for _, _, trial in trials:
        trial.warm_up()
    seconds: list[list[float]] = [[] for _ in trials]
    for turn in range(rounds):
        for i in range(len(trials)) if turn % 2 else reversed(range(len(trials))):
            seconds[i].append(trials[i][2].timer.step_seconds())
    rows = []
    base_promised = plans[0][1].simulate(refinement.device).seconds
    base_measured = median(seconds[0])
    for (words, plan, _), samples in zip(trials, seconds, strict=True):
        promised = plan.simulate(refinement.device).seconds
        ratios = [sample / base for sample, base in zip(samples, seconds[0], strict=True)]
        rows.append(
            {
                "plan": words,
                "promised": promised,
                "measured": median(samples),
                "promised_slowdown": promised / base_promised - 1,
                "measured_slowdown": median(ratios) - 1,
                "unmeasured_calls": sum(
                    not call.measured for call in plan.calls(refinement.device)
                ),
            }
        )
    pairs = [(row["promised"], row["measured"]) for row in rows]
    return {"model": name, "baseline": base_measured, "kendall": kendall(pairs), "plans": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="bert")
    parser.add_argument("--plans", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=90.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("MAGIS_CACHE_DIR", folder)
        found = run(options.model, options.plans, options.rounds, options.budget)
    print(f"{'plan':>10} {'promised':>10} {'measured':>10} {'slowdown promised, measured'}")
    for row in found["plans"]:
        print(
            f"{row['plan']:>10} {row['promised'] * 1e3:7.1f} ms {row['measured'] * 1e3:7.1f} ms"
            f" {row['promised_slowdown']:+13.1%} {row['measured_slowdown']:+9.1%}"
        )
    print(
        f"{found['model']}: Kendall's tau over {len(found['plans'])} plans {found['kendall']:.3f}"
    )
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
