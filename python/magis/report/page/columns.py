"""Tables as columns, with every text once: what makes the page of a large step small."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class Texts:
    """Texts by number, in the order in which they came."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._number: dict[str, int] = {}

    def number(self, text: str) -> int:
        found = self._number.setdefault(text, len(self.all))
        if found == len(self.all):
            self.all.append(text)
        return found


def columns(names: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> Mapping[str, list[Any]]:
    """`{"name": [...], ...}`, of rows as wide as there are names."""
    table: dict[str, list[Any]] = {name: [] for name in names}
    lists = list(table.values())
    for row in rows:
        for values, value in zip(lists, row, strict=True):
            values.append(value)
    return table
