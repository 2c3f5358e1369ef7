"""Steps planned with exact=True for zoo models, under the allocator hook; runs in the worker of
`hooked`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import magis
from magis import measure, zoo

SEED = 3


def account(name: str, *, share: float, **options: Any) -> dict[str, Any]:
    """Of a step under a limit of `share` of the baseline: whether it runs in parts, what it leaves
    that eager does not, and the bytes that it needs beyond its promise."""
    torch.manual_seed(1)
    model, loss_fn, batch = zoo.build(name, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # exact plans need not reach the limit
        step = magis.optimize(
            model,
            loss_fn,
            batch,
            memory_limit=share,
            time_budget=3.0,
            exact=True,
            progress=lambda progress: True,
        )
    buffers = {name: value.clone() for name, value in model.named_buffers()}

    def eager() -> Tensor:
        loss = loss_fn(model, **batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def left(run: Callable[[], Tensor]) -> dict[str, Tensor]:
        """By name, everything that a step leaves; model and generator as before it."""
        reset(model, buffers)
        found = {"loss": run(), "generator": torch.get_rng_state()}
        for path, parameter in model.named_parameters():
            if parameter.grad is not None:
                found[f"grad {path}"] = parameter.grad.clone()
        return found | {f"buffer {path}": b.clone() for path, b in model.named_buffers()}

    expected, found = left(eager), left(lambda: step(**batch))
    reset(model, buffers)
    peak = measure.measure_peak(lambda: step(**batch)).peak_bytes
    return {
        "parts": "in range(" in step.source,
        "differs": [path for path in expected if not torch.equal(expected[path], found[path])],
        "more": sorted(found.keys() - expected.keys()),
        "saved": step.report.baseline_peak_bytes - step.report.promised_peak_bytes,
        "beyond": peak - step.report.transient_peak_bytes,
    }


def reset(model: nn.Module, buffers: dict[str, Tensor]) -> None:
    torch.manual_seed(SEED)
    for path, buffer in model.named_buffers():
        buffer.copy_(buffers[path])
    for parameter in model.parameters():
        parameter.grad = None
