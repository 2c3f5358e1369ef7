"""What tests of memory snapshots ask of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

Snapshot = dict[str, Any]


def peak_of(trace: list[dict[str, Any]]) -> int:
    live = peak = 0
    for entry in trace:
        if entry["action"] == "alloc":
            live += entry["size"]
            peak = max(peak, live)
        elif entry["action"] == "free_completed":
            live -= entry["size"]
    return peak


def assert_no_overlap(content: Snapshot, device: int = 0) -> None:
    """No block lies where another one is, and all lie in the segment."""
    segment = next(s for s in content["segments"] if s["device"] == device)
    live: dict[int, int] = {}
    for entry in content["device_traces"][device]:
        if entry["action"] == "alloc":
            begin, end = entry["addr"], entry["addr"] + entry["size"]
            assert segment["address"] <= begin
            assert end <= segment["address"] + segment["total_size"]
            assert all(end <= other or begin >= live[other] for other in live), entry
            live[begin] = end
        elif entry["action"] == "free_completed":
            assert live.pop(entry["addr"]) == entry["addr"] + entry["size"]
    held = [b for b in segment["blocks"] if b["state"] == "active_allocated"]
    assert {b["address"]: b["address"] + b["size"] for b in held} == live
    ends = [(b["address"], b["address"] + b["size"]) for b in segment["blocks"]]
    assert all(end == begin for (_, end), (begin, _) in pairwise(ends))
    assert ends[-1][1] == segment["address"] + segment["total_size"]
