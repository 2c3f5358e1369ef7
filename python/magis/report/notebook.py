"""A report in a notebook: a table and a small drawing, which need neither scripts nor a network."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from magis.report.report_words import done, figures, headline
from magis.report.text import bytes_text, printable, seconds_text
from magis.report.timeline import Timeline

if TYPE_CHECKING:
    from magis import _core
    from magis.report.report import Report

_WIDTH, _HEIGHT = 720, 200
_LEFT, _BOTTOM = 8, 20
# Moments of a curve; of more, each stretch's highest.
_MOST_POINTS = 400
_BEFORE, _AFTER, _LIMIT = "#8a93a3", "#2f9e77", "#d0402f"


def report_html(
    report: Report,
    plan: _core.Plan | None,
    device: _core.Device,
    captured: _core.Graph | None,
) -> str:
    """HTML that goes with a light and a dark page alike."""
    parts = [f"<p><b>{_escaped(line)}</b></p>" for line, _ in headline(report)]
    if plan is not None:
        parts.append(_curves(report, plan, device, captured))
    parts.append(_table(figures(report)))
    for line, rows in done(report):
        parts.append(f"<p>{_escaped(line)}</p>")
        if rows:
            parts.append(_table(rows))
    parts.append("<p><code>report.html(&quot;report.html&quot;)</code> writes the whole page.</p>")
    return f'<div class="magis-report">{"".join(parts)}</div>'


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _table(rows: list[tuple[str, ...]]) -> str:
    lines = [
        "<tr>"
        + "".join(f'<td style="text-align:left">{_escaped(cell.strip())}</td>' for cell in row)
        + "</tr>"
        for row in rows
    ]
    return f"<table>{''.join(lines)}</table>"


def _curves(
    report: Report, plan: _core.Plan, device: _core.Device, captured: _core.Graph | None
) -> str:
    """Memory over time, before and after, to one scale."""
    from magis import _core

    graph = plan.graph if captured is None and not plan.graph.altered else captured
    shown = [] if graph is None else [("before", _BEFORE, _core.Plan.program_order(graph))]
    shown.append(("after", _AFTER, plan))
    simulations = [each.simulate(device) for _, _, each in shown]
    most_bytes = 1.05 * max(simulation.peak_bytes for simulation in simulations) or 1
    most_seconds = max(simulation.seconds for simulation in simulations) or 1

    def x(seconds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT) * seconds / most_seconds

    def y(size: float) -> float:
        return (_HEIGHT - _BOTTOM) * (1 - size / most_bytes)

    parts = []
    legend = []
    for (label, colour, each), simulation in zip(shown, simulations, strict=True):
        timeline = Timeline.of(each, simulation, device)
        path = " ".join(
            f"H{x(start):.1f}V{y(simulation.persistent_bytes + live):.1f}"
            for start, live in _thinned(timeline)
        )
        path = f"M{x(0):.1f} {y(0):.1f}{path}H{x(simulation.seconds):.1f}V{y(0):.1f}"
        parts.append(f'<path d="{path}" fill="{colour}" fill-opacity="0.35" stroke="{colour}"/>')
        legend.append(
            f'<span style="color:{colour}">&#9632;</span> {label} '
            f"{bytes_text(simulation.peak_bytes)}, {seconds_text(simulation.seconds)}"
        )
    if 0 < report.limit_bytes <= most_bytes:
        at = f"{y(report.limit_bytes):.1f}"
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{at}" y2="{at}" stroke="{_LIMIT}" '
            'stroke-dasharray="6 4"/>'
        )
        legend.append(
            f'<span style="color:{_LIMIT}">- -</span> limit {bytes_text(report.limit_bytes)}'
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        f'aria-label="memory over time">{"".join(parts)}</svg><p>{" &nbsp; ".join(legend)}</p>'
    )


def _thinned(timeline: Timeline) -> list[tuple[float, int]]:
    """(start, live bytes) of all moments, or of each stretch its highest: the peak is one."""
    points = [(moment.start, moment.live_bytes) for moment in timeline.moments]
    count = -(-len(points) // _MOST_POINTS) or 1
    return [
        (points[begin][0], max(live for _, live in points[begin : begin + count]))
        for begin in range(0, len(points), count)
    ]
