"""Trains every method side by side and measures each step.

Training runs in rounds: in each, every method takes one step on the same batch, so that whatever
else the machine does meanwhile hits all alike. Who goes first rotates.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor

from magis.demo.methods import Method
from magis.demo.text import Batch
from magis.measure import measure_peak
from magis.report import Report


@dataclass
class Trial:
    """What one method's steps took. Bytes are above what was allocated when the step started:
    gradients are in them, parameters are not."""

    name: str
    report: Report | None  # of magis's step
    peak_bytes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    gradient_differences: list[float] = field(default_factory=list)  # to the first method's

    @property
    def promised_peak_bytes(self) -> int | None:
        return None if self.report is None else self.report.transient_peak_bytes

    def to_json(self, reference: "Trial") -> dict[str, Any]:
        return {
            "method": self.name,
            "peak_bytes": max(self.peak_bytes),
            "promised_peak_bytes": self.promised_peak_bytes,
            "seconds_min": min(self.seconds),
            "seconds_median": median(self.seconds),
            "relative_time": relative_time(self, reference),
            "relative_peak": max(self.peak_bytes) / max(reference.peak_bytes),
            "gradient_difference_first_step": self.gradient_differences[0],
            "gradient_difference": max(self.gradient_differences),
            "losses": self.losses,
            "losses_equal": self.losses == reference.losses,
            "steps": {
                "peak_bytes": self.peak_bytes,
                "seconds": self.seconds,
                "gradient_difference": self.gradient_differences,
            },
            "report": None if self.report is None else self.report.to_json(),
        }


def relative_time(trial: Trial, reference: Trial) -> float:
    """Median over the rounds of this method's time over the reference's in the same round."""
    pairs = zip(trial.seconds, reference.seconds, strict=True)
    return median(mine / theirs for mine, theirs in pairs)


def run(
    methods: list[Method], batches: Iterable[Batch], on_round: Callable[[int], None]
) -> list[Trial]:
    """Trains all methods on all batches; the first one's gradients are the reference.

    Every method must start from the same parameters.
    """
    trials = [Trial(method.name, method.report) for method in methods]
    for number, batch in enumerate(batches):
        for turn in range(len(methods)):
            index = (number + turn) % len(methods)
            _measured_step(methods[index], batch, trials[index])
        reference = _gradients(methods[0])
        for method, trial in zip(methods, trials, strict=True):
            trial.gradient_differences.append(_difference(_gradients(method), reference))
        for method in methods:
            method.optimizer.step()
            method.optimizer.zero_grad(set_to_none=True)
        on_round(number + 1)
    return trials


def _measured_step(method: Method, batch: Batch, trial: Trial) -> None:
    torch.set_rng_state(method.random_state)

    def timed() -> tuple[Tensor, float]:
        start = time.perf_counter()
        loss = method.step(batch)
        return loss, time.perf_counter() - start

    measured = measure_peak(timed)
    loss, seconds = measured.result
    method.random_state = torch.get_rng_state()
    trial.peak_bytes.append(measured.peak_bytes)
    trial.seconds.append(seconds)
    trial.losses.append(loss.item())


def _gradients(method: Method) -> dict[str, Tensor]:
    return {
        name: parameter.grad
        for name, parameter in method.model.named_parameters()
        if parameter.grad is not None
    }


def _difference(gradients: dict[str, Tensor], reference: dict[str, Tensor]) -> float:
    """The largest absolute difference of any element; infinite if a gradient is missing."""
    if gradients.keys() != reference.keys():
        return float("inf")
    differences = (
        (gradients[name] - other).abs().max().item() for name, other in reference.items()
    )
    return float(max(differences))
