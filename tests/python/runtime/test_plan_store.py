"""Plans of earlier runs are taken again, where they serve, and only there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from runtime_support import Network, cross_entropy, plan, squares, token_batch
from torch import nn

import magis
from magis.errors import PlanError
from magis.runtime import planner
from magis.runtime.plan_store import PlanStore


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry a search."""
    found: list[object] = []
    own = planner._optimize

    def counted(*args: Any) -> Any:
        found.append(args)
        return own(*args)

    monkeypatch.setattr(planner, "_optimize", counted)
    return found


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(32, 32), nn.Tanh())])


BATCH = (torch.randn(256, 32),)


def start(**options: Any) -> magis.Step:
    return plan(network(), squares, BATCH, **{"memory_limit": 0.8, **options})


def test_a_second_start_takes_the_plan(searches: list[object]) -> None:
    first = start()
    assert len(searches) == 1
    again = start()
    assert len(searches) == 1
    assert again.plan.text() == first.plan.text()
    assert again.report.promised_peak_bytes == first.report.promised_peak_bytes
    assert again.report.replayed == first.report.replayed  # compared all the same
    assert "kept from an earlier run" in str(again.report)
    assert again(*BATCH).equal(first(*BATCH))


@pytest.mark.parametrize(
    "options",
    [{"memory_limit": 0.7}, {"exact": True}, {"rewrite": False}, {"seed": 1}, {"batch_parts": 2}],
    ids=str,
)
def test_another_question_is_searched_for(options: Any, searches: list[object]) -> None:
    start()
    start(**options)
    assert len(searches) == 2


def test_another_graph_is_searched_for(searches: list[object]) -> None:
    start()
    plan(network(), squares, (torch.randn(255, 32),), memory_limit=0.8)
    assert len(searches) == 2


def test_more_time_is_another_question_unless_nothing_was_left_to_try(
    searches: list[object],
) -> None:
    step = start(time_budget=0.2)
    start(time_budget=0.1)
    assert len(searches) == 1
    [(path, _, _)] = PlanStore().plans()
    for reason, expected in (("converged", 1), ("time_budget", 2)):
        content = json.loads(path.read_text())
        content["report"]["stop_reason"] = reason
        path.write_text(json.dumps(content))
        start(time_budget=0.3)
        assert len(searches) == expected
    assert step.report.met


def test_a_slightly_lower_limit_serves(searches: list[object]) -> None:
    peak = start(memory_limit=1.0).report.baseline_peak_bytes
    first = start(memory_limit=int(0.8 * peak))
    del searches[:]
    near = start(memory_limit=int(0.805 * peak))
    assert not searches
    assert near.plan.text() == first.plan.text()
    start(memory_limit=int(0.83 * peak))  # too far off
    start(memory_limit=int(0.79 * peak))  # not kept by the plan, perhaps
    assert len(searches) == 2


def test_nothing_is_kept_where_that_was_asked_for(searches: list[object]) -> None:
    start(reuse_plans=False)
    assert PlanStore().plans() == []
    start()
    start(reuse_plans=False)
    assert len(searches) == 3


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text.replace("\\nprogram\\nrun ", "\\nprogram\\nwalk ", 1), "walk"),
        (
            lambda text: text.replace('"promised_peak_bytes": ', '"promised_peak_bytes": 1'),
            "its plan comes to",
        ),
        (lambda text: text.replace('"format": 1', '"format": 2'), "in format 2"),
    ],
)
def test_a_damaged_plan_costs_a_search(damage: Any, words: str, searches: list[object]) -> None:
    start()
    [(path, _, _)] = PlanStore().plans()
    path.write_text(damage(path.read_text()))
    with pytest.warns(UserWarning, match=f"is dropped, and a plan searched for: .*{words}"):
        step = start()
    assert step(*BATCH).isfinite()
    start()
    assert len(searches) == 2


def test_what_is_no_plan_is_passed_over(searches: list[object]) -> None:
    start()
    [(path, _, _)] = PlanStore().plans()
    path.write_text(path.read_text()[:500])
    (path.parent / "notes.json").write_text("[]")
    start()
    start()
    assert len(searches) == 2


def test_the_optimizer_is_part_of_the_graph(searches: list[object]) -> None:
    for make in (torch.optim.SGD, torch.optim.AdamW):
        for _ in range(2):
            model = network()
            plan(model, squares, BATCH, memory_limit=0.8, optimizer=make(model.parameters()))
    assert len(searches) == 2


def test_plans_for_new_shapes_are_kept_too(searches: list[object]) -> None:
    tokens, labels = token_batch()
    for _ in range(2):
        step = plan(Network(), cross_entropy, (tokens, labels))
        step(tokens[:2], labels[:2])
    assert len(searches) == 2


def test_those_used_longest_ago_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magis.runtime.plan_store.MOST_PLANS", 2)
    for seed in range(2):
        start(seed=seed)
    old = {path.name for path, _, _ in PlanStore().plans()}
    assert len(old) == 2
    oldest = PlanStore().plans()[-1][0]
    os.utime(oldest, (0, 0))
    start(seed=0)  # used again, whichever it is
    start(seed=1)
    os.utime(oldest, (0, 0))
    start(seed=2)
    left = {path.name for path, _, _ in PlanStore().plans()}
    assert len(left) == 2
    assert oldest.name not in left


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("MAGIS_CACHE_DIR", str(blocked))
    with pytest.warns(UserWarning, match=r"the plan is not kept.*reuse_plans=False"):
        assert start().report.met


def test_plans_come_from_elsewhere(
    searches: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    [(path, _, _)] = PlanStore().plans()
    text = path.read_text()
    monkeypatch.setenv("MAGIS_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert PlanStore().add(text, "plan.json").name == path.name
    start()
    assert len(searches) == 1
    content = json.loads(text)
    for name in ("../../escape.json", "", None):
        content["kept"]["name"] = name
        with pytest.raises(PlanError, match=r"plan\.json: not a plan that was kept"):
            PlanStore().add(json.dumps(content), "plan.json")


def test_a_file_under_another_name_answers_nothing(searches: list[object]) -> None:
    start()
    start(seed=1)
    first, second = (path for path, _, _ in PlanStore().plans())
    second.write_text(first.read_text())
    start(seed=0)
    start(seed=1)
    assert len(searches) == 3


def test_more_measuring_is_another_question(searches: list[object]) -> None:
    start(measure=0.0)
    start(measure=0.0)
    count = len(searches)
    start(measure=0.01)
    assert len(searches) > count
