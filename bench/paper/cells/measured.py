"""Small networks that really run on this CPU, under the allocator's hook: what was promised, and
what came of it.

One thread. Peaks are what the allocator handed out above its level when the step began; times are
processor time, medians over rounds in which all ways take turns, over eager's in the same round.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from cells.cell import Cell, Figures
from magis import measure
from magis.errors import MagisError

LIMITS = (0.8, 0.6, 0.4)  # of the captured step's peak, for ours
PARTS = (2, 4)  # of gradient accumulation
BUDGETS = (0.5, 0.2)  # torch.compile's activation_memory_budget
SEARCH_SECONDS = 10.0
ROUNDS = 9
SEED = 0

Take = Callable[[], Any]


@dataclass
class Way:
    """Takes a step on a model of its own, and leaves gradients in `.grad`."""

    name: str
    model: Any
    take: Take
    promised_memory: float | None = None  # over the captured step's in program order
    promised_time: float | None = None

    def step(self) -> None:
        import torch

        for parameter in self.model.parameters():
            parameter.grad = None
        torch.manual_seed(SEED)
        self.take()

    def peak_bytes(self) -> int:
        self.step()  # what is allocated once and kept is no part of it
        for parameter in self.model.parameters():
            parameter.grad = None
        return measure.measure_peak(self.take).peak_bytes


@dataclass(frozen=True)
class Subject:
    """A network, its loss and a batch: equal weights every time."""

    make: Callable[[], tuple[Any, Callable[..., Any], dict[str, Any]]]
    checkpointed: bool = False  # it is Hugging Face's
    normed: bool = False  # batch norm: parts of a batch are not the whole


def bert6() -> tuple[Any, Callable[..., Any], dict[str, Any]]:
    from magis import zoo

    return zoo.build("bert", size="small", batch=8, seq=128, dropout=0.0, seed=SEED)


def resnet18() -> tuple[Any, Callable[..., Any], dict[str, Any]]:
    """ResNet-18's depth and width by half, in bottleneck blocks."""
    import torch

    from magis.zoo.mlp import classification_loss
    from magis.zoo.resnet import ResNet, ResNetConfig

    torch.manual_seed(SEED)
    model = ResNet(ResNetConfig(width=32, blocks=(2, 2, 2, 2), classes=100)).train()
    batch = {"x": torch.randn(16, 3, 96, 96), "labels": torch.randint(0, 100, (16,))}
    return model, classification_loss, batch


def unet16() -> tuple[Any, Callable[..., Any], dict[str, Any]]:
    from magis import zoo

    return zoo.build("unet", size="small", batch=4, image=96, seed=SEED)


SUBJECTS = {
    "bert6": Subject(bert6, checkpointed=True),
    "resnet18": Subject(resnet18, normed=True),
    "unet16": Subject(unet16, normed=True),
}


def plain(model: Any, loss_fn: Callable[..., Any], batch: dict[str, Any]) -> Any:
    loss = loss_fn(model, **batch)
    loss.backward()
    return loss.detach()


def in_parts(model: Any, loss_fn: Callable[..., Any], batch: dict[str, Any], parts: int) -> None:
    """Accumulation by hand; a mean over unequal parts would need weights, which cost nothing."""
    pieces = [{name: value.chunk(parts)[i] for name, value in batch.items()} for i in range(parts)]
    for piece in pieces:
        (loss_fn(model, **piece) / parts).backward()


def peers(subject: Subject) -> Iterator[Way]:
    """What PyTorch's users have."""
    import torch
    import torch._functorch.config as functorch

    model, loss_fn, batch = subject.make()
    yield Way("eager", model, partial(plain, model, loss_fn, batch))
    if subject.checkpointed:
        model, loss_fn, batch = subject.make()
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        yield Way("HF checkpointing", model, partial(plain, model, loss_fn, batch))
    if not subject.normed:
        for parts in PARTS:
            model, loss_fn, batch = subject.make()
            take = partial(in_parts, model, loss_fn, batch, parts)
            yield Way(f"accumulation, {parts} parts", model, take)
    for budget in (None, *BUDGETS):
        model, loss_fn, batch = subject.make()
        torch._dynamo.reset()
        with functorch.patch(**({} if budget is None else {"activation_memory_budget": budget})):
            take = partial(plain, torch.compile(model), loss_fn, batch)
            name = "torch.compile" + ("" if budget is None else f", budget {budget:g}")
            way = Way(name, model, take)
            way.step()  # compiles
        yield way


def ours(subject: Subject, measuring: float) -> Iterator[Way]:
    import magis

    for limit in LIMITS:
        model, loss_fn, batch = subject.make()
        step = magis.optimize(
            model,
            loss_fn,
            batch,
            memory_limit=f"{limit:.0%}",
            time_budget=SEARCH_SECONDS,
            measure=measuring,
            tolerance=1e-3,
        )
        report = step.report
        captured = report.captured_peak_bytes - report.persistent_bytes
        yield Way(
            f"magis, {limit:.0%}",
            model,
            partial(step, **batch),
            report.transient_peak_bytes / captured,
            report.seconds / report.captured_seconds,
        )


def time_ratios(ways: list[Way]) -> list[float]:
    from magis.timing.stopwatch import CpuClock

    now = CpuClock().now
    seconds: list[list[float]] = [[] for _ in ways]
    for turn in range(ROUNDS + 1):
        order = range(len(ways)) if turn % 2 else range(len(ways) - 1, -1, -1)
        for i in order:
            start = now()
            ways[i].step()
            if turn:  # the first one warms up
                seconds[i].append(now() - start)
    return [median(a / b for a, b in zip(own, seconds[0], strict=True)) for own in seconds]


def compute(cell: Cell) -> Figures:
    if cell.workload not in SUBJECTS:
        raise MagisError(f'nothing to run is called "{cell.workload}"')
    measure.reexec_with_hook()
    import torch

    torch.set_num_threads(1)
    subject = SUBJECTS[cell.workload]
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MAGIS_CACHE_DIR"] = folder
        ways = list(ours(subject, cell.seconds))
        others: list[Way] = []
        try:
            for way in peers(subject):
                others.append(way)
        except Exception as error:  # a peer that cannot be had is no reason to know nothing
            failures.append(f"{type(error).__name__}: {error}".splitlines()[0])
    ways = others + ways
    if not others:
        raise MagisError(f"eager did not run: {failures[0]}")
    peaks = [way.peak_bytes() for way in ways]
    times = time_ratios(ways)
    words = "One thread, processor time. " + " ".join(f"Left out: {f}." for f in failures)
    return {
        "words": words.strip(),
        "ways": [
            {
                "way": way.name,
                "memory": peak / peaks[0],
                "time": time,
                "promised_memory": way.promised_memory,
                "promised_time": way.promised_time,
            }
            for way, peak, time in zip(ways, peaks, times, strict=True)
        ],
    }
