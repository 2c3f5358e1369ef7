"""The Trace Event Format, as far as traces of plans use it: what a reader of such files relies on.

Of the format's document: complete events (X) of a thread nest; counters (C) hold numbers; a flow is
one s, any number of t, one f, which share category, name and id, go forward in time, and lie in
slices; metadata (M) names processes and threads.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from typing import Any

Event = dict[str, Any]

_NEEDED = {
    "X": {"name", "cat", "ts", "dur", "pid", "tid"},
    "C": {"name", "ts", "pid", "args"},
    "M": {"name", "pid", "args"},
    "s": {"name", "cat", "id", "ts", "pid", "tid"},
    "t": {"name", "cat", "id", "ts", "pid", "tid"},
    "f": {"name", "cat", "id", "ts", "pid", "tid", "bp"},
}
_METADATA = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_sort_index": ("sort_index", int),
}


def nanoseconds(microseconds: float) -> int:
    return round(1000 * microseconds)


def events_of(text: str) -> list[Event]:
    """The events of a trace, which is checked first."""
    content = json.loads(text)
    assert content["displayTimeUnit"] in ("ms", "ns")
    events: list[Event] = content["traceEvents"]
    for event in events:
        _check_event(event)
    _check_nesting(events)
    _check_counters(events)
    _check_flows(events)
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} <= named
    assert {e["pid"] for e in events} == {e["pid"] for e in events if e["name"] == "process_name"}
    return events


def _check_event(event: Event) -> None:
    phase = event["ph"]
    assert phase in _NEEDED, event
    missing = _NEEDED[phase] - event.keys()
    assert not missing, (event, missing)
    assert isinstance(event["name"], str)
    assert event["name"], event
    for key in ("pid", "tid", "id"):
        assert isinstance(event.get(key, 0), int), event
    for key in ("ts", "dur"):
        assert isinstance(event.get(key, 0), int | float), event
        assert event.get(key, 0) >= 0, event
    if phase == "M":
        key, kind = _METADATA[event["name"]]
        assert isinstance(event["args"][key], kind), event
    if phase == "C":
        assert event["args"], event
        assert all(isinstance(value, int) for value in event["args"].values()), event
        assert all(value >= 0 for value in event["args"].values()), event
    if phase == "f":
        assert event["bp"] == "e"  # it ends in the slice around it


def slices(events: list[Event], process: int = 1) -> list[Event]:
    return [event for event in events if event["ph"] == "X" and event["pid"] == process]


def _check_nesting(events: list[Event]) -> None:
    threads: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    for found in threads.values():
        open_ends: list[int] = []
        before = 0
        for event in found:  # what encloses others is written before them
            start = nanoseconds(event["ts"])
            end = start + nanoseconds(event["dur"])
            assert start >= before, event
            before = start
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], event
            open_ends.append(end)


def _check_counters(events: list[Event]) -> None:
    last: dict[tuple[int, str], float] = {}
    for event in events:
        if event["ph"] == "C":
            key = event["pid"], event["name"]
            assert event["ts"] >= last.get(key, 0.0), event
            last[key] = event["ts"]


def _check_flows(events: list[Event]) -> None:
    flows: defaultdict[tuple[str, str, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            flows[event["cat"], event["name"], event["id"]].append(event)
    starts = {(e["pid"], e["tid"], nanoseconds(e["ts"])) for e in events if e["ph"] == "X"}
    for stops in flows.values():
        phases = "".join(stop["ph"] for stop in stops)
        assert phases == "s" + "t" * (len(stops) - 2) + "f", stops
        times = [stop["ts"] for stop in stops]
        assert times == sorted(times), stops
        for stop in stops:
            assert (stop["pid"], stop["tid"], nanoseconds(stop["ts"])) in starts, stop


class Counters:
    """What counters of a process stand at, at the moment at which a slice starts."""

    def __init__(self, events: list[Event], process: int = 1) -> None:
        self._samples: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for event in events:
            if event["ph"] == "C" and event["pid"] == process:
                sample = nanoseconds(event["ts"]), event["args"]["bytes"]
                self._samples[event["name"]].append(sample)

    def names(self) -> set[str]:
        return set(self._samples)

    def at(self, name: str, time: int) -> int:
        """After all that happened until then."""
        samples = self._samples[name]
        before = bisect_right(samples, time, key=lambda sample: sample[0])
        return samples[before - 1][1] if before else 0

    def peak(self, name: str) -> int:
        return max((level for _, level in self._samples[name]), default=0)
