"""The analytic model fitted to what was measured on one machine.

Of each operator, log(measured) is a straight line in log(modelled): its slope says that small calls
reach less of the device's peak, its height how much of it large ones reach. Fitted by least squares
with Huber's weights, so that a few odd shapes do not count more than the others; the fewer calls,
the nearer the slope stays to 1.
"""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

from magis import _core
from magis.errors import MagisError
from magis.timing.calls import graph_text
from magis.timing.entries import Entry, Fit

# Differences of logarithms beyond this count less: about a tenth of the time.
_ODD = 0.1
# As if so many units of squared spread spoke for the slope 1.
_FOR_SLOPE_ONE = 0.5
_SLOPES = (0.5, 1.5)
_STEPS = 20
_FEWEST_CALLS = 2
# A fit needs no more; a cache may hold a million.
_MOST_CALLS = 4000
_OTHERS = ""


def calibrate(entries: Mapping[str, Entry], profile: str) -> dict[str, Fit]:
    """Fits to the model of `profile`, by operator; "" is for those with too few calls. Empty if
    nothing was measured.
    """
    keys = [key for key, entry in entries.items() if entry.seconds > 0]
    keys = sorted(keys, key=lambda key: zlib.crc32(key.encode()))[:_MOST_CALLS]
    return fit_calls(modelled_and_measured({key: entries[key] for key in keys}, profile))


def modelled_and_measured(
    entries: Mapping[str, Entry], profile: str
) -> list[tuple[str, float, float]]:
    """(operator, modelled seconds, measured seconds); calls that make no graph are left out."""
    found = []
    for key, entry in entries.items():
        try:
            graph = _core.Graph.parse(graph_text(key)[0], "call")
        except MagisError:  # what writes parts stands in loops alone
            continue
        seconds = _core.Plan.program_order(graph).simulate(profile).seconds
        if seconds > 0 and entry.seconds > 0:
            found.append((key.partition("(")[0], seconds, entry.seconds))
    return found


def fit_calls(calls: Sequence[tuple[str, float, float]]) -> dict[str, Fit]:
    """Fits by operator to (operator, modelled seconds, measured seconds)."""
    if not calls:
        return {}
    points: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for operator, modelled, measured in calls:
        points[operator].append((math.log(modelled), math.log(measured)))
    fits = {operator: _line(own) for operator, own in points.items() if len(own) >= _FEWEST_CALLS}
    height = median(y - x for own in points.values() for x, y in own)
    fits[_OTHERS] = Fit(math.exp(height), 1.0, len(calls))
    return fits


def _line(points: list[tuple[float, float]]) -> Fit:
    height, slope = median(y - x for x, y in points), 1.0
    for _ in range(_STEPS):
        weights = [1 / max(1.0, abs(y - height - slope * x) / _ODD) for x, y in points]
        total = sum(weights)
        middle_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
        middle_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
        spread = both = _FOR_SLOPE_ONE
        for w, (x, y) in zip(weights, points, strict=True):
            spread += w * (x - middle_x) ** 2
            both += w * (x - middle_x) * (y - middle_y)
        slope = min(max(both / spread, _SLOPES[0]), _SLOPES[1])
        height = middle_y - slope * middle_x
    return Fit(math.exp(height), slope, len(points))
