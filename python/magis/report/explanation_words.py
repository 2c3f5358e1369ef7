"""An explanation as people read it: on a terminal, in a notebook, in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magis.report.modules import NO_MODULE
from magis.report.text import bytes_text, part_bytes_text, plural, printable, seconds_text

if TYPE_CHECKING:
    from rich.console import RenderableType

Item = dict[str, Any]

_MOST_GROUPS = 12
_MOST_AT_PEAK = 8

STEPS = {
    "capture": "capturing it, which frees tensors at another time",
    "rewrite": "rewriting operators",
    "rewrite_and_split": "rewriting operators, and running regions in parts",
    "split": "running regions in parts",
    "reorder": "the order of operators alone",
    "recompute": "recomputing",
    "swap": "keeping tensors on the host for a while",
}


@dataclass(frozen=True)
class Line:
    """Cells of a table's row, or one cell of running text; titles stand out."""

    cells: tuple[str, ...]
    is_title: bool = False


@dataclass(frozen=True)
class Explanation:
    """What `magis.report.explanation.explain` found, to be printed."""

    items: list[Item]

    def to_json(self) -> list[Item]:
        """The items; numbers are bytes and seconds."""
        return self.items

    def lines(self) -> list[Line]:
        """Everything that is said, a title before each section."""
        return [line for section in _sections(self.items) for line in section]

    def __str__(self) -> str:
        texts: list[str] = []
        for section in _sections(self.items):
            widths = _widths(section)
            for line in section:
                indent = "" if line.is_title else "  "
                texts.append(printable(indent + _joined(line, widths)).rstrip())
            texts.append("")
        return "\n".join(texts[:-1])

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        from magis.report.wrapping import Dotted

        parts: list[RenderableType] = []
        for section in _sections(self.items):
            parts += [Text("")] if parts else []
            widths = _widths(section)
            for line in section:
                if line.is_title:
                    parts.append(Dotted(line.cells[0], style="bold"))
                    continue
                table = Table.grid(padding=(0, 2, 0, 0))
                for width in widths[: len(line.cells) - 1]:
                    table.add_column(no_wrap=True, min_width=width, justify="right")
                table.add_column(overflow="fold")
                table.add_row(*map(Text, map(printable, line.cells[:-1])), Dotted(line.cells[-1]))
                parts.append(Padding(table, (0, 0, 0, 2), expand=False))
        return Group(*parts)


def _widths(section: list[Line]) -> list[int]:
    """Of the columns but the last, which is as wide as there is room."""
    rows = [line.cells[:-1] for line in section]
    count = max(map(len, rows))
    return [max(len(row[i]) for row in rows if len(row) > i) for i in range(count)]


def _joined(line: Line, widths: list[int]) -> str:
    cells = [cell.rjust(width) for cell, width in zip(line.cells[:-1], widths, strict=False)]
    return "  ".join([*cells, line.cells[-1]])


def _sections(items: list[Item]) -> Iterator[list[Line]]:
    by_kind: dict[str, list[Item]] = {}
    for item in items:
        by_kind.setdefault(item["kind"], []).append(item)
    yield list(_way_down(by_kind))
    if rewrites := by_kind.get("rewrite"):
        yield list(_rewrites(rewrites))
    for item in by_kind.get("split", []):
        yield list(_split(item))
    for kind, title in (("recompute", "Recomputed"), ("swap", "Kept on the host for a while")):
        if groups := by_kind.get(kind):
            yield list(_groups(title, groups))
    yield list(_new_peak(by_kind["peak"][0]))
    if limits := list(_limits(by_kind)):
        yield limits


def _title(text: str) -> Line:
    return Line((text,), is_title=True)


def _text(text: str) -> Line:
    return Line((text,))


def _way_down(by_kind: dict[str, list[Item]]) -> Iterator[Line]:
    start, steps = by_kind["start"][0], by_kind.get("step", [])
    yield _title("How the peak came down" if steps else "Nothing was changed")
    yield Line((bytes_text(start["peak_bytes"]), seconds_text(start["seconds"]), start["source"]))
    for step in steps:
        yield Line(
            (
                _signed(bytes_text, -step["saved_bytes"]),
                _signed(seconds_text, step["cost_seconds"]),
                STEPS[step["by"]],
            )
        )
    if steps:
        last = steps[-1]
        yield Line((bytes_text(last["peak_bytes"]), seconds_text(last["seconds"]), "the plan"))


def _rewrites(items: list[Item]) -> Iterator[Line]:
    yield _title("Operators that were rewritten")
    for item in items:
        yield Line((f"{item['times']:,} x", f"{item['description']} ({item['rule']})"))


def _split(item: Item) -> Iterator[Line]:
    parts = f"{plural(item['parts'], 'part')} of {item['part']:,}"
    if rest := item["length"] % item["part"]:
        parts += f", the last of {rest:,}"
    inside = f", inside every part of {item['inside']}" if item["inside"] else ""
    yield _title(f"{item['loop']}: {axis_text(item['axis'], item['length'])}, {parts}{inside}")
    if item["first"] is not None:
        yield _text(
            f"{plural(item['operators'], 'operator')}, from {place_text(item['first'])} "
            f"to {place_text(item['last'])}"
        )
    if "whole_bytes" in item:
        yield from _became_parts(item)
    results = [
        f"{bytes_text(item[key])} {words}"
        for key, words in (
            ("concatenated_bytes", "that it puts side by side"),
            ("combined_bytes", "that it adds up over its parts"),
        )
        if item[key]
    ]
    if results:
        yield _text(f"whole from its begin on: {' and '.join(results)}")


def _became_parts(item: Item) -> Iterator[Line]:
    if not item["whole_bytes"]:
        yield _text("nothing that stood at the old peak is made in it")
        return
    yield _text(
        f"of what stood at the old peak, {bytes_text(item['whole_bytes'])} are made in it, and are "
        f"{bytes_text(item['part_bytes'])} now:"
    )
    for group in item["held"]:
        who = f"{group['tensors']:,} x {group['operator']}, {group['module'] or NO_MODULE}"
        yield Line((bytes_text(group["whole_bytes"]), bytes_text(group["part_bytes"]), who))


def axis_text(axis: Item, length: int) -> str:
    """ "the batch axis of %input_ids (32)", or another dimension of what is sliced."""
    name = f"%{axis['tensor']}"
    if not axis["tensor"]:
        return f"an axis of {length:,}"
    if axis["kind"] == "batch" and axis["dimension"] == 0 and not axis["is_view"]:
        return f"batch axis of {name} ({length:,})"
    owner = f"{name} {axis['type']}"
    if axis["is_view"]:
        owner = f"a view of {owner}"
    where = axis["path"] or axis["module"]
    if where:
        owner += f", {where}"
    return f"dimension {axis['dimension']} of {owner} ({length:,})"


def place_text(place: Item) -> str:
    where = place["module"] or place["source"] or NO_MODULE
    return f"{place['operator']} of {where}" + (" (backward)" if place["backward"] else "")


def _groups(title: str, groups: list[Item]) -> Iterator[Line]:
    yield _title(f"{title}: the peak would be higher, the step faster, by so much without each")
    for group in groups[:_MOST_GROUPS]:
        yield Line(
            (
                _signed(bytes_text, group["saved_bytes"]),
                seconds_text(group["cost_seconds"]),
                _group_text(group),
            )
        )
        if details := _details(group):
            yield Line(("", "", details))
    if rest := groups[_MOST_GROUPS:]:
        size = bytes_text(sum(group["bytes"] for group in rest))
        yield Line(("", "", f"and {plural(len(rest), 'group')} more, {size}"))


def _group_text(group: Item) -> str:
    size = part_bytes_text(group["bytes"], group["parts"])
    text = f"{group['tensors']:,} x {group['operator']}, {size}"
    if group["between"]:
        text += f" between {group['between']}"
    if group["times"] != group["tensors"]:
        text += f", {group['times']:,} times a step"
    return text


def _details(group: Item) -> str:
    """Where a group is, and what of its copies the step does not wait for."""
    words = [] if group["operator"] == "others" else [group["module"] or NO_MODULE]
    if group["kind"] == "swap":
        copying, hidden = group["copy_seconds"], group["hidden_seconds"]
        share = "all" if hidden >= 0.9995 * copying else seconds_text(hidden)
        words.append(f"copying {seconds_text(copying)}, {share} hidden")
    return "; ".join(words)


def _new_peak(peak: Item) -> Iterator[Line]:
    place = " ".join(
        word
        for word in (
            peak["operator"],
            peak["module"] and f"of {peak['module']}",
            peak["source"] and f"({peak['source']})",
            peak["loop"],
        )
        if word
    )
    yield _title(f"At the peak of {bytes_text(peak['bytes'])}" + (f", in {place}" if place else ""))
    rows = []
    for share in peak["persistent"]:
        count = f" ({share['tensors']:,})" if share["tensors"] else ""
        rows.append((share["bytes"], share["name"] + count))
    for tensor in peak["tensors"][:_MOST_AT_PEAK]:
        many = tensor["tensors"] > 1
        who = f"{tensor['tensors']:,} x" if many else f"%{tensor['name']}"
        what = f"{who} {tensor['type']}, {tensor['kind']}: {tensor['operator']}"
        rows.append((tensor["bytes"], f"{what} of {tensor['module'] or NO_MODULE}"))
    if peak["workspace_bytes"]:
        rows.append((peak["workspace_bytes"], "workspace of the running operator"))
    others = peak["other_bytes"] + sum(t["bytes"] for t in peak["tensors"][_MOST_AT_PEAK:])
    if others:
        rows.append((others, "other tensors"))
    for size, text in sorted(rows, key=lambda row: (row[1] == "other tensors", -row[0])):
        yield Line((bytes_text(size), text))


def _limits(by_kind: dict[str, list[Item]]) -> Iterator[Line]:
    for limit in by_kind.get("limit", []):
        if not limit["met"]:
            yield _title(f"The limit is not met: {limit['limit']}. This is the best plan found")
    for bound in by_kind.get("bound", []):
        above = bound["above_bytes"]
        distance = f"{bytes_text(above)} above it" if above > 0 else "at it"
        yield _title(f"No plan stays below {bytes_text(bound['bytes'])}; this one is {distance}")
        if bound["reason"]:
            yield _text(bound["reason"])
    for bound in by_kind.get("time bound", []):
        yield _title(f"Bound on time: {bound['words'][0]}")
        yield from map(_text, bound["words"][1:])


def _signed(text: Any, value: float) -> str:
    """With its sign; nothing is "0 B"."""
    if value == 0:
        return str(text(value))
    return f"{'+' if value > 0 else '-'} {text(abs(value))}"
