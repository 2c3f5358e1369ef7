"""What a search tells of itself: kept in the report, bounded, and read back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from page_support import DEVICE, planned, zoo_graph

from magis import _core
from magis.errors import PlanError
from magis.report import Report
from magis.report.history import SearchHistory
from magis.runtime.plan_file import envelope, parse_envelope


def test_it_ends_at_what_was_found_and_only_gets_better() -> None:
    plan, report = planned(zoo_graph("unet", "tiny"), 0.3)
    history = report.history
    assert history is not None
    assert 1 < len(history.elapsed) <= 257
    assert history.peak_bytes[-1] == report.promised_peak_bytes
    assert history.seconds[-1] == pytest.approx(report.seconds)
    assert history.met[-1] == report.met
    for column in (history.elapsed, history.states):
        assert all(before <= after for before, after in pairwise(column))
    assert set(history.bound_bytes) == {report.lower_bound_bytes}
    saved = parse_envelope(envelope(plan, report), "plan")
    assert saved.report.history == history


def test_many_reports_are_thinned_and_the_last_is_kept() -> None:
    seen: list[float] = []

    def listen(progress: _core.Progress) -> bool:
        seen.append(progress.elapsed)
        return True

    graph = zoo_graph("unet", "tiny")
    limit = int(0.1 * _core.Plan.program_order(graph).simulate(DEVICE).peak_bytes)
    result = _core.optimize(
        graph,
        device=DEVICE,
        memory_limit=limit,
        state_budget=10_000,
        time_budget=300.0,
        strategy="paper",
        progress=listen,
    )
    history = SearchHistory.of(result.history)
    assert len(seen) > 257, "too few for anything to be thinned"
    assert 128 <= len(history.elapsed) <= 257
    assert history.elapsed[0] == seen[0]
    assert history.elapsed[-1] == seen[-1]
    assert set(history.elapsed) <= set(seen)


@pytest.mark.parametrize(
    "damage",
    [
        {"elapsed": [1.0]},
        {"elapsed": "text"},
        {"peak_bytes": [None]},
        {"peak_bytes": {}},
        {"met": None},
    ],
)
def test_a_damaged_history_is_named(damage: dict[str, object]) -> None:
    plan, report = planned(zoo_graph("unet", "tiny"), 0.9)
    data = report.to_json()
    data["history"] = {**data["history"], **damage}
    with pytest.raises((KeyError, TypeError, ValueError)):
        Report.from_json(data)
    text = envelope(plan, report).replace('"elapsed": [', '"elapsed": [null,', 1)
    with pytest.raises(PlanError, match=r'"report\.history" must be'):
        parse_envelope(text, "plan")
