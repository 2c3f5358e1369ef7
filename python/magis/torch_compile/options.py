"""What torch.compile(..., options={...}) may say."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from magis.errors import MagisError
from magis.limits import parse_limit
from magis.report import Report
from magis.runtime.api import check_number
from magis.runtime.plan_store import PlanStore
from magis.runtime.planner import SearchSettings, Strategy, choose_profile
from magis.runtime.progress import Callback
from magis.runtime.refinement import refinement_on
from magis.runtime.threads import choose_threads


@dataclass(frozen=True)
class Options:
    """As magis.optimize understands them, for each graph by itself.

    on_plan: called with the report on each plan as it is made.
    """

    memory_limit: int | float | str | None = None
    latency_limit: float | str | None = None
    device: str | None = None
    time_budget: float = 10.0
    strict: bool = False
    exact: bool = False
    rewrite: bool = True
    measure: float | None = None
    strategy: Strategy = "default"
    seed: int = 0
    threads: int | None = None
    progress: Callback | None = None
    reuse_plans: bool = True
    on_plan: Callable[[Report], Any] = field(default=lambda _report: None)

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Options:
        """Raises MagisError that names what may be given."""
        known = [entry.name for entry in fields(cls)]
        for name in given or {}:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]}? " if near else ""
                raise MagisError(
                    f"options={{{name!r}: ...}} is not understood by the backend magis: {hint}It "
                    f"takes {', '.join(known)}; all else that magis can do needs magis.optimize"
                )
        options = cls(**(given or {}))
        check_number("time_budget", options.time_budget, 0)
        if options.measure is not None:
            check_number("measure", options.measure, 0)
        return options

    def settings(self, place: torch.device) -> SearchSettings:
        """For a graph on `place`. Raises LimitError and MagisError."""
        profile = choose_profile(self.device, place)
        return SearchSettings(
            limit=parse_limit(self.memory_limit, self.latency_limit),
            profile=profile,
            time_budget=self.time_budget,
            strict=self.strict,
            seed=self.seed,
            threads=choose_threads(self.threads),
            progress=self.progress,
            exact=self.exact,
            rewrite=self.rewrite,
            host_memory=0,  # two forward passes may come before the first backward pass
            strategy=self.strategy,
            refinement=None
            if self.measure is None
            else refinement_on(place, profile, self.measure),
            store=PlanStore() if self.reuse_plans else None,
        )
