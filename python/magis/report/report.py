"""What was promised, what it was before, and what was done to whom."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from magis.errors import PlanError
from magis.report.edits import Edit, find_edits
from magis.report.explanation import explain
from magis.report.explanation_words import Explanation
from magis.report.found import Found
from magis.report.modules import NO_MODULE, without_layer_number
from magis.report.promised_times import PromisedTimes
from magis.report.reserved import Reserved, reserved_memory
from magis.report.text import (
    bytes_text,
    change_text,
    copies_text,
    percent_text,
    plural,
    seconds_text,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from magis import _core

CAPTURED_BASELINE = "captured graph in program order"
MEASURED_BASELINE = "eager, measured"

# What is recomputed or swapped is listed one line per (operator, module); more lines than this are
# summed up.
_MOST_LINES = 12

_DONE_TITLE = "What was done"
_TIMES_TITLE = "Times, promised and measured"

# What older plans' reports do not say.
ADDED_LATER = {
    "times": "",
    "reserved": None,
    "baseline_reserved_bytes": 0,
    "promised_times": None,
}

STOP_REASONS = {
    "converged": "nothing was left to try",
    "time_budget": "the time budget was used up",
    "state_budget": "the state budget was used up",
    "interrupted": "it was interrupted",
    "kept": "the plan was kept from an earlier run",
}


@dataclass(frozen=True)
class Report:
    """An optimized step beside the one it replaces.

    Bytes are peaks of the whole process's tensors unless named otherwise: persistent (parameters,
    buffers, batch, ...) plus transient (what the step holds above that). Seconds are those of one
    step.
    """

    promised_peak_bytes: int
    transient_peak_bytes: int
    persistent_bytes: int
    baseline_peak_bytes: int
    baseline_source: str  # CAPTURED_BASELINE or MEASURED_BASELINE
    seconds: float
    baseline_seconds: float
    lower_bound_bytes: int  # no plan of this graph stays below it
    lower_bound_reason: str
    limit: str
    met: bool
    stop_reason: str
    states_scored: int
    states_evaluated: int
    wall_seconds: float
    cpu_seconds: float
    recomputed: int  # operators that run more than once
    replayed: str  # how the capture was compared with eager
    device: str  # the profile that times come from
    edits: list[Edit] = field(default_factory=list)  # see find_edits
    host_bytes: int = 0  # the most that the plan keeps on the host
    bytes_to_host: int = 0  # copied in one step
    bytes_to_device: int = 0
    copy_seconds: float = 0.0  # what these copies take, one after another
    exposed_seconds: float = 0.0  # of a step, waiting for copies
    captured_peak_bytes: int = 0  # of the captured graph in program order
    captured_seconds: float = 0.0
    times: str = ""  # which of them were measured, in words; empty: none
    reserved: Reserved | None = None  # of a CUDA device's memory, predicted; None: another device
    baseline_reserved_bytes: int = 0  # of the captured graph in program order
    promised_times: PromisedTimes | None = None  # beside measured ones, if the step was run
    # What `explain` is about: no field, so that it is not saved, compared, copied or shown.
    _plan: ClassVar[_core.Plan | None] = None
    _device: ClassVar[_core.DeviceProfile | str | None] = None

    @classmethod
    def build(
        cls,
        result: Found,
        *,
        device: _core.Device,
        limit_text: str,
        replayed: str,
        times: str = "",
        promised_times: PromisedTimes | None = None,
        measured_baseline_bytes: int | None = None,
        measured_baseline_seconds: float | None = None,
    ) -> Report:
        """The report on `result`, which was found under the profile `device`.

        The baseline is the captured graph in program order, unless eager's own peak was measured. A
        measured time is taken only together with a measured peak.
        """
        from magis import _core

        captured = _core.Plan.program_order(result.source)
        before = captured.simulate(device)
        after = result.plan.simulate(device)
        measured = measured_baseline_bytes is not None
        baseline_seconds = result.baseline_seconds
        if measured and measured_baseline_seconds is not None:
            baseline_seconds = measured_baseline_seconds
        report = cls(
            promised_peak_bytes=result.peak_bytes,
            transient_peak_bytes=after.transient_peak_bytes,
            persistent_bytes=result.persistent_bytes,
            baseline_peak_bytes=(
                result.baseline_peak_bytes
                if measured_baseline_bytes is None
                else measured_baseline_bytes
            ),
            baseline_source=MEASURED_BASELINE if measured else CAPTURED_BASELINE,
            seconds=result.seconds,
            baseline_seconds=baseline_seconds,
            lower_bound_bytes=result.lower_bound_bytes,
            lower_bound_reason=result.lower_bound_reason,
            limit=limit_text,
            met=result.met,
            stop_reason=result.stop_reason,
            states_scored=result.states_scored,
            states_evaluated=result.states_evaluated,
            wall_seconds=result.wall_seconds,
            cpu_seconds=result.cpu_seconds,
            recomputed=result.recomputed,
            replayed=replayed,
            device=str(device),
            edits=find_edits(result.plan, before, after),
            host_bytes=after.host_peak_bytes,
            bytes_to_host=after.bytes_to_host,
            bytes_to_device=after.bytes_to_device,
            copy_seconds=after.copy_seconds,
            exposed_seconds=after.exposed_seconds,
            captured_peak_bytes=result.baseline_peak_bytes,
            captured_seconds=result.baseline_seconds,
            times=times,
            promised_times=promised_times,
            reserved=reserved_memory(result.plan, device),
            baseline_reserved_bytes=_reserved_bytes(reserved_memory(captured, device)),
        )
        object.__setattr__(report, "_plan", result.plan)
        object.__setattr__(report, "_device", device)
        return report

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Report:
        """The inverse of `to_json`; raises KeyError naming a field that is missing."""
        if not isinstance(data, dict):
            raise KeyError(fields(cls)[0].name)
        known = {**ADDED_LATER, **data}
        values = {entry.name: known[entry.name] for entry in fields(cls)}
        if values["reserved"] is not None:
            values["reserved"] = Reserved(**values["reserved"])
        if values["promised_times"] is not None:
            values["promised_times"] = PromisedTimes.from_json(values["promised_times"])
        return cls(**values)

    def __getstate__(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def explain(self) -> Explanation:
        """The plan in words: what runs in parts, recomputed and swapped, what that saved and cost,
        what stands at the new peak. Print it, or read its `items`.

        Raises PlanError for a report without its plan, such as one read from JSON alone.
        """
        if self._plan is None:
            raise PlanError(
                "this report has no plan to explain; `magis inspect --explain` reads it"
            )
        return Explanation(explain(self._plan, self._device or self.device, self))

    @property
    def gained(self) -> bool:
        """Whether the step needs less memory than before."""
        return self.promised_peak_bytes < self.baseline_peak_bytes

    def to_json(self) -> dict[str, Any]:
        """Every field by its name; numbers are bytes and seconds."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [text for text, _ in _headline(self)]
        lines += ["", *(f"  {name:<11}  {text}" for name, text in _figures(self))]
        if self.promised_times is not None:
            lines += ["", _TIMES_TITLE]
            lines += [f"  {name:<12}  {text}" for name, text in self.promised_times.rows()]
        if self.edits:
            lines += ["", _DONE_TITLE]
            for line, rows in _done(self):
                lines += [f"  {line}", *("  " + "  ".join(cells) for cells in rows)]
        return "\n".join(lines)

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        from magis.report.wrapping import Dotted

        def grid(rows: list[tuple[str, ...]]) -> Padding:
            table = Table.grid(padding=(0, 2, 0, 0))
            for index in range(len(rows[0])):
                table.add_column(no_wrap=index + 1 < len(rows[0]), overflow="fold")
            for row in rows:
                table.add_row(*(Text(cell) for cell in row[:-1]), Dotted(row[-1]))
            return Padding(table, (0, 0, 0, 2), expand=False)

        parts: list[RenderableType] = [Text(text, style=style) for text, style in _headline(self)]
        parts += [Text(""), grid(_figures(self))]
        if self.promised_times is not None:
            parts += [Text(""), Text(_TIMES_TITLE, style="bold")]
            parts.append(grid(list(self.promised_times.rows())))
        if self.edits:
            parts += [Text(""), Text(_DONE_TITLE, style="bold")]
            for line, rows in _done(self):
                parts.append(Padding(Text(line), (0, 0, 0, 2)))
                parts += [grid(rows)] if rows else []
        return Group(*parts)


def _headline(report: Report) -> list[tuple[str, str]]:
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


def _figures(report: Report) -> list[tuple[str, ...]]:
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
        (
            "search",
            f"{report.states_scored:,} states scored, {report.states_evaluated:,} evaluated"
            f" in {seconds_text(report.wall_seconds)}; {reason}",
        ),
        ("replay", report.replayed),
    ]
    return [(name, text) for name, text in rows if text]


def _reserved_bytes(reserved: Reserved | None) -> int:
    return 0 if reserved is None else reserved.reserved_bytes


def _reserved_text(report: Report) -> str:
    if report.reserved is None:
        return ""
    return f"{report.reserved}, before {bytes_text(report.baseline_reserved_bytes)} (predicted)"


def _done(report: Report) -> list[tuple[str, list[tuple[str, ...]]]]:
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
    """(times, operator, bytes, time, module) per operator and place, the costliest first."""
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
        bytes_text(sum(edit["bytes"] for edit in group)),
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
