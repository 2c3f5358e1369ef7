"""The frontier of a zoo model, three of its plans executed under the allocator hook; runs in the
worker of `hooked`."""

from __future__ import annotations

from typing import Any

import torch
from fission_promise import Subject

from magis import _core, zoo
from magis.capture import capture
from magis.runtime.frontier_search import frontier_of
from magis.runtime.scratch import with_measured_scratch
from magis.verify import inputs_from, verify_plan


def accounts(name: str, *, states: int, **options: Any) -> dict[str, Any]:
    """`plans`: peak, seconds and the verifier's peak of every plan; `executed`: the first, the
    middle and the last one, as all who count see them."""
    torch.manual_seed(1)
    model, loss_fn, batch = zoo.build(name, size="tiny", **options)
    text = with_measured_scratch(capture(model, loss_fn, batch).text)
    graph = _core.Graph.parse(text)
    results = _core.find_frontier(graph, device="cpu", state_budget=states, time_budget=120.0)
    points = frontier_of(results, "cpu", measured=True).points
    subject = Subject(text, inputs_from(text, model, batch))
    executed = [points[0], points[len(points) // 2], points[-1]]
    return {
        "plans": [
            (point.peak_bytes, point.seconds, verify_plan(point.plan.text()).peak_bytes)
            for point in points
        ],
        "executed": [
            vars(subject.account(point.plan, point.regions, scratch=True))
            | {"altered": point.plan.graph.altered}
            for point in executed
        ],
    }
