"""What it costs a step to check that its plan still holds: BERT-base and ViT-base on this CPU.

A call compares the batch, the model and the process with what was frozen at capture, and runs the
programs that recompute what the step's code reads from tensors (BERT: whether the mask masks
anything). Measured are these checks alone and whole steps, on one thread, medians of its processor
times. The batches are small: larger ones make steps longer, and checks no dearer.

    python bench/guards.py [--models bert vit] [--batch 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

_STEPS = 5
_CHECKS = 50


def bert(batch: int) -> tuple[nn.Module, dict[str, Any]]:
    from transformers import BertConfig, BertForMaskedLM

    ids = torch.randint(5, 30000, (batch, 128))
    mask = torch.ones_like(ids)
    mask[0, 100:] = 0
    return BertForMaskedLM(BertConfig()), {"input_ids": ids, "attention_mask": mask, "labels": ids}


def vit(batch: int) -> tuple[nn.Module, dict[str, Any]]:
    from transformers import ViTConfig, ViTForImageClassification

    labels = torch.zeros(batch, dtype=torch.long)
    pixels = torch.randn(batch, 3, 224, 224)
    return ViTForImageClassification(ViTConfig()), {"pixel_values": pixels, "labels": labels}


MODELS = {"bert": bert, "vit": vit}


def loss(model: nn.Module, **batch: Any) -> torch.Tensor:
    result: torch.Tensor = model(**batch).loss
    return result


def seconds_of(run: Callable[[], object], times: int) -> float:
    samples = []
    for _ in range(times):
        start = time.thread_time()
        run()
        samples.append(time.thread_time() - start)
    return median(samples)


def measure(name: str, size: int) -> dict[str, Any]:
    import magis

    model, batch = MODELS[name](size)
    step = magis.optimize(model, loss, batch, time_budget=2, verify="off", threads=1)
    step(**batch)  # the first run makes the accumulating plan's inputs and warms caches

    def check() -> None:
        # What a call does before its plan runs.
        assert step._plan_for(step._form.arguments((), batch)) is not None

    checks = seconds_of(check, _CHECKS)
    whole = seconds_of(lambda: step(**batch), _STEPS)
    captured = step._current.step.capture
    return {
        "model": name,
        "batch": size,
        "guarded_reads": 0 if captured.guards is None else len(captured.guards.reads),
        "attributes": len(captured.attributes),
        "checks_seconds": checks,
        "step_seconds": whole,
        "share": checks / whole,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = [measure(name, options.batch) for name in options.models]
    for row in rows:
        print(
            f"{row['model']}, batch {row['batch']}: checks {1e3 * row['checks_seconds']:.2f} ms "
            f"({row['guarded_reads']} values read, {row['attributes']} attributes) "
            f"of {row['step_seconds']:.2f} s a step, {row['share']:.2%}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
