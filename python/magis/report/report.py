"""What was promised, what it was before, and what was done to whom."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from magis.errors import PlanError
from magis.report.edits import Edit, find_edits
from magis.report.explanation import explain
from magis.report.explanation_words import Explanation
from magis.report.found import Found
from magis.report.history import SearchHistory
from magis.report.promised_times import PromisedTimes
from magis.report.report_words import DONE_TITLE, TIMES_TITLE, done, figures, headline
from magis.report.reserved import Reserved, reserved_memory
from magis.report.text import printable
from magis.report.time_bound import TimeBound

if TYPE_CHECKING:
    from rich.console import RenderableType

    from magis import _core
    from magis.report.frontier import FrontierFigures

CAPTURED_BASELINE = "captured graph in program order"
MEASURED_BASELINE = "eager, measured"

# What older plans' reports do not say.
ADDED_LATER = {
    "times": "",
    "reserved": None,
    "baseline_reserved_bytes": 0,
    "promised_times": None,
    "limit_bytes": 0,
    "history": None,
    "time_bound": None,
}


class WithFigures(Protocol):
    """A `magis.Frontier`."""

    @property
    def figures(self) -> FrontierFigures: ...


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
    limit_bytes: int = 0  # what a limit on memory comes to; 0: the limit is another, or none
    history: SearchHistory | None = None  # of the search; None: not known
    time_bound: TimeBound | None = None  # None: not asked for
    # What `explain` and `html` are about: no fields, so that they are not saved, compared, copied
    # or shown.
    _plan: ClassVar[_core.Plan | None] = None
    _captured: ClassVar[_core.Graph | None] = None
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
        limit_bytes: int | None = None,
        time_bound: TimeBound | None = None,
        measured_baseline_bytes: int | None = None,
    ) -> Report:
        """The report on `result`, which was found under the profile `device`.

        The baseline is the captured graph in program order, unless eager's own peak was measured.
        """
        from magis import _core

        captured = _core.Plan.program_order(result.source)
        before = captured.simulate(device)
        after = result.plan.simulate(device)
        measured = measured_baseline_bytes is not None
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
            baseline_seconds=result.baseline_seconds,
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
            limit_bytes=limit_bytes or 0,
            history=SearchHistory.of(result.history) if result.history else None,
            time_bound=time_bound,
            reserved=reserved_memory(result.plan, device),
            baseline_reserved_bytes=_reserved_bytes(reserved_memory(captured, device)),
        )
        return report.about(result.plan, device, result.source)

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
        if values["history"] is not None:
            values["history"] = SearchHistory.from_json(values["history"])
        if values["time_bound"] is not None:
            values["time_bound"] = TimeBound.from_json(values["time_bound"])
        return cls(**values)

    def __getstate__(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def counted(
        self, plan: _core.Plan, device: _core.Device, captured: _core.Graph | None
    ) -> Report:
        """This report with what follows from its plan counted anew. Times stay where some were
        measured, and what is said of a captured graph that is not known.

        device: the profile that its times come from.
        """
        from magis import _core

        after = plan.simulate(device)
        found: dict[str, Any] = {
            "promised_peak_bytes": after.peak_bytes,
            "transient_peak_bytes": after.transient_peak_bytes,
            "persistent_bytes": after.persistent_bytes,
            "host_bytes": after.host_peak_bytes,
            "bytes_to_host": after.bytes_to_host,
            "bytes_to_device": after.bytes_to_device,
            "reserved": reserved_memory(plan, device),
        }
        times: dict[str, Any] = {
            "seconds": after.seconds,
            "copy_seconds": after.copy_seconds,
            "exposed_seconds": after.exposed_seconds,
        }
        if captured is not None:
            before = _core.Plan.program_order(captured).simulate(device)
            found["captured_peak_bytes"] = before.peak_bytes
            times["captured_seconds"] = before.seconds
            found["edits"] = find_edits(plan, before, after)
            if self.times:
                found["edits"] = _timed(found["edits"], self.edits)
            if self.baseline_source == CAPTURED_BASELINE:
                found["baseline_peak_bytes"] = before.peak_bytes
        if not self.times:
            found |= times
        # Eager's peak may have been measured, its time never.
        found["baseline_seconds"] = found.get("captured_seconds", self.captured_seconds)
        return replace(self, **found)

    def about(self, plan: _core.Plan, device: _core.Device, captured: _core.Graph | None) -> Report:
        """This report, which `explain` and `html` then speak of in full.

        captured: the graph that the plan was made for, if it is known.
        """
        object.__setattr__(self, "_plan", plan)
        object.__setattr__(self, "_device", device)
        object.__setattr__(self, "_captured", captured)
        return self

    @property
    def captured(self) -> _core.Graph | None:
        """The graph that the plan was made for; None where that is not known."""
        return self._captured

    def html(self, path: str | os.PathLike[str], *, frontier: WithFigures | None = None) -> None:
        """Writes one page, which needs nothing else, with memory over time before and after, what
        is live at the peak and whose it is, what runs when, and each decision.

        frontier: a `magis.Frontier` of this step, whose plans are shown around this one.

        Raises PlanError if `path` cannot be written, or for a report without its plan, such as one
        read from JSON alone; MissingExtraError if plotly is not installed.
        """
        from magis.report.page import report_data, write_page

        if self._plan is None:
            raise PlanError("this report has no plan to show; `magis report` reads a plan file")
        figures = None if frontier is None else frontier.figures
        device = self._device or self.device
        write_page(path, report_data(self._plan, device, self, self._captured, frontier=figures))

    def explain(self) -> Explanation:
        """The plan in words: what runs in parts, recomputed and swapped, what that saved and cost,
        what stands at the new peak. Print it, or read its `items`.

        Raises PlanError for a report without its plan, such as one read from JSON alone.
        """
        return Explanation(explain(*self._planned("explain", "inspect --explain"), self))

    def snapshot(self, path: str | os.PathLike[str]) -> None:
        """Writes what the plan will allocate as a memory snapshot, which PyTorch's memory viewer
        (https://docs.pytorch.org/memory_viz, torch.cuda._memory_viz) shows.

        Raises PlanError if `path` cannot be written, and for a report without its plan.
        """
        from magis.report.viewers.files import write_snapshot
        from magis.report.viewers.predicted import predicted

        write_snapshot(path, [predicted(*self._planned("snapshot", "export --snapshot"))])

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Writes what the plan will do as a trace in the Trace Event Format, which Perfetto
        (https://ui.perfetto.dev) shows. Raises as `snapshot` does.
        """
        from magis.report.viewers.files import facts_of, write_trace
        from magis.report.viewers.predicted import predicted

        plan, device = self._planned("trace", "export --trace")
        write_trace(path, [predicted(plan, device)], facts_of(plan, device))

    def _planned(self, what: str, command: str) -> tuple[_core.Plan, _core.Device]:
        """The plan and the profile; `what` is made of them, by the `command` too."""
        if self._plan is None:
            raise PlanError(f"this report has no plan to {what}; `magis {command}` reads it")
        return self._plan, self._device or self.device

    def _repr_html_(self) -> str:
        """For notebooks."""
        from magis.report.notebook import report_html

        return report_html(self, self._plan, self._device or self.device, self._captured)

    @property
    def gained(self) -> bool:
        """Whether the step needs less memory than before."""
        return self.promised_peak_bytes < self.baseline_peak_bytes

    def to_json(self) -> dict[str, Any]:
        """Every field by its name; numbers are bytes and seconds."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [text for text, _ in headline(self)]
        lines += ["", *(f"  {name:<11}  {text}" for name, text in figures(self))]
        if self.promised_times is not None:
            lines += ["", TIMES_TITLE]
            lines += [f"  {name:<12}  {text}" for name, text in self.promised_times.rows()]
        if self.edits:
            lines += ["", DONE_TITLE]
            for line, rows in done(self):
                lines += [f"  {line}", *("  " + "  ".join(cells) for cells in rows)]
        return "\n".join(map(printable, lines))

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        from magis.report.wrapping import Dotted, Named

        def grid(rows: list[tuple[str, ...]]) -> Padding:
            table = Table.grid(padding=(0, 2, 0, 0))
            for index in range(len(rows[0])):
                table.add_column(no_wrap=index + 1 < len(rows[0]), overflow="fold")
            for row in rows:
                table.add_row(*(Text(printable(cell)) for cell in row[:-1]), Dotted(row[-1]))
            return Padding(table, (0, 0, 0, 2), expand=False)

        parts: list[RenderableType] = [
            Text(printable(text), style=style) for text, style in headline(self)
        ]
        parts += [Text(""), grid(figures(self))]
        if self.promised_times is not None:
            parts += [Text(""), Text(TIMES_TITLE, style="bold")]
            parts.append(grid(list(self.promised_times.rows())))
        if self.edits:
            parts += [Text(""), Text(DONE_TITLE, style="bold")]
            for line, rows in done(self):
                parts.append(Padding(Text(printable(line)), (0, 0, 0, 2)))
                parts += [Padding(Named(rows), (0, 0, 0, 2), expand=False)] if rows else []
        return Group(*parts)


def _timed(edits: list[Edit], told: list[Edit]) -> list[Edit]:
    """Edits with the seconds that are told of them."""
    seconds = {(edit["kind"], edit["tensor"]): edit["seconds"] for edit in told if "tensor" in edit}
    return [
        {**edit, "seconds": seconds.get((edit["kind"], edit["tensor"]), edit["seconds"])}
        if "tensor" in edit
        else edit
        for edit in edits
    ]


def _reserved_bytes(reserved: Reserved | None) -> int:
    return 0 if reserved is None else reserved.reserved_bytes
