"""Two plans side by side: their figures, what each does, what is live at their peaks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from magis.report.edits import Edit, parts_of
from magis.report.explanation_words import axis_text
from magis.report.loops import read_loops
from magis.report.memory import LiveAtPeak, live_at_peak
from magis.report.modules import NO_MODULE, without_layer_number
from magis.report.split_axes import SplitAxes
from magis.report.text import bytes_text, part_bytes_text, plural, seconds_text

if TYPE_CHECKING:
    from magis import _core
    from magis.report.report import Report

# Rows of a table; those that differ most.
_MOST_ROWS = 15
_NONE = "-"
# A change to more than so many times as much is not told in per cent.
_MOST_TIMES = 10


@dataclass(frozen=True)
class Side:
    """One of the two: a plan, the profile that times come from, its report if it has one."""

    name: str
    plan: _core.Plan
    device: _core.Device
    edits: list[Edit]
    report: Report | None = None


@dataclass(frozen=True)
class Section:
    """A table: a name for each row, then a column for each side, then what changed."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)  # columns that hold no numbers

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def differences(a: Side, b: Side) -> list[Section]:
    """Sections that hold something; the first is always there."""
    found = [_figures(a, b), _rewrites(a, b), _splits(a, b)]
    for kind, title in (("recompute", "Computed again"), ("swap", "On the host for a while")):
        found.append(_moved(a, b, kind, title))
    found.append(_at_peak(a, b, "Live at the peak, by kind", lambda tensor: tensor.kind))
    found.append(_at_peak(a, b, "Live at the peak, by module", _module))
    return [found[0], *(section for section in found[1:] if section.rows)]


def _figures(a: Side, b: Side) -> Section:
    sides = [side.plan.simulate(side.device) for side in (a, b)]
    section = Section("Figures", ["", a.name, b.name, "change"])
    rows: list[tuple[str, Callable[[Any], str], list[Any]]] = [
        ("peak", bytes_text, [side.peak_bytes for side in sides]),
        ("persistent", bytes_text, [side.persistent_bytes for side in sides]),
        ("in the step", bytes_text, [side.transient_peak_bytes for side in sides]),
        ("time", seconds_text, [side.seconds for side in sides]),
        ("waiting for copies", seconds_text, [side.exposed_seconds for side in sides]),
        ("on the host", bytes_text, [side.host_peak_bytes for side in sides]),
        ("to the host", bytes_text, [side.bytes_to_host for side in sides]),
        ("operators, in loops once", _count, [side.plan.operators_run() for side in (a, b)]),
        ("of these run again", _count, [len(side.plan.recomputed()) for side in (a, b)]),
        ("regions in parts", _count, [side.plan.graph.loop_count for side in (a, b)]),
    ]
    for name, text, values in rows:
        if any(values):
            section.rows.append([name, *map(text, values), _change(text, *values)])
    if a.device != b.device and str(a.device) != str(b.device):
        section.rows.append(["profile", str(a.device), str(b.device), ""])
    if a.report is not None and b.report is not None and a.report.limit != b.report.limit:
        section.rows.append(["limit", a.report.limit, b.report.limit, ""])
    return section


def _count(value: int) -> str:
    return f"{value:,}"


def _change(text: Callable[[Any], str], before: float, after: float) -> str:
    """ "+1.00 GiB (+8.0 %)"; "" where nothing changed."""
    if before == after:
        return ""
    change = f"{'+' if after > before else '-'}{text(abs(after - before))}"
    told = before and after / before < _MOST_TIMES
    return f"{change} ({100 * (after / before - 1):+.1f} %)" if told else change


def _rewrites(a: Side, b: Side) -> Section:
    section = Section("Rewritten", ["rule", a.name, b.name])
    rules = [dict(side.plan.graph.rewrites) for side in (a, b)]
    for rule in sorted({*rules[0], *rules[1]}):
        times = [found.get(rule, 0) for found in rules]
        if times[0] != times[1]:
            section.rows.append([rule, *(f"{count:,} x" if count else _NONE for count in times)])
    return section


def _splits(a: Side, b: Side) -> Section:
    section = Section("In parts", ["axis", a.name, b.name])
    told: dict[str, list[str]] = defaultdict(lambda: [_NONE, _NONE])
    for position, side in enumerate((a, b)):
        loops = read_loops(side.plan.graph.text())
        axes = SplitAxes(side.plan.graph, loops)
        operators = {e["loop"]: e["operators"] for e in side.edits if e["kind"] == "split"}
        for loop in loops.loops.values():
            words = f"{plural(loop.part_count, 'part')} of {loop.part:,}"
            if loop.name in operators:
                words += f", {plural(operators[loop.name], 'operator')}"
            row = told[axis_text(axes.of(loop.name), loop.length)]
            row[position] = words if row[position] == _NONE else f"{row[position]}; {words}"
    section.rows.extend([axis, *row] for axis, row in told.items() if row[0] != row[1])
    return section


def _moved(a: Side, b: Side, kind: str, title: str) -> Section:
    section = Section(title, ["operator", a.name, b.name, "change"])
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    groups: dict[str, tuple[list[Edit], list[Edit]]] = defaultdict(lambda: ([], []))
    for position, side in enumerate((a, b)):
        for edit in side.edits:
            if edit["kind"] == kind:
                where = without_layer_number(edit["module"]) or NO_MODULE
                who = f"{edit['operator']}, {where}"
                sizes[who][position] += edit["bytes"]
                groups[who][position].append(edit)
    for who, size in _most_changed(sizes):
        cells = [
            f"{len(group):,} x, {part_bytes_text(held, parts_of(group))}" if group else _NONE
            for group, held in zip(groups[who], size, strict=True)
        ]
        parts = {parts_of(group) for group in groups[who] if group}
        change = _change(bytes_text, *size) if parts == {1} else ""  # wholes, not parts
        section.rows.append([who, *cells, change])
    return section


def _module(tensor: LiveAtPeak) -> str:
    return without_layer_number(tensor.module) or NO_MODULE


def _at_peak(a: Side, b: Side, title: str, group: Callable[[LiveAtPeak], str]) -> Section:
    section = Section(title, ["", a.name, b.name, "change"])
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for position, side in enumerate((a, b)):
        simulation = side.plan.simulate(side.device)
        live = live_at_peak(side.plan, simulation, read_loops(side.plan.graph.text()))
        for tensor in live:
            sizes[group(tensor)][position] += tensor.bytes
    for name, size in _most_changed(sizes):
        cells = [bytes_text(held) if held else _NONE for held in size]
        section.rows.append([name, *cells, _change(bytes_text, *size)])
    return section


def _most_changed(sizes: dict[str, list[int]]) -> Iterable[tuple[str, list[int]]]:
    changed = [(name, size) for name, size in sizes.items() if size[0] != size[1]]
    changed.sort(key=lambda entry: (-abs(entry[1][1] - entry[1][0]), entry[0]))
    return changed[:_MOST_ROWS]
