"""In half precision, a zoo model's step in parts is as far from float64 as the step as a whole."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from fission_cases import ANY_SAVING, kind_of, parts
from torch import Tensor

from magis import _core, zoo
from magis.capture import capture
from magis.verify import evaluate, inputs_from

KINDS = ("bfloat16", "autocast")
DAILY = {"mlp": 12, "gpt2": 6}
CASES = [
    pytest.param(name, kind, DAILY[name], id=f"{name} {kind}") for name in DAILY for kind in KINDS
]
CASES += [
    pytest.param(name, kind, 100, id=f"{name} {kind}, long", marks=pytest.mark.long)
    for name in zoo.names()
    for kind in KINDS
]
# Sums over parts are rounded elsewhere, a few of them by chance for the worse; summing up in 16
# bits, which parts must not, would multiply the error.
CHANCE = 1.25
# A gradient that is 0 but for rounding (of a key's bias, which moves all scores alike) is rounding
# in any precision: its norm, over the largest of all outputs.
VANISHING = 1e-12
BATCH = 16


@dataclass
class Step:
    """A captured step in half precision, values for its inputs, and what it returns in float64."""

    text: str
    inputs: dict[str, Any]
    truth: list[Tensor]

    def error(self, text: str) -> float:
        """Of what the graph text returns as it is: the root mean square over all floating outputs,
        of each relative to its size in the Euclidean norm."""
        found = evaluate(text, self.inputs, dtype=None, seed=1)
        pairs = [
            (value.double(), wanted)
            for value, wanted in zip(found, self.truth, strict=True)
            if wanted.is_floating_point()
        ]
        least = VANISHING * max(float(wanted.norm()) for _, wanted in pairs)
        squares = [
            ((value - wanted).norm() / wanted.norm()).square().item()
            for value, wanted in pairs
            if wanted.norm() > least
        ]
        return float((sum(squares) / len(squares)) ** 0.5)


def step_of(name: str, kind: str) -> Step:
    torch.manual_seed(1)
    options: dict[str, Any] = {"dtype": "bfloat16"} if kind == "bfloat16" else {}
    if "dropout" in zoo.entry(name).options:
        options["dropout"] = 0.0
    model, loss_fn, batch = zoo.build(name, batch=BATCH, **options)

    def loss(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "autocast"):
            return loss_fn(*args, **kwargs)

    text = capture(model, loss, batch).text
    inputs = inputs_from(text, model, batch)
    return Step(text, inputs, evaluate(text, inputs, seed=1))


def splits(text: str, rng: random.Random, count: int) -> Iterator[str]:
    """Of random regions in random numbers of parts."""
    regions = _core.fission_regions(_core.Graph.parse(text), device="cpu", least_saving=ANY_SAVING)
    for _ in range(count):
        region = rng.randrange(len(regions))
        choice = (region, rng.choice(parts(regions.length(region))), [])
        try:
            yield regions.split([choice]).text()
        except _core.UserError as refusal:
            kind_of(str(refusal))  # one of those that valid regions may meet


@pytest.mark.parametrize(("name", "kind", "count"), CASES)
def test_no_less_accurate_than_the_whole_step(name: str, kind: str, count: int) -> None:
    step = step_of(name, kind)
    whole = step.error(step.text)
    errors = [step.error(split) for split in splits(step.text, random.Random(name), count)]
    assert len(errors) >= 0.8 * count
    assert max(errors) <= CHANCE * whole
    assert sum(errors) / len(errors) <= 1.05 * whole


def test_sums_in_16_bits_are_less_accurate() -> None:
    """What the bound above is there to find."""
    step = step_of("mlp", "bfloat16")
    regions = _core.fission_regions(
        _core.Graph.parse(step.text), device="cpu", least_saving=ANY_SAVING
    )
    batch = [i for i in range(len(regions)) if regions.length(i) == BATCH]
    most = max(batch, key=lambda region: len(regions.operators(region)))
    split = regions.split([(most, 1, [])]).text()
    begin = next(line for line in split.splitlines() if "magis.begin" in line)
    assert "f32[" in begin
    damaged = split.replace(begin, re.sub(r"\bf32\[", "bf16[", begin))
    assert step.error(split) <= CHANCE * step.error(step.text) < step.error(damaged)
