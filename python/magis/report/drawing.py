"""Memory over time as a small drawing that needs neither scripts nor a network."""

from __future__ import annotations

import html
from dataclasses import dataclass

from magis.report.curve import MemoryCurve
from magis.report.text import bytes_text, printable, seconds_text

_WIDTH, _HEIGHT = 720, 200
_LEFT, _BOTTOM = 8, 20
# Told apart on white and on black.
_COLOURS = ("#8a93a3", "#2f9e77")
_LIMIT = "#d0402f"


@dataclass(frozen=True)
class Curve:
    """A run of a step."""

    label: str
    memory: MemoryCurve

    @property
    def peak(self) -> int:
        return max(self.memory.levels)


def drawing(curves: list[Curve], limit_bytes: int = 0) -> str:
    """HTML of one or two curves to one scale, with the limit if it is not far above them, and a
    legend.
    """
    most_bytes = 1.05 * max(curve.peak for curve in curves) or 1
    most_seconds = max(curve.memory.seconds for curve in curves) or 1

    def x(seconds: float) -> str:
        return f"{_LEFT + (_WIDTH - _LEFT) * seconds / most_seconds:.1f}"

    def y(size: float) -> str:
        return f"{(_HEIGHT - _BOTTOM) * (1 - size / most_bytes):.1f}"

    parts, legend = [], []
    for curve, colour in zip(curves, _COLOURS[-len(curves) :], strict=True):
        levels, seconds = curve.memory.levels, curve.memory.seconds
        starts = (seconds * stretch / len(levels) for stretch in range(len(levels)))
        steps = "".join(
            f"H{x(start)}V{y(size)}" for start, size in zip(starts, levels, strict=True)
        )
        path = f"M{x(0)} {y(0)}{steps}H{x(seconds)}V{y(0)}"
        parts.append(f'<path d="{path}" fill="{colour}" fill-opacity="0.35" stroke="{colour}"/>')
        legend.append(
            f'<span style="color:{colour}">&#9632;</span> {html.escape(printable(curve.label))} '
            f"{bytes_text(curve.peak)}, {seconds_text(seconds)}"
        )
    if 0 < limit_bytes <= most_bytes:
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y(limit_bytes)}" y2="{y(limit_bytes)}" '
            f'stroke="{_LIMIT}" stroke-dasharray="6 4"/>'
        )
        legend.append(f'<span style="color:{_LIMIT}">- -</span> limit {bytes_text(limit_bytes)}')
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        f'aria-label="memory over time">{"".join(parts)}</svg><p>{" &nbsp; ".join(legend)}</p>'
    )
