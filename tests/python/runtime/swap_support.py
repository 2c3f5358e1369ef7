"""Steps whose tensors leave for the host, whatever the search thinks of it."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from swap_programs import swapped

from magis import _core
from magis.runtime import planner


@contextmanager
def swapping(seed: int = 1, share: float = 0.5) -> Iterator[None]:
    """Of whatever is planned, that share of the tensors is absent from the device for a while."""
    search = planner._optimize

    def with_swaps(graph: Any, settings: Any, bound: Any, alter: bool) -> Any:
        found = search(graph, replace(settings, host_memory=0, rewrite=False), bound, alter)
        text = swapped(found.plan.text(), random.Random(seed), share=share).text
        plan = _core.Plan.parse(text)
        assert plan.host_bytes > 0
        return found.with_plan(plan, device=settings.profile)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the limit was not met")
        patch.setattr(planner, "_optimize", with_swaps)
        yield
