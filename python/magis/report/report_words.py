"""A report in words: its headline, its figures, what was done to whom."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from magis.report.edits import Edit, parts_of
from magis.report.modules import NO_MODULE, without_layer_number
from magis.report.text import (
    bytes_text,
    change_text,
    copies_text,
    part_bytes_text,
    percent_text,
    plural,
    seconds_text,
)

if TYPE_CHECKING:
    from magis.report.report import Report

# What is recomputed or swapped is listed one line per (operator, module); more lines than this are
# summed up.
_MOST_LINES = 12

DONE_TITLE = "What was done"
TIMES_TITLE = "Times, promised and measured"

STOP_REASONS = {
    "converged": "nothing was left to try",
    "time_budget": "the time budget was used up",
    "state_budget": "the state budget was used up",
    "interrupted": "it was interrupted",
    "kept": "the plan was kept from an earlier run",
}


def headline(report: Report) -> list[tuple[str, str]]:
    """Lines and their styles: what was gained, and whether the limit holds."""
    before, after = report.baseline_peak_bytes, report.promised_peak_bytes
    lines = []
    if report.gained:
        share = percent_text(after, before)
        text = f"Peak memory {bytes_text(before)} -> {bytes_text(after)} ({share} of before), "
        lines.append(
            (text + f"time {change_text(report.seconds, report.baseline_seconds)}", "bold")
        )
    else:
        lines.append(("NOTHING WAS GAINED: " + _why_nothing(report), "bold red"))
    if not report.met:
        lines.append((f"LIMIT NOT MET: {report.limit}. This is the best plan found.", "bold red"))
    return lines


def _why_nothing(report: Report) -> str:
    peak = bytes_text(report.promised_peak_bytes)
    if report.promised_peak_bytes > report.baseline_peak_bytes:
        return f"the peak is {peak}, more than {bytes_text(report.baseline_peak_bytes)} before."
    if report.promised_peak_bytes <= report.lower_bound_bytes:
        return f"the peak stays {peak}, which is the lower bound already."
    if report.stop_reason == "converged":
        if report.met:
            return f"the peak stays {peak}; it keeps the limit as it is, nothing was left to try."
        return f"the peak stays {peak}; no order and no recomputation lowers it within the limit."
    reason = STOP_REASONS.get(report.stop_reason, report.stop_reason)
    return f"the peak stays {peak}. The search ended because {reason}."


def figures(report: Report) -> list[tuple[str, ...]]:
    """(what, figures) pairs."""
    above = report.promised_peak_bytes - report.lower_bound_bytes
    distance = f"the plan is {bytes_text(above)} above it" if above > 0 else "the plan reaches it"
    reason = STOP_REASONS.get(report.stop_reason, report.stop_reason)
    rows = [
        ("limit", f"{report.limit}: {'met' if report.met else 'not met'}"),
        (
            "promised",
            f"{bytes_text(report.promised_peak_bytes)} = {bytes_text(report.persistent_bytes)}"
            f" persistent + {bytes_text(report.transient_peak_bytes)} in the step",
        ),
        (
            "host",
            f"{bytes_text(report.host_bytes)} at most for tensors that leave the device"
            if report.host_bytes
            else "",
        ),
        ("before", f"{bytes_text(report.baseline_peak_bytes)} ({report.baseline_source})"),
        ("reserved", _reserved_text(report)),
        (
            "time",
            f"{seconds_text(report.seconds)}, before {seconds_text(report.baseline_seconds)}"
            f" (profile {report.device})",
        ),
        ("", report.times),
        ("lower bound", f"{bytes_text(report.lower_bound_bytes)}; {distance}"),
        ("", report.lower_bound_reason),
        *_time_bound_rows(report),
        (
            "search",
            f"{report.states_scored:,} states scored, {report.states_evaluated:,} evaluated"
            f" in {seconds_text(report.wall_seconds)}; {reason}",
        ),
        ("replay", report.replayed),
    ]
    return [(name, text) for name, text in rows if text]


def _time_bound_rows(report: Report) -> list[tuple[str, str]]:
    rows = report.time_bound.rows() if report.time_bound is not None else []
    return [("" if number else "time bound", text) for number, text in enumerate(rows)]


def _reserved_text(report: Report) -> str:
    if report.reserved is None:
        return ""
    return f"{report.reserved}, before {bytes_text(report.baseline_reserved_bytes)} (predicted)"


def done(report: Report) -> list[tuple[str, list[tuple[str, ...]]]]:
    """(what was done, to whom: rows of a table)."""
    lines = []
    rules = [f"{e['rule']} {e['times']:,} x" for e in report.edits if e["kind"] == "rewrite"]
    if rules:
        lines.append("rewritten: " + ", ".join(rules))
    for edit in report.edits:
        if edit["kind"] == "reorder":
            moved = plural(edit["moved"], "operator")
            lines.append(f"order changed: {moved} of {edit['operators']:,} moved")
        if edit["kind"] == "split":
            parts = f"{plural(edit['parts'], 'part')} of {edit['part']:,} of {edit['length']:,}"
            if rest := edit["length"] % edit["part"]:
                parts += f", the last of {rest:,}"
            lines.append(
                f"split: {plural(edit['operators'], 'operator')} in {parts} ({edit['loop']})"
            )
    done: list[tuple[str, list[tuple[str, ...]]]] = [(line, []) for line in lines]
    again = [edit for edit in report.edits if edit["kind"] == "recompute"]
    if again:
        seconds = seconds_text(sum(edit["seconds"] for edit in again))
        line = f"recomputed: {plural(len(again), 'operator')}, {seconds} a step"
        done.append((line, _aligned(_grouped(again))))
    swapped = [edit for edit in report.edits if edit["kind"] == "swap"]
    if swapped:
        moved = copies_text(
            report.bytes_to_host,
            report.bytes_to_device,
            report.copy_seconds,
            report.exposed_seconds,
        )
        line = f"swapped: {plural(len(swapped), 'tensor')}, {moved}"
        done.append((line, _aligned(_grouped(swapped))))
    return done


def _grouped(edits: list[Edit]) -> list[tuple[str, ...]]:
    """(times, operator, bytes, time, module) per operator and place, the costliest first. Times and
    time are those of a step.
    """
    groups: defaultdict[tuple[str, str], list[Edit]] = defaultdict(list)
    for edit in edits:
        groups[edit["operator"], without_layer_number(edit["module"])].append(edit)
    ranked = sorted(
        groups.items(), key=lambda item: (-sum(edit["seconds"] for edit in item[1]), item[0])
    )
    rows = [
        _row(group, operator, group[0]["module"] if len(group) == 1 else module)
        for (operator, module), group in ranked[:_MOST_LINES]
    ]
    if rest := [edit for _, group in ranked[_MOST_LINES:] for edit in group]:
        rows.append((*_row(rest, "others", "")[:-1], ""))
    return rows


def _row(group: list[Edit], operator: str, module: str) -> tuple[str, ...]:
    return (
        f"{sum(edit['times'] for edit in group)} x",
        operator,
        part_bytes_text(sum(edit["bytes"] for edit in group), parts_of(group)),
        seconds_text(sum(edit["seconds"] for edit in group)),
        module or NO_MODULE,
    )


def _aligned(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Numbers to the right, words to the left; the last column as it is."""
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (
            runs.rjust(widths[0]),
            operator.ljust(widths[1]),
            size.rjust(widths[2]),
            time.rjust(widths[3]),
            module,
        )
        for runs, operator, size, time, module in rows
    ]
