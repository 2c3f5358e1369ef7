"""Whether any plan at all can keep a memory limit. Free of PyTorch."""

from __future__ import annotations

from magis import _core
from magis.errors import LimitError
from magis.report.text import bytes_text


def check_lower_bound(
    graph: _core.Graph,
    profile: _core.Device,
    limit: str,
    most: int,
    *,
    fission: bool = True,
    host_memory: int | None = None,
) -> None:
    """Raises LimitError, quoting the certified lower bound and what dominates it, if `most` bytes
    lie below it. `limit` is how the user gave them; `fission`: regions may run in parts;
    `host_memory`: as many bytes may be kept on the host, None as many as the profile says.
    """
    bound = _core.lower_bound(graph, device=profile, fission=fission, host_memory=host_memory)
    if most < bound.bytes:
        raise LimitError(
            f"{limit} ({bytes_text(most)}) lies below the certified lower bound of "
            f"{bound.bytes:,} bytes ({bytes_text(bound.bytes)}): no plan of "
            f"this graph stays under it. {bytes_text(bound.persistent_bytes)} are there before the "
            f"step (parameters, buffers, batch); the rest is {bound.reason}. "
            "Give a higher limit, or a smaller batch"
        )
