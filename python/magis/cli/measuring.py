"""Measured times for the commands that search: on the machine that the graph was captured for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from magis.cli.status import UsageError

if TYPE_CHECKING:
    from magis import _core
    from magis.runtime.refinement import Refinement

# As `magis capture` records it; a file may hold anything.
_THREADS = re.compile(r"[1-9][0-9]{0,3}")


def measured_times(
    budget: float | None, graph: _core.Graph, profile: _core.Device
) -> Refinement | None:
    """What --measure asks for; None without it. Raises UsageError if the graph is not for a device
    that is here, or the profile for another.
    """
    if budget is None:
        return None
    import torch

    from magis.errors import MagisError
    from magis.runtime.refinement import refinement_on

    if graph.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--measure: the graph is for a CUDA device, and there is none here")
    use_recorded_threads(graph)
    try:
        return refinement_on(torch.device(graph.device), str(profile), budget)
    except MagisError as error:
        raise UsageError(f"--measure: {error}") from None


def use_recorded_threads(graph: _core.Graph) -> None:
    """As many threads as the graph was captured with: times and scratch depend on it."""
    import torch

    threads = graph.meta.get("threads", "")
    if graph.device == "cpu" and _THREADS.fullmatch(threads):
        torch.set_num_threads(int(threads))
