"""One program on paper, in columns: its operators, moments, lifetimes and copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magis.report.curve import MemoryCurve
from magis.report.definitions import Definition, definitions
from magis.report.lifetimes import last_readers, tensor_of
from magis.report.loops import read_loops
from magis.report.page.columns import Texts, columns
from magis.report.page.kinds import kinds_of
from magis.report.timeline import LOAD, RUN, WAIT, Loop, Moment, Timeline

if TYPE_CHECKING:
    from magis import _core

Json = dict[str, Any]

MOMENTS = (RUN, LOAD, WAIT)
# The paths of a module's own parameters end in so many names that are not the module's.
_LEVELS = {"param": 1, "buffer": 1, "grad": 1, "state": 2}


def run_columns(
    plan: _core.Plan,
    device: _core.Device,
    texts: Texts,
    *,
    label: str,
    source: str,
) -> Json:
    """What `plan` does on the profile `device`. Names, modules and the like are numbers of `texts`.

    - `operators`: `name` (its first result), `operator`, `module`, `source`, `shapes`, `backward`,
      and `loop`, the innermost around it.
    - `moments`: `kind` (position in MOMENTS), `operator` (row of `operators`; of a load the
      tensor's; -1 for none), `copy` (0 for the first run), `start`, `end` in seconds, in a loop
      those of its first part, `live` and `scratch` in transient bytes.
    - `loops`, in the order in which they begin: `name`, `parts`, `first` and `last` moment, which
      come once for each part; `start` and `seconds` of the first part, and what each `other` takes.
    - `tensors`, one row per lifetime: `name` with its copy's number, `operator` (-1 for inputs),
      `type`, `module`, `source`, `bytes`, `kind` (see `magis.report.page.kinds`), `role` in words,
      `first` and `last` moment, `reader`, the operator that reads it last (-1 for none or unknown).
    - `host`: `tensor`, `bytes`, `first` and `last` moment. `copies`: `to_host`, `tensor`, `start`,
      `end`, in a loop those of its first part, and `loop`, the row of the innermost around it, or
      -1. `curve`: see `magis.report.curve.MemoryCurve`.
    """
    return _Columns(plan, device, texts).all(label, source)


class _Columns:
    def __init__(self, plan: _core.Plan, device: _core.Device, texts: Texts) -> None:
        self._plan = plan
        self._device = device
        self._text = texts.number
        self._simulation = plan.simulate(device)
        self._timeline = Timeline.of(plan, self._simulation, device)
        text = plan.graph.text()
        self._loops = read_loops(text)
        self._definitions = list(definitions(text))
        self._kind = kinds_of(plan, self._simulation, self._loops, self._definitions)
        ran = {tensor_of(moment.name) for moment in self._timeline.moments if moment.name}
        # Without views, which nobody runs.
        self._operators = [found for found in self._definitions if found.results[0] in ran]
        self._row = {found.results[0]: row for row, found in enumerate(self._operators)}
        self._maker = {
            name: row for row, found in enumerate(self._operators) for name in found.results
        }

    def all(self, label: str, source: str) -> Json:
        simulation = self._simulation
        return {
            "label": label,
            "source": source,
            "device": str(self._device),
            "peak_bytes": simulation.peak_bytes,
            "persistent_bytes": simulation.persistent_bytes,
            "seconds": simulation.seconds,
            "exposed_seconds": simulation.exposed_seconds,
            "copy_seconds": simulation.copy_seconds,
            "host_peak_bytes": simulation.host_peak_bytes,
            "bytes_to_host": simulation.bytes_to_host,
            "bytes_to_device": simulation.bytes_to_device,
            "peak": self._timeline.peak,
            "curve": MemoryCurve.of(self._timeline, simulation).levels,
            "loops": columns(
                ("name", "parts", "first", "last", "start", "seconds", "other"),
                map(self._loop, self._timeline.loops),
            ),
            "operators": self._operator_columns(),
            "moments": self._moment_columns(),
            "tensors": self._tensor_columns(),
            "host": columns(
                ("tensor", "bytes", "first", "last"),
                (
                    (self._text(stay.tensor.name), stay.tensor.bytes, stay.first, stay.last)
                    for stay in self._timeline.on_host
                ),
            ),
            "copies": columns(
                ("to_host", "tensor", "start", "end", "loop"),
                (
                    (
                        copy.kind == "store",
                        self._text(copy.tensor),
                        copy.start,
                        copy.end,
                        -1 if loop is None else loop,
                    )
                    for copy, loop in zip(simulation.copies, self._timeline.copy_loops, strict=True)
                ),
            ),
        }

    def _operator_columns(self) -> Json:
        names = ("name", "operator", "module", "source", "shapes", "backward", "loop")
        return dict(columns(names, map(self._operator, self._operators)))

    def _operator(self, found: Definition) -> tuple[Any, ...]:
        around = self._loops.around.get(found.results[0], [])
        text = self._text
        return (
            text(found.results[0]),
            text(found.operator),
            text(found.module),
            text(found.source),
            text(found.shapes),
            int(found.backward),
            text(around[-1].name if around else ""),
        )

    def _loop(self, loop: Loop) -> tuple[Any, ...]:
        return (
            self._text(loop.name),
            loop.parts,
            loop.first,
            loop.last,
            loop.start,
            loop.seconds,
            loop.other_seconds,
        )

    def _moment_columns(self) -> Json:
        names = ("kind", "operator", "copy", "start", "end", "live", "scratch")
        return dict(columns(names, map(self._moment, self._timeline.moments)))

    def _moment(self, moment: Moment) -> tuple[Any, ...]:
        name, _, copy = moment.name.partition(".")
        return (
            MOMENTS.index(moment.kind),
            self._maker.get(name, -1),
            int(copy or 0),
            moment.start,
            moment.end,
            moment.live_bytes,
            moment.scratch_bytes,
        )

    def _tensor_columns(self) -> Json:
        names = (
            "name",
            "operator",
            "type",
            "module",
            "source",
            "bytes",
            "kind",
            "role",
            "first",
            "last",
            "reader",
        )
        entries = {entry.name: entry for entry in self._plan.graph.inputs}
        readers = last_readers(self._plan)
        text = self._text
        rows = []
        for lifetime in self._timeline.lifetimes:
            tensor = lifetime.tensor
            module, source = tensor.module, tensor.source
            kind, role = self._kind(lifetime)
            if (entry := entries.get(tensor.name)) is not None:
                module = _owner(entry)
                role = f"{role}: {entry.path}" if entry.kind != "const" else role
            if (result := self._loops.results.get(tensor.name)) is not None:
                module, source = result.module, result.source
            rows.append(
                (
                    text(lifetime.name),
                    self._maker.get(tensor.name, -1),
                    text(tensor.type),
                    text(module),
                    text(source),
                    lifetime.bytes,
                    kind,
                    text(role),
                    lifetime.first,
                    lifetime.last,
                    self._row.get(readers.get(lifetime.name, ""), -1),
                )
            )
        return dict(columns(names, rows))


def _owner(entry: _core.Input) -> str:
    """The module of a parameter, a buffer, or of an optimizer's state of one."""
    levels = _LEVELS.get(entry.kind, 0)
    return ".".join(entry.path.split(".")[:-levels]) if levels else ""
