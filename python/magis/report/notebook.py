"""A report in a notebook: a table and a small drawing, which need neither scripts nor a network."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from magis.report.curve import MemoryCurve
from magis.report.drawing import Curve, drawing
from magis.report.report_words import done, figures, headline
from magis.report.text import printable
from magis.report.timeline import Timeline

if TYPE_CHECKING:
    from magis import _core
    from magis.report.report import Report


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


_LEFT = "text-align:left"


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _table(rows: list[tuple[str, ...]]) -> str:
    styles = [_LEFT + ";white-space:nowrap", *(_LEFT for _ in rows[0][1:])] if rows else []
    lines = [
        "<tr>"
        + "".join(
            f'<td style="{style}">{_escaped(cell.strip())}</td>'
            for style, cell in zip(styles, row, strict=True)
        )
        + "</tr>"
        for row in rows
    ]
    return f"<table>{''.join(lines)}</table>"


def _curves(
    report: Report, plan: _core.Plan, device: _core.Device, captured: _core.Graph | None
) -> str:
    """Memory over time, before and after."""
    from magis import _core

    graph = plan.graph if captured is None and not plan.graph.altered else captured
    shown = [] if graph is None else [("before", _core.Plan.program_order(graph))]
    curves = [_curve(label, each, device) for label, each in [*shown, ("after", plan)]]
    return drawing(curves, report.limit_bytes)


def _curve(label: str, plan: _core.Plan, device: _core.Device) -> Curve:
    simulation = plan.simulate(device)
    timeline = Timeline.of(plan, simulation, device)
    return Curve(label, MemoryCurve.of(timeline, simulation))
