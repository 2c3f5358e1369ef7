"""Plotly traces and layouts in the page's own colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.experiment import PLANNER_NAMES, Chart

Trace = dict[str, Any]

# Distinguishable on light and dark ground; ours stand out.
_COLOURS = {
    "pytorch": "#8a8f98",
    "inductor-order": "#a8a29a",
    "tvm": "#c0b49c",
    "chen": "#7fb3d5",
    "rotor": "#5499c7",
    "pofo": "#2e86c1",
    "checkmate": "#48a999",
    "dtr": "#52be80",
    "xla": "#9ccc65",
    "capuchin": "#af7ac5",
    "microbatch": "#d7a6e0",
    "microbatch+pofo": "#8e6bbf",
    "torch-budget": "#e59866",
    "magis-paper": "#f1948a",
    "magis": "#e03131",
}
assert list(_COLOURS) == list(PLANNER_NAMES)
_MORE = ("#f59f00", "#1098ad", "#52be80", "#af7ac5", "#a0522d", "#5c7cfa", "#8a8f98")

GROUND = "#888888"  # of what belongs to no planner


def colour(name: str, position: int = 0) -> str:
    return _COLOURS.get(name, _MORE[position % len(_MORE)])


def bars(name: str, x: Sequence[str], y: Sequence[float | None], hover: Sequence[str]) -> Trace:
    return {
        "type": "bar",
        "name": name,
        "x": list(x),
        "y": list(y),
        "hovertext": list(hover),
        "hoverinfo": "text",
        "marker": {"color": colour(name)},
    }


def hollow(name: str, x: Sequence[Any], y: Sequence[float | None], symbol: str) -> Trace:
    """The paper's own figures."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": list(x),
        "y": list(y),
        "marker": {
            "symbol": f"{symbol}-open",
            "size": 11,
            "color": "#d4a017",
            "line": {"width": 2},
        },
    }


def line(
    name: str, x: Sequence[float], y: Sequence[float], position: int = 0, **more: Any
) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": colour(name, position)},
        "marker": {"size": 5},
    } | more


def chart(traces: Sequence[Trace], x: str, y: str, **layout: Any) -> Chart:
    return {
        "data": list(traces),
        "layout": {
            "xaxis": {"title": {"text": x}} | layout.pop("xaxis", {}),
            "yaxis": {"title": {"text": y}, "rangemode": "tozero", "automargin": True}
            | layout.pop("yaxis", {}),
            "legend": {"orientation": "h", "y": -0.2},
            "margin": {"l": 60, "r": 20, "t": 20, "b": 60},
            "height": 440,
        }
        | layout,
    }
