"""Generated code against eager, paired: each round runs both, the ratio is taken round by round.

python bench/generated_code.py [--rounds 15] [--threads 1]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import magis
from magis import zoo

# Full-size architectures at batches that a CPU finishes in about a second.
WORKLOADS: dict[str, dict[str, Any]] = {
    "bert": {"batch": 2, "seq": 128},
    "resnet50": {"batch": 4},
}


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare(name: str, rounds: int) -> None:
    model, loss_fn, batch = zoo.build(name, size="full", **WORKLOADS[name])
    # A limit that asks for nothing: the captured operators as they are, nothing recomputed.
    step = magis.optimize(model, loss_fn, batch, memory_limit="1TiB", time_budget=1)
    call = (lambda: step(**batch)) if isinstance(batch, dict) else (lambda: step(*batch))

    def eager() -> None:
        loss = loss_fn(model, **batch) if isinstance(batch, dict) else loss_fn(model, *batch)
        loss.backward()

    ratios, times = [], {"eager": [], "generated": []}
    for turn in range(rounds + 1):
        pair = [("eager", eager), ("generated", call)]
        taken = {}
        for which, run in pair if turn % 2 else reversed(pair):
            model.zero_grad()
            taken[which] = seconds(run)
        if turn:  # the first round warms up
            ratios.append(taken["generated"] / taken["eager"])
            for which, value in taken.items():
                times[which].append(value)
    ordered = sorted(ratios)
    print(
        f"{name:10} generated / eager: median {statistics.median(ratios):.3f}, quartiles"
        f" {ordered[len(ordered) // 4]:.3f} to {ordered[3 * len(ordered) // 4]:.3f}"
        f" over {rounds} rounds; medians {statistics.median(times['generated']):.3f} s"
        f" and {statistics.median(times['eager']):.3f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in WORKLOADS:
        compare(name, options.rounds)


if __name__ == "__main__":
    main()
