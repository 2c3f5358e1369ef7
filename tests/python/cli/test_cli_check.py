"""`magis check`: a page, or JSON, on whether a model goes through."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_support import Magis

SOURCE = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, n):
        h = self.linear(x)
        if not torch.isfinite(h).all():
            h = torch.nan_to_num(h)
        return h[:, : n.tolist()[0]]


def make():
    loss = lambda m, x, n: m(x, n).square().sum()
    return Model(), loss, (torch.ones(3, 4), torch.tensor([2, 1]))


def stopped():
    loss = lambda m, x: m.linear(x).sum() * m.linear(x).max().item()
    return Model(), loss, (torch.ones(3, 4),)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SOURCE)


def test_a_model_that_goes_through(magis: Magis) -> None:
    done = magis("check", "mine.py:make")
    assert done.status == 0
    assert done.out.splitlines() == [
        "mine.py:make goes through: the captured step equals eager",
        "",
        "specialised, and guarded at each call",
        "  the step mine.py:14: return h[:, : n.tolist()[0]]",
        "    value [2, 1], from batch [1]",
        "",
        "speculated on; a call in which it is otherwise runs eagerly",
        "  the step mine.py:12: if not torch.isfinite(h).all():",
        "    condition: True",
    ]


def test_a_model_that_does_not(magis: Magis) -> None:
    done = magis("check", "mine.py:stopped")
    assert done.status == 2
    assert done.out.startswith("mine.py:stopped does not go through\n\nstopped by\n")
    assert "mine.py:23" in done.out


def test_json(magis: Magis) -> None:
    data = magis("check", "mine.py:make", "--json").json
    assert data["goes_through"]
    assert data["guards"] == [
        {
            "module": "",
            "line": "mine.py:14",
            "code": "return h[:, : n.tolist()[0]]",
            "what": "value",
            "value": [2, 1],
            "from": ["batch [1]"],
        }
    ]
    assert [entry["value"] for entry in data["speculated"]] == [True]


def test_a_zoo_model(magis: Magis) -> None:
    data = magis("check", "mlp", "--json").json
    assert (data["goes_through"], data["guards"], data["speculated"]) == (True, [], [])
