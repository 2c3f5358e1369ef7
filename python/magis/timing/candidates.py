"""Plans whose part sizes a search is likely to ask for."""

from __future__ import annotations

from collections.abc import Iterator

from magis import _core

PARTS = (2, 4, 8, 16)


def part_plans(graph: _core.Graph, device: _core.Device) -> Iterator[_core.Plan]:
    """The graph with its best region, which mostly is that along the batch, in 2, 4, 8 and 16
    parts, in program order; those that cannot be split so are left out.
    """
    regions = _core.fission_regions(graph, device=device, limit=1)
    if len(regions) == 0:
        return
    length = regions.length(0)
    for part in dict.fromkeys(-(-length // parts) for parts in PARTS if parts <= length):
        try:
            split = regions.split([(0, part, [])])
        except _core.UserError:
            continue
        yield _core.Plan.program_order(split)
