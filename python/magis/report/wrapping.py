"""Module paths and source lines in tables: broken after dots and slashes, never inside a name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.style import StyleType
from rich.text import Text

from magis.report.text import printable

_PIECES = re.compile(r"[^./]*[./]+|[^./]+")


class Dotted:
    """Text that is broken at spaces, and where that is not enough after dots and slashes. Control
    characters, which a terminal would obey, are written as `\\x1b`.
    """

    def __init__(self, text: str, style: StyleType = "") -> None:
        self._text = printable(text)
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(broken(self._text, options.max_width)), style=self._style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        pieces = [piece for word in self._text.split() for piece in _PIECES.findall(word)]
        longest = max(map(len, pieces), default=0)
        return Measurement(longest, len(self._text)).with_maximum(options.max_width)


class Named:
    """Rows of a table whose last cell is a name. Where a name has no room beside the other cells,
    which are as wide in every row, it stands on lines of its own below them.
    """

    def __init__(self, rows: Sequence[tuple[str, ...]]) -> None:
        self._rows = [tuple(map(printable, row)) for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for *cells, name in self._rows:
            beside = "  ".join(cells)
            if len(beside) + 2 + len(name) <= options.max_width:
                yield Text(f"{beside}  {name}".rstrip())
                continue
            indent = " " * (len(cells[0]) + 2)
            yield Text(beside.rstrip())
            for line in broken(name, options.max_width - len(indent)):
                yield Text(indent + line)


def broken(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns; longer only where a name alone is longer.

    Between words where that is enough; within a word, after dots and slashes.
    """
    lines = [""]
    for word in text.split(" "):
        start = lines[-1] + " " if lines[-1] else ""
        if len(start) + len(word) <= width:
            lines[-1] = start + word
            continue
        if lines[-1]:
            lines.append("")
        for piece in _PIECES.findall(word):
            if lines[-1] and len(lines[-1]) + len(piece) > width:
                lines.append("")
            lines[-1] += piece
    return lines
