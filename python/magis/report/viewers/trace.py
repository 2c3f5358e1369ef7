"""Traces in the Trace Event Format, which Perfetto and chrome://tracing show.

Each record is a process, each engine a thread of it; records begin at the same moment, so that a
measured step lies beside the predicted one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from magis.report.text import printable
from magis.report.viewers.record import ENGINES, Nanoseconds, Record

Event = dict[str, Any]


def trace_text(records: Sequence[Record], facts: Mapping[str, Any]) -> str:
    """The whole file, an event a line. facts: what else is to be known of it."""
    arrows = 0
    lines = []
    for process, record in enumerate(records, start=1):
        for event in _events(record, process, arrows):
            lines.append(json.dumps(event, separators=(",", ":")))
        arrows += len(record.arrows)
    events = ",\n".join(lines)
    others = json.dumps({"displayTimeUnit": "ms", "otherData": dict(facts)})[1:]
    return f'{{"traceEvents":[\n{events}\n],\n{others}\n'


def _events(record: Record, process: int, first_arrow: int) -> Iterator[Event]:
    yield from _names(record, process)
    threads = {engine: number for number, engine in enumerate(ENGINES, start=1)}
    for entry in record.slices:
        yield {
            "ph": "X",
            "name": printable(entry.name),
            "cat": entry.category,
            "pid": process,
            "tid": threads[entry.engine],
            "ts": _microseconds(entry.start),
            "dur": _microseconds(entry.end - entry.start),
            "args": {
                key: printable(value) if isinstance(value, str) else value
                for key, value in entry.details.items()
            },
        }
    for number, arrow in enumerate(record.arrows, start=first_arrow):
        for position, stop in enumerate(arrow.stops):
            at = record.slices[stop]
            is_last = position == len(arrow.stops) - 1
            event: Event = {
                "ph": "s" if position == 0 else "f" if is_last else "t",
                "name": arrow.name,
                "cat": "arrow",
                "id": number,
                "pid": process,
                "tid": threads[at.engine],
                "ts": _microseconds(at.start),
            }
            yield event | ({"bp": "e"} if is_last else {})
    for sample in record.samples:
        yield {
            "ph": "C",
            "name": sample.counter,
            "pid": process,
            "ts": _microseconds(sample.time),
            "args": {"bytes": sample.bytes},
        }


def _names(record: Record, process: int) -> Iterator[Event]:
    def metadata(what: str, thread: int, key: str, value: str | int) -> Event:
        return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {key: value}}

    yield metadata("process_name", 0, "name", printable(record.title))
    yield metadata("process_sort_index", 0, "sort_index", process)
    for thread, engine in enumerate(ENGINES, start=1):
        yield metadata("thread_name", thread, "name", engine)
        yield metadata("thread_sort_index", thread, "sort_index", thread)


def _microseconds(time: Nanoseconds) -> float:
    return time / 1000
