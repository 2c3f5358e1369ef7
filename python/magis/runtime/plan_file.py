"""A plan on disk: a versioned JSON envelope around plan text.

    {"magis": "0.1.0", "format": 1, "device": "cpu", "limit": "...", "promise": {...}, "decisions":
    {...}, "report": {...},
     "graph": "eJy...", "text": "magis 1 ..."}

The text is the plan; everything else is for people and tools that look at it. `graph` is the text
of the captured graph, compressed and as base64, where the plan's own graph is another. Reading one
runs nothing.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magis import __version__
from magis.errors import PlanError
from magis.files import write_text
from magis.report import Report
from magis.report.report import CAPTURED_BASELINE, MEASURED_BASELINE
from magis.report.text import bytes_text, seconds_text
from magis.runtime.plan_fields import check_fields, check_integer, wrong_field
from magis.runtime.told_bounds import untrue_bounds

if TYPE_CHECKING:
    from magis import _core

# In the header of a captured graph: how many outputs it has.
OUTPUT_COUNT = "outputs"
# In the header of a graph that torch.compile found.
COMPILED = "compiled"
FORMAT = 1

# Of a captured graph's text that is unpacked; more is no graph of ours.
_MOST_TEXT = 1 << 30

_SCRATCH = re.compile(r" scratch \d+$", re.MULTILINE)


@dataclass(frozen=True)
class PlanFile:
    """What a plan file holds: the plan's text, and the report on the search that found it."""

    magis: str  # version that wrote it
    device: str  # profile that its times come from
    limit: str
    promise: dict[str, Any]  # peak_bytes, persistent_bytes, transient_peak_bytes, host_bytes,
    # seconds, met
    decisions: dict[str, Any]  # operators, operators_run, recomputed
    report: Report
    text: str
    captured: str  # fingerprint of the graph that was captured; "": not recorded
    graph: str = ""  # the captured graph's text, packed; "": not recorded, or the plan's own


def without_scratch(graph: _core.Graph, name: str) -> _core.Graph:
    """The graph without measured scratch, which belongs to the machine; `name` is what messages
    call it.
    """
    from magis import _core

    return _core.Graph.parse(_SCRATCH.sub("", graph.text()), name)


def captured_fingerprint(graph: _core.Graph) -> str:
    """Of a captured graph; measured scratch does not count."""
    return without_scratch(graph, "captured graph").fingerprint()


def envelope(plan: _core.Plan, report: Report, captured: str = "") -> str:
    """The file's text. captured: `captured_fingerprint` of the graph that the plan was made for."""
    content = {
        "magis": __version__,
        "format": FORMAT,
        "device": report.device,
        "limit": report.limit,
        "promise": {
            "peak_bytes": report.promised_peak_bytes,
            "persistent_bytes": report.persistent_bytes,
            "transient_peak_bytes": report.transient_peak_bytes,
            "host_bytes": report.host_bytes,
            "seconds": report.seconds,
            "met": report.met,
        },
        "decisions": {
            "operators": plan.graph.operator_count,
            "operators_run": plan.operators_run(),
            "recomputed": report.recomputed,
        },
        "report": report.to_json(),
        "captured": captured,
        "graph": _packed(report.captured) if plan.graph.altered else "",
        "text": plan.text(),
    }
    return json.dumps(content, indent=1) + "\n"


def write_plan(
    path: str | os.PathLike[str], plan: _core.Plan, report: Report, captured: str = ""
) -> None:
    """Writes the whole file or nothing. Raises PlanError if `path` cannot be written."""
    target = Path(path)
    try:
        write_text(target, envelope(plan, report, captured))
    except OSError as error:
        raise PlanError(
            f"{target}: the plan cannot be written ({error.strerror or error}); choose another path"
        ) from None


def read_plan(path: str | os.PathLike[str]) -> PlanFile:
    """Raises PlanError that says what is wrong with the file: missing, truncated, foreign, or of a
    newer format.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PlanError(f"{path}: not a text file, so not a plan that magis wrote") from None
    except OSError as error:
        raise PlanError(f"{path}: the plan cannot be read ({error.strerror})") from None
    return parse_envelope(text, str(path))


def parse_envelope(text: str, name: str) -> PlanFile:
    """The same for text that has been read already; `name` is what messages call it."""
    content = _json(text, name)
    if not isinstance(content, dict) or "magis" not in content or "format" not in content:
        raise PlanError(f"{name}: JSON, but not a plan that magis wrote")
    if "plans" in content:
        raise PlanError(f"{name}: the index of a frontier, not a plan; its plans lie beside it")
    if (found := check_integer(content["format"], name, "format")) != FORMAT:
        raise PlanError(
            f"{name}: written by magis {content['magis']} in format {found}; this is magis "
            f"{__version__}, which reads format {FORMAT}. Install that version, or make the plan "
            "again."
        )
    check_fields(content, name)
    return PlanFile(
        magis=content["magis"],
        device=content["device"],
        limit=content["limit"],
        promise=content["promise"],
        decisions=content["decisions"],
        report=Report.from_json(content["report"]),
        text=content["text"],
        captured=str(content.get("captured", "")),
        graph=str(content.get("graph", "")),
    )


def captured_graph(saved: PlanFile, plan: _core.Plan, name: str) -> _core.Graph | None:
    """The graph that a file's plan was made for; None if the file does not say. Raises PlanError if
    it is damaged, or is not the one that the file speaks of; `name` is what messages call the file.
    """
    if not saved.graph:
        return None if plan.graph.altered else plan.graph
    try:
        unpacking = zlib.decompressobj()
        packed = base64.b64decode(saved.graph, validate=True)
        text = unpacking.decompress(packed, _MOST_TEXT).decode("utf-8")
        if not unpacking.eof:
            raise ValueError("cut off")
    except (ValueError, zlib.error):
        raise PlanError(f'{name}: the plan\'s field "graph" is damaged; make it again') from None
    graph = parse_graph(text, f"{name} (graph)")
    if saved.captured and captured_fingerprint(graph) != saved.captured:
        raise PlanError(f'{name}: the field "graph" holds another graph than the plan was made for')
    return graph


# What a report says of its plan beside times, and how it calls that.
_COUNTED = {
    "promised_peak_bytes": "a peak",
    "transient_peak_bytes": "a peak in the step",
    "persistent_bytes": "persistent memory",
    "baseline_peak_bytes": "a peak before",
    "captured_peak_bytes": "a peak of the captured graph",
    "host_bytes": "memory of the host",
    "bytes_to_host": "copies to the host",
    "bytes_to_device": "copies from the host",
}
_TIMED = {
    "seconds": "a time",
    "captured_seconds": "a time of the captured graph",
    "baseline_seconds": "a time before",
    "copy_seconds": "a time of copying",
    "exposed_seconds": "a time of waiting",
}
# The report's field for each of the promise's.
_PROMISED = {
    "peak_bytes": "promised_peak_bytes",
    "persistent_bytes": "persistent_bytes",
    "transient_peak_bytes": "transient_peak_bytes",
    "host_bytes": "host_bytes",
}


def checked_report(
    saved: PlanFile, plan: _core.Plan, captured: _core.Graph | None, name: str
) -> Report:
    """The report in a file, counted anew from its plan, and about it. Raises PlanError that names
    the figure if the file says another; `name` is what messages call it.

    captured: the graph that the plan was made for, if it is known.
    """
    report = saved.report
    counted = report.counted(plan, saved.device, captured)
    for field, what in _COUNTED.items():
        told, found = getattr(report, field), getattr(counted, field)
        if told != found:
            words = [bytes_text(told), bytes_text(found)]
            if words[0] == words[1]:
                words = [f"{told:,} bytes", f"{found:,} bytes"]
            raise _untrue(saved, name, f"{what} of {words[0]}", words[1])
    for field, what in _TIMED.items():
        told, found = getattr(report, field), getattr(counted, field)
        if not math.isclose(told, found, rel_tol=1e-6, abs_tol=1e-12):
            raise _untrue(saved, name, f"{what} of {seconds_text(told)}", seconds_text(found))
    for key, field in _PROMISED.items():
        told = saved.promise.get(key, getattr(counted, field))
        if told != getattr(counted, field):
            found = f"{getattr(counted, field):,} bytes"
            raise _untrue(saved, name, f"{_COUNTED[field]} of {told!r} bytes", found)
    if report.baseline_source not in (CAPTURED_BASELINE, MEASURED_BASELINE):
        sources = f'"{CAPTURED_BASELINE}" or "{MEASURED_BASELINE}"'
        raise wrong_field(name, "report.baseline_source", sources, report.baseline_source)
    if report.baseline_peak_bytes < counted.persistent_bytes:
        before = f"a peak before of {bytes_text(report.baseline_peak_bytes)}"
        persistent = f"{bytes_text(counted.persistent_bytes)} before the step begins"
        raise _untrue(saved, name, before, persistent)
    for what, found in untrue_bounds(counted, plan, saved.device, captured):
        raise _untrue(saved, name, what, found)
    if report.met and 0 < report.limit_bytes < counted.promised_peak_bytes:
        limit = f"that its limit of {bytes_text(report.limit_bytes)} is met"
        raise _untrue(saved, name, limit, bytes_text(counted.promised_peak_bytes))
    return counted.about(plan, saved.device, captured)


def _untrue(saved: PlanFile, name: str, told: str, found: str) -> PlanError:
    by = "" if saved.magis == __version__ else f" (by magis {saved.magis}; this is {__version__})"
    return PlanError(
        f"{name}: says {told}, and its plan comes to {found}: it was changed after it was written"
        f"{by}; make it again"
    )


def _packed(graph: _core.Graph | None) -> str:
    if graph is None:
        return ""
    return base64.b64encode(zlib.compress(graph.text().encode("utf-8"))).decode("ascii")


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("{"):
            raise PlanError(
                f"{name}:{error.lineno}:{error.colno}: the plan is damaged or cut off "
                f"({error.msg}); make it again"
            ) from None
        raise PlanError(
            f"{name}: not a plan file; `step.save` and `magis optimize -o` write them"
        ) from None
    except RecursionError:
        raise PlanError(f"{name}: nested too deeply to be a plan that magis wrote") from None
    except ValueError:  # an integer of more digits than Python reads
        raise PlanError(f"{name}: holds a number too long to be a plan that magis wrote") from None


def parse_graph(text: str, name: str) -> _core.Graph:
    """A graph's text. Raises a MagisError with place and cause if it is damaged or cut off."""
    from magis import _core

    graph = _core.Graph.parse(text, name)
    _check_complete(graph, name)
    return graph


def parse_plan(text: str, name: str) -> _core.Plan:
    """A plan's text, verified: a program that does not execute its graph is a PlanError."""
    from magis import _core

    plan = _core.Plan.parse(text, name)
    _check_complete(plan.graph, name)
    try:
        plan.verify()
    except _core.UserError as error:
        raise PlanError(f"{name}: {error}") from None
    return plan


def _check_complete(graph: _core.Graph, name: str) -> None:
    """A graph that was cut between two of its outputs is well formed: only their number tells."""
    stated = graph.meta.get(OUTPUT_COUNT)
    if stated is None:
        return
    # A gradient that is added into is no output any more, but an input.
    held = len(graph.outputs) + sum(entry.kind == "grad" for entry in graph.inputs)
    if stated != str(held):
        raise PlanError(
            f"{name} is truncated: it says {stated} outputs and holds {held}; capture it again"
        )
