"""Damages a plan with a loop and sees who notices; runs in the worker of `hooked`.

Those who may notice are named in sabotage.py. Here the whole graph, in the recorded dtypes, is what
a step is held to, up to the rounding of sums.
"""

from __future__ import annotations

from typing import Any

import torch
from damages import LOOP_DAMAGES, LOOP_SOURCE_DAMAGES, damaged
from fission_texts import MLP_SOURCE, MLP_SPLIT_PLAN
from plan_accounts import step_of
from sabotage import raises

from magis import _core, measure
from magis.errors import PlanError
from magis.verify import check_fission, check_types, evaluate, random_inputs, verify_plan
from magis.verify.text import parse


class LoopSubject:
    def __init__(self) -> None:
        self.inputs = random_inputs(MLP_SOURCE)
        self.expected = evaluate(MLP_SOURCE, self.inputs, dtype=None)

    def who_notices(self, plan: str, source: str | None = None) -> list[str]:
        """source: what runs instead of the code generated from `plan`."""
        noticed = {
            "verifier": raises(PlanError, lambda: verify_plan(plan)),
            "types": raises(PlanError, lambda: check_types(plan)),
            "evaluator": raises(PlanError, lambda: check_fission(MLP_SOURCE, plan, self.inputs)),
            "core": raises(_core.UserError, lambda: _core.Plan.parse(plan).verify()),
        }
        if not noticed["core"]:
            sound = _core.Plan.parse(plan)
            promised = sound.simulate("cpu").transient_peak_bytes
            noticed |= self._runs(source or sound.source(), promised)
        return [name for name, notices in noticed.items() if notices]

    def _runs(self, source: str, promised: int) -> dict[str, bool]:
        log = measure.KernelLog()
        step = step_of(source, log)
        given = [self.inputs[i.name] for i in parse(MLP_SOURCE).inputs]

        def call() -> Any:
            with torch.no_grad():
                return step(list(given))

        # Results hold NaN until they are written.
        torch.use_deterministic_algorithms(True)
        try:
            measured = measure.measure_kernels(call, log)
        except Exception:
            return {"step": True}
        finally:
            torch.use_deterministic_algorithms(False)
        near = (
            torch.allclose(value, wanted, rtol=1e-5, atol=1e-6)
            for value, wanted in zip(measured.result, self.expected, strict=True)
        )
        return {"step": not all(near), "allocator": measured.tensor_peak_bytes != promised}


def who_notices_what() -> dict[str, list[str]]:
    """Of every damage, and of none ("")."""
    subject = LoopSubject()
    source = _core.Plan.parse(MLP_SPLIT_PLAN).source()
    noticed = {"": subject.who_notices(MLP_SPLIT_PLAN)}
    for what, damage in LOOP_DAMAGES.items():
        noticed[what] = subject.who_notices(damaged(MLP_SPLIT_PLAN, damage))
    for what, damage in LOOP_SOURCE_DAMAGES.items():
        noticed[what] = subject.who_notices(MLP_SPLIT_PLAN, damaged(source, damage))
    return noticed
