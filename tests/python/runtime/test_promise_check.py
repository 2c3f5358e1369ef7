"""What the search promises is counted again, by code that shares nothing with it, before a plan is
used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from runtime_support import Network, cross_entropy, plan, token_batch
from swap_support import swapping

from magis.errors import PlanError
from magis.runtime import planner


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("transient_peak_bytes", r"promises [\d,]+ bytes, an independent count comes to [\d,]+"),
        ("host_peak_bytes", r"promises [\d,]+ bytes on the host, an independent count comes to"),
    ],
)
def test_a_promise_below_an_independent_count_is_refused(monkeypatch, field, message):
    count = planner.verify_plan

    def one_more(text: str, *, device: str) -> Any:
        facts = count(text, device=device)
        return replace(facts, **{field: getattr(facts, field) + 2**40})

    monkeypatch.setattr(planner, "verify_plan", one_more)
    with swapping(), pytest.raises(PlanError, match=f"{message}.*this is a bug in magis"):
        plan(Network(), cross_entropy, token_batch())


def test_a_sound_promise_is_kept():
    with swapping():
        assert plan(Network(), cross_entropy, token_batch()).plan.host_bytes > 0
