"""Graphs and plans shared by the verifiers' tests."""

from pathlib import Path

import torch

DATA = Path(__file__).parents[2] / "data"
MLP = (DATA / "verify_mlp.magis").read_text()
MLP_PLAN = (DATA / "verify_mlp_plan.magis").read_text()
MLP_RECOMPUTE = (DATA / "verify_mlp_recompute.magis").read_text()


def mlp_inputs() -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(5)
    shapes = {"w1": (5, 3), "w2": (2, 5), "x": (4, 3), "y": (4, 2)}
    return {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}


def changed(text: str, old: str, new: str) -> str:
    """`text` with its one occurrence of `old` replaced."""
    assert text.count(old) == 1, f"{text.count(old)} times {old!r}"
    return text.replace(old, new)
