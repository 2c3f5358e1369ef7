"""Promised against measured step times of the zoo's models at `small`, on this CPU, one thread.

Measured are whole steps and operators alone, in turns, so that both see the same machine: a busy
one makes both slower. Times are processor times of the one thread that computes, medians.

    python bench/step_times.py [--models bert mlp] [--json FILE] [--seconds-per-model 30]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import torch

_ROUNDS = 8
_STEPS_A_ROUND = 2


def measure(name: str, budget: float) -> dict[str, Any]:
    from magis import _core, zoo
    from magis.capture import capture
    from magis.cli.trial import Trial
    from magis.cli.workload import Workload
    from magis.runtime.free_memory import free_bytes
    from magis.timing.times import Times

    workload = zoo.build(name, size="small")
    captured = capture(*workload)
    plan = _core.Plan.program_order(_core.Graph.parse(captured.text, name))
    trial = Trial(Workload(*workload, {}), captured, plan)
    for _ in range(3):
        trial.warm_up()
    cpu = torch.device("cpu")
    times = Times(cpu)
    keys = times.lacking(plan.calls("cpu"))
    steps: list[float] = []
    for turn in range(_ROUNDS):
        steps += [trial.timer.step_seconds() for _ in range(_STEPS_A_ROUND)]
        times.measure(keys[turn::_ROUNDS], budget / _ROUNDS, free_bytes(cpu))
        steps += [trial.timer.step_seconds() for _ in range(_STEPS_A_ROUND)]
    times.calibrate("cpu")
    device = times.profile("cpu")
    found = trial.timer.compare(device, 5, steps)
    return {
        "model": name,
        "calls": found.calls,
        "measured_calls": found.calls_measured,
        "modelled_seconds": plan.simulate("cpu").seconds,
        "promised_seconds": found.promised_seconds,
        "measured_seconds": found.step_seconds,
        "fastest_seconds": min(steps),
        "error": found.promised_seconds / found.step_seconds - 1,
        "operators": [asdict(row) for row in found.operators],
        "worst_offenders": [asdict(row) for row in found.offenders],
    }


def main() -> None:
    from magis import zoo

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=zoo.names())
    parser.add_argument("--seconds-per-model", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    print(f"{'model':10} {'calls':>6} {'model alone':>12} {'promised':>10} {'measured':>10} error")
    for name in options.models:
        # A cache of its own for each model: calls that two models share are measured for both, at
        # the time at which their steps are.
        with tempfile.TemporaryDirectory() as folder:
            os.environ["MAGIS_CACHE_DIR"] = folder
            row = measure(name, options.seconds_per_model)
        rows.append(row)
        print(
            f"{name:10} {row['measured_calls']:3}/{row['calls']:<3}"
            f"{row['modelled_seconds'] * 1e3:10.1f} ms {row['promised_seconds'] * 1e3:7.1f} ms"
            f" {row['measured_seconds'] * 1e3:7.1f} ms {row['error']:+.1%}",
            flush=True,
        )
    errors = [abs(row["error"]) for row in rows]
    print(f"median error {median(errors):.1%}, worst {max(errors):.1%}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
