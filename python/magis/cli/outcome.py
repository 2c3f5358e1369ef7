"""What a command hands back: data for machines, a view for people, and an exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from magis.cli.status import LAYOUT, OK, UsageError
from magis.report.text import printable


@dataclass(frozen=True)
class Outcome:
    """Commands print nothing themselves: this is printed once they have succeeded."""

    data: dict[str, Any]
    view: RenderableType
    as_json: bool
    status: int = OK
    warnings: list[str] = field(default_factory=list)

    def show(self) -> int:
        """The JSON object or the view to stdout, warnings to stderr; returns the exit status."""
        if sys.stdout is None:
            raise UsageError("standard output is closed: there is nowhere to print the result")
        try:
            self._print()
        except OSError as error:
            error.filename = "standard output"
            raise
        for warning in self.warnings:
            print(f"magis: warning: {printable(warning, keep=LAYOUT)}", file=sys.stderr)
        return self.status

    def _print(self) -> None:
        if self.as_json:
            print(json.dumps(self.data, indent=2, allow_nan=False))
        else:
            print(_encodable(_rendered(self.view)), end="")
        sys.stdout.flush()


class _PlainConsole(Console):
    """Writes out what files hold and nobody sees: a terminal would obey it."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n"), style, control)


def _rendered(view: RenderableType) -> str:
    """As a string, for this terminal: printing it is left to us, a closed pipe included."""
    # Names and paths are shown as they are: no markup, no emoji, no colours for numbers.
    console = _PlainConsole(markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(view, crop=False)  # lines grow where something is written out
    return captured.get()


def _encodable(text: str) -> str:
    """`text` with what stdout's encoding has no character for (parts of paths, too) escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
