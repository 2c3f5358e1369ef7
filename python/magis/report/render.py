"""Memory reports as rich tables."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from magis.report.curve import CurveView, MemoryCurve
from magis.report.memory import LikeTensors, MemoryReport, Share
from magis.report.module_tree import TreeRow
from magis.report.modules import NO_MODULE
from magis.report.text import (
    bytes_text,
    copies_text,
    part_bytes_text,
    percent_text,
    plural,
    seconds_text,
)
from magis.report.wrapping import Dotted

# Two lines each, so fewer than the data holds.
_MOST_BIGGEST = 10
_MOST_LINES = 8

# Entries of a graph's header that say how it was captured.
_OPTIONS = {
    "zoo_size",
    "zoo_batch",
    "zoo_seq",
    "zoo_image",
    "zoo_dtype",
    "zoo_variant",
    "zoo_dropout",
    "zoo_attention",
    "autocast",
}


def memory_view(report: MemoryReport, curve: MemoryCurve | None = None) -> RenderableType:
    """The whole report: peak, memory over time, breakdowns, biggest tensors, and what magis does
    not know.
    """
    parts: list[RenderableType] = [summary_view(report)]
    if curve is not None and any(curve.levels):
        parts += _section("Memory over a step", CurveView(curve))
    if report.persistent:
        parts += _section("Persistent, by kind", _shares(report.persistent, report.peak_bytes))
    if report.by_kind:
        body = _shares(report.by_kind, report.peak_bytes)
        parts += _section("Live at the peak, by kind", body)
    if report.tree:
        parts += _section("Live at the peak, by module", _tree(report.tree, report.peak_bytes))
    if report.by_operator:
        body = _shares(report.by_operator, report.peak_bytes)
        parts += _section("Live at the peak, by operator", body)
    big = [tensors for tensors in report.biggest if 1000 * tensors.bytes >= report.peak_bytes]
    if big:
        body = _biggest(big[:_MOST_BIGGEST])
        parts += _section("Biggest tensors live at the peak", body)
    if report.swaps is not None:
        parts += _section("Tensors that leave for the host", _biggest(report.swaps.tensors))
    for title, lines in (
        ("Could run in parts", report.regions),
        ("What ends the axis of the batch", report.obstacles),
    ):
        if lines:
            parts += _section(title, _lines(lines))
    if report.whole:
        parts += _section("Operators that are never split", Text(", ".join(report.whole)))
    if report.opaque:
        parts += _section(
            "Operators unknown to magis, never recomputed", Text(", ".join(report.opaque))
        )
    return Group(*parts)


def summary_view(report: MemoryReport) -> RenderableType:
    """The subject, its size, its time and its peak."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    if model := model_text(report.meta):
        table.add_row("model", model)
    if "replay" in report.meta:
        table.add_row("replay", report.meta["replay"])
    recomputed = report.operators_run - report.operators
    operators = plural(report.operators, "operator")
    if recomputed:
        operators += f", {recomputed:,} run again"
    if report.loops:
        operators += ", those in loops counted once"
    table.add_row(report.subject, operators)
    for loop in report.loops:
        parts = f"{plural(loop.part_count, 'part')} of {loop.part:,} of {loop.length:,}"
        table.add_row("split", f"{loop.name} in {parts}")
    table.add_row("time", f"{seconds_text(report.seconds)} a step (profile {report.device})")
    table.add_row(
        "peak",
        Text.assemble(
            (bytes_text(report.peak_bytes), "bold"),
            f" = {bytes_text(report.persistent_bytes)} persistent"
            f" + {bytes_text(report.transient_peak_bytes)} in the step",
        ),
    )
    if report.reserved is not None:
        table.add_row("reserved", str(report.reserved))
    if (swaps := report.swaps) is not None:
        moved = copies_text(
            swaps.bytes_to_host, swaps.bytes_to_device, swaps.copy_seconds, swaps.exposed_seconds
        )
        table.add_row("host", f"{bytes_text(swaps.host_bytes)} at most; {moved}")
    if report.peak_operator:
        place = _place(
            report.peak_operator, report.peak_module, report.peak_source, report.peak_loop
        )
        table.add_row("reached in", Dotted(place))
    return table


def model_text(meta: Mapping[str, str]) -> str:
    """What was captured, as it would be asked for, and what updates it: "bert --size full --batch
    32, with AdamW"; "" if the graph does not say.
    """
    options = {key.removeprefix("zoo_"): text for key, text in meta.items() if key in _OPTIONS}
    words = [meta.get("model", ""), *(f"--{key} {text}" for key, text in options.items())]
    model = " ".join(word for word in words if word)
    optimizer = meta.get("optimizer")
    return f"{model or 'training step'}, with {optimizer}" if optimizer else model


def _place(operator: str, module: str, source: str, loop: str) -> str:
    words = (operator, module and f"of {module}", source and f"({source})", loop)
    return " ".join(word for word in words if word)


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return [Text(""), Text(title, style="bold"), Padding(body, (0, 0, 0, 2), expand=False)]


def _lines(lines: list[str]) -> RenderableType:
    more = len(lines) - _MOST_LINES
    shown = lines[:_MOST_LINES] + ([f"and {more:,} more"] if more > 0 else [])
    return Group(*map(Dotted, shown))


def _shares(shares: list[Share], peak: int, depths: list[int] | None = None) -> Table:
    """depths: how far the names are indented."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for share, depth in zip(shares, depths or [0] * len(shares), strict=True):
        count = f" ({share.tensors:,})" if share.tensors else ""
        name = Dotted(share.name + count)
        indented = Padding(name, (0, 0, 0, 2 * depth))
        table.add_row(bytes_text(share.bytes), percent_text(share.bytes, peak), indented)
    return table


def _tree(rows: list[TreeRow], peak: int) -> Table:
    shares = [Share(row.name, row.bytes, row.tensors) for row in rows]
    return _shares(shares, peak, [row.depth for row in rows])


def _biggest(groups: list[LikeTensors]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for tensors in groups:
        count = len(tensors.names)
        who = f"%{tensors.names[0]}" if count == 1 else f"{count} x"
        table.add_row(
            part_bytes_text(tensors.bytes, tensors.parts),
            f"{who} {tensors.type}, {tensors.operator}",
        )
        place = f"{tensors.module or NO_MODULE}  {tensors.source}".rstrip()
        table.add_row("", Dotted(place, style="dim"))
    return table
