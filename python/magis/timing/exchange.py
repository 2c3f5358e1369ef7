"""The performance cache as text, to be carried to another machine of the same kind.

One JSON object a line: the first says what the file is, the others are one call each.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from magis.errors import MagisError
from magis.timing.cache import PerformanceCache
from magis.timing.entries import Entry, entry_from
from magis.timing.machine import Machine

FORMAT = 1
_MACHINE = ("device", "driver", "libraries", "threads")
_ENTRY = ("seconds", "spread", "samples", "workspace", "clock", "failure")


def export_text(cache: PerformanceCache) -> str:
    """Everything in the cache, machines and calls in a fixed order."""
    lines = [json.dumps({"magis": "performance cache", "format": FORMAT})]
    for machine, _, _ in cache.machines():
        fields = {name: getattr(machine, name) for name in _MACHINE}
        for call, entry in sorted(cache.entries(machine).items()):
            values = {name: getattr(entry, name) for name in _ENTRY}
            lines.append(json.dumps({**fields, "call": call, **values}))
    return "\n".join(lines) + "\n"


def import_text(cache: PerformanceCache, text: str, name: str) -> tuple[int, int]:
    """Adds what `export_text` wrote; how many calls were new, and how many were there already with
    as many samples or more, and were left as they are.

    Raises MagisError with the line of what cannot be read; nothing is added then.
    """
    rows: defaultdict[Machine, dict[str, Entry]] = defaultdict(dict)
    for machine, call, entry in _rows(text, name):
        rows[machine][call] = entry
    added = kept = 0
    for machine, entries in rows.items():
        known = cache.entries(machine)
        new = {
            call: entry
            for call, entry in entries.items()
            if call not in known or known[call].samples < entry.samples
        }
        cache.store(machine, new)
        added += len(new)
        kept += len(entries) - len(new)
    return added, kept


def _rows(text: str, name: str) -> Iterator[tuple[Machine, str, Entry]]:
    lines = text.splitlines()
    header = _object(lines[0] if lines else "", f"{name}:1")
    if header.get("magis") != "performance cache":
        raise MagisError(f"{name} was not written by `magis cache export`")
    if header.get("format") != FORMAT:
        raise MagisError(
            f"{name} has format {header.get('format')!r}, this magis reads {FORMAT}: export it "
            "again with this version"
        )
    for number, line in enumerate(lines[1:], start=2):
        place = f"{name}:{number}"
        row = _object(line, place)
        try:
            names = [_of(row, field, str) for field in _MACHINE[:3]]
            machine = Machine(names[0], names[1], names[2], _of(row, "threads", int))
            yield machine, _of(row, "call", str), entry_from(row)
        except (KeyError, MagisError) as error:
            raise MagisError(f"{place}: {error}") from None


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        raise MagisError(f"{place}: not a line of `magis cache export`") from None
    if not isinstance(found, dict):
        raise MagisError(f"{place}: not a line of `magis cache export`")
    return found


def _of(row: dict[str, Any], field: str, kind: type) -> Any:
    value = row[field]
    if not isinstance(value, kind):
        raise MagisError(f"{field} is {value!r}, not of type {kind.__name__}")
    return value
