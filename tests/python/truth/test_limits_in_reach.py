"""A limit that some plan keeps is kept, however unlikely the way there looks."""

import torch

from magis import _core, zoo
from magis.capture import capture


def test_parts_that_cost_much_are_searched_where_nothing_else_fits() -> None:
    model, loss_fn, batch = zoo.build("bert", size="small", dropout=0.0)
    optimizer = torch.optim.AdamW(model.parameters())
    graph = _core.Graph.parse(capture(model, loss_fn, batch, optimizer=optimizer).text)
    # Small operators are dear under this profile: eight parts of the batch take a third longer.
    # Fewer parts promise less time, and never come down to the limit.
    device = _core.DeviceProfile.named("cpu").with_calibration({"": (1.0, 0.9)})
    limit = graph.persistent_bytes + 28_000_000
    found = _core.optimize(
        graph, device=device, memory_limit=limit, state_budget=300_000, time_budget=120.0
    )
    assert found.met
    assert found.plan.graph.loop_count
