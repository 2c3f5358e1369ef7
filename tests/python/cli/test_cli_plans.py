"""`magis plans`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from cli_support import Magis, assert_user_error
from torch import nn

import magis as package


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def kept(magis: Magis) -> str:
    """The name of a plan that was kept."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    package.optimize(
        model, lambda m, x: m(x).sum(), torch.randn(64, 8), latency_limit=1.5, time_budget=0.1
    )
    [row] = json.loads(magis("plans", "list", "--json").out)["plans"]
    return str(row["name"])


def test_without_plans(magis: Magis) -> None:
    listed = magis("plans", "list")
    assert listed.status == 0
    assert "None yet; magis.optimize keeps those that it finds." in listed.out
    assert json.loads(magis("plans", "list", "--json").out)["plans"] == []


def test_listed_shown_and_removed(kept: str, magis: Magis) -> None:
    assert kept[:16] in magis("plans", "list").out
    shown = magis("plans", "show", kept[:6])
    assert "Peak memory" in shown.out
    assert json.loads(magis("plans", "show", kept, "--json").out)["name"] == kept
    assert_user_error(magis("plans", "show", "xyz"), "no plan's name begins with xyz")
    assert_user_error(magis("plans", "remove"), "--all")
    assert json.loads(magis("plans", "remove", kept[:6], "--json").out) == {"removed": [kept]}
    assert json.loads(magis("plans", "list", "--json").out)["plans"] == []


def test_exported_and_imported(kept: str, magis: Magis, folder: Path) -> None:
    assert magis("plans", "export", kept[:6], "plan.json").status == 0
    assert json.loads(magis("inspect", "plan.json", "--json").out)
    assert magis("plans", "remove", "--all").status == 0
    assert magis("plans", "import", "plan.json").status == 0
    [row] = json.loads(magis("plans", "list", "--json").out)["plans"]
    assert row["name"] == kept
    (folder / "other.json").write_text("{}")
    assert_user_error(magis("plans", "import", "other.json"), "other.json")
    assert_user_error(magis("plans", "import", "absent.json"), "`magis plans export` makes them")
