"""Memory snapshots as `torch.cuda.memory._snapshot()` gives them, for PyTorch's memory viewer.

Each record is a device of its own. What is there before the step comes first, allocated at its
start; what is left at its end is what the segment holds. Frames are the tensor, the line of the
model and, from the inside out, the modules around it, so that what is grouped by frames is grouped
by modules.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from magis.report.text import printable
from magis.report.viewers.addresses import ALIGNMENT, place
from magis.report.viewers.record import Place, Record

_BASE = 0x7F00_0000_0000  # as high as addresses of devices are
_STREAM = 0
_POOL = (0, 0)

Snapshot = dict[str, Any]
Frame = dict[str, Any]


def snapshot(records: Sequence[Record]) -> Snapshot:
    """The first record is device 0, the next one device 1."""
    segments, traces = [], []
    for device, record in enumerate(records):
        segment, trace = _of_device(record, device)
        segments.append(segment)
        traces.append(trace)
    return {
        "segments": segments,
        "device_traces": traces,
        "external_annotations": [],
        "allocator_settings": {},
    }


def beside(predicted: Snapshot, measured: Snapshot) -> Snapshot:
    """What was predicted as device 0, the devices of what was measured after it. PyTorch's own
    snapshot says which device a segment is on.
    """
    moved = [{**segment, "device": segment["device"] + 1} for segment in measured["segments"]]
    return {
        **measured,
        "segments": [*predicted["segments"], *moved],
        "device_traces": [*predicted["device_traces"], *measured["device_traces"]],
    }


def with_places(content: Snapshot, places: Callable[[str, int], Place | None]) -> Snapshot:
    """PyTorch's own snapshot with the model's lines and modules in front of the frames of a plan's
    code. places: of a file and a line, where the model asks for what is there.
    """

    def known(entry: dict[str, Any]) -> dict[str, Any]:
        frames = entry.get("frames", [])
        for frame in frames:
            if (found := places(frame["filename"], frame["line"])) is not None:
                return {**entry, "frames": [*frames_of(found), *frames]}
        return entry

    segments = [
        {**segment, "blocks": [known(block) for block in segment["blocks"]]}
        for segment in content["segments"]
    ]
    traces = [[known(entry) for entry in trace] for trace in content["device_traces"]]
    return {**content, "segments": segments, "device_traces": traces}


def pickled(content: Snapshot) -> bytes:
    # The viewer reads what PyTorch writes, which has this protocol.
    return pickle.dumps(content, protocol=4)


def _of_device(record: Record, device: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    addresses, size = place(record)
    frames = _frames_of_blocks(record)
    total = max(size, ALIGNMENT)
    # The viewer fails where there are categories and "unknown" is none of them.
    trace = [{**_entry("segment_alloc", _BASE, total, [], 0), "category": "unknown"}]
    live: dict[int, None] = {}
    for change in record.changes:
        block = record.blocks[change.block]
        entry = _entry(
            "alloc" if change.allocated else "free_requested",
            _BASE + addresses[change.block],
            block.bytes,
            frames[change.block],
            change.time // 1000,
        )
        entry["category"] = block.kind
        trace.append(entry)
        if change.allocated:
            live[change.block] = None
        else:
            del live[change.block]
            trace.append({**entry, "action": "free_completed"})
    held = sorted(live, key=lambda number: addresses[number])
    segment = _segment(record, addresses, held, total, frames)
    return {**segment, "device": device}, trace


def _segment(
    record: Record, addresses: list[int], held: list[int], total: int, frames: list[list[Frame]]
) -> dict[str, Any]:
    blocks = []
    end = 0
    for number in held:
        block = record.blocks[number]
        if addresses[number] > end:
            blocks.append(_gap(end, addresses[number] - end))
        end = addresses[number] + block.bytes
        blocks.append(
            {
                "address": _BASE + addresses[number],
                "size": block.bytes,
                "requested_size": block.asked_bytes,
                "state": "active_allocated",
                "frames": frames[number],
            }
        )
    if end < total:
        blocks.append(_gap(end, total - end))
    active = sum(record.blocks[number].bytes for number in held)
    return {
        "address": _BASE,
        "total_size": total,
        "allocated_size": active,
        "active_size": active,
        "requested_size": sum(record.blocks[number].asked_bytes for number in held),
        "stream": _STREAM,
        "segment_type": "large",
        "segment_pool_id": _POOL,
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def _gap(begin: int, size: int) -> dict[str, Any]:
    return {
        "address": _BASE + begin,
        "size": size,
        "requested_size": 0,
        "state": "inactive",
        "frames": [],
    }


def _entry(
    action: str, address: int, size: int, frames: list[Frame], microseconds: int
) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": _STREAM,
        "pool_id": _POOL,
        "time_us": microseconds,
        "frames": frames,
    }


def _frames_of_blocks(record: Record) -> list[list[Frame]]:
    """By the blocks' numbers. Those of a place are made once: a step allocates at a few hundred."""
    known: dict[Place, list[Frame]] = {}
    frames = []
    for block in record.blocks:
        place = known.get(block.place)
        if place is None:
            place = known[block.place] = frames_of(block.place)
        frames.append([_frame(block.label, block.kind, 0), *place])
    return frames


def frames_of(place: Place) -> list[Frame]:
    """The line of the model, then the modules around it, the innermost first."""
    file, _, line = place.source.rpartition(":")
    if not line.isdecimal():
        file, line = place.source, "0"
    frames = [_frame(place.operator, file or "(no source line)", int(line))]
    module = place.module
    while module:
        frames.append(_frame(module, "module", 0))
        module = module.rpartition(".")[0]
    return frames


def _frame(name: str, file: str, line: int) -> Frame:
    # A semicolon separates frames where they are written in one line.
    name, file = (printable(text).replace(";", ",") for text in (name, file))
    return {"name": name, "filename": file, "line": line}
