"""`magis check`: whether a model goes through, on what conditions, and what stops it."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from magis.cli.options import Json, ModelName
from magis.cli.outcome import Outcome
from magis.cli.progress import spinner
from magis.cli.status import OK, USER_ERROR
from magis.cli.workload import ZooOptions, file_workload, is_file, zoo_workload
from magis.errors import CaptureError

if TYPE_CHECKING:
    from magis.capture import Capture
    from magis.capture.ir import Site
    from magis.cli.workload import Workload

_MOST_SHOWN = 12


def check(
    name: ModelName,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Largest difference from eager that is accepted; default none at all."),
    ] = None,
    json: Json = False,
) -> Outcome:
    """Say whether a model goes through, and on what conditions.

    Captures the step and runs it once against eager PyTorch. Shows which values it read from the
    batch and was specialised on (guarded at each call), on which conditions it speculates, and, if
    it does not go through, what stops it, with the line.
    """
    with spinner(f"checking {name}"):
        workload = (
            file_workload(name) if is_file(name) else zoo_workload(name, ZooOptions(), device="cpu")
        )
        data = _examined(workload, tolerance)
    data = {"model": name, **data}
    return Outcome(data, _page(data), json, OK if data["goes_through"] else USER_ERROR)


def _examined(workload: Workload, tolerance: float | None) -> dict[str, Any]:
    from magis.capture import capture

    try:
        captured = capture(workload.model, workload.loss_fn, workload.batch)
    except CaptureError as error:
        return {"goes_through": False, "stopped_by": str(error), **_conditions(None)}
    from magis import _core
    from magis.cli.trial import Trial

    graph = _core.Graph.parse(captured.text, "captured graph")
    conditions = {
        **_conditions(captured),
        "operators": graph.operator_count,
        "as_if_compiled": captured.as_if_compiled,
    }
    if any(parameter.is_meta for parameter in workload.model.parameters()):
        return {"goes_through": True, "stopped_by": None, "replayed": False, **conditions}
    trial = Trial(workload, captured, _core.Plan.program_order(graph))
    difference = trial.difference(tolerance)
    return {
        "goes_through": difference is None,
        "stopped_by": difference,
        "replayed": True,
        **conditions,
    }


def _conditions(captured: Capture | None) -> dict[str, Any]:
    """What was specialised, guarded, speculated on and folded."""
    if captured is None:
        return {"guards": [], "speculated": [], "folded": []}
    reads = captured.guards.reads if captured.guards is not None else ()
    return {
        "guards": [
            {
                **_located(read.site),
                "what": read.measure.value,
                "value": read.expected,
                "from": [f"{kind} {path}" for kind, path in read.inputs],
            }
            for read in reads
        ],
        "speculated": [
            {**_located(c.site), "value": c.expected, "random": c.chance} for c in captured.checks
        ],
        "folded": [_located(site) for site in captured.folded],
    }


def _located(site: Site) -> dict[str, str]:
    return {"module": site.module, "line": site.source, "code": _code(site.source)}


def _code(source: str) -> str:
    """The code at "file.py:12", where the file can be found from here."""
    import sysconfig

    name, _, number = source.rpartition(":")
    if not number.isdigit():
        return ""
    for root in (Path(), Path(sysconfig.get_paths()["purelib"])):
        line = linecache.getline(str(root / name), int(number)).strip()
        if line:
            return line
    return ""


def _page(data: dict[str, Any]) -> Group:
    verdict = "goes through" if data["goes_through"] else "does not go through"
    how = ""
    if data["goes_through"]:
        how = ": the captured step equals eager" if data["replayed"] else ", not run: no weights"
    parts = [Text(f"{data['model']} {verdict}{how}")]
    if data["stopped_by"]:
        parts += [Text(""), Text("stopped by"), Text(f"  {data['stopped_by']}")]
    guards = [
        f"{_place(g)}\n    {g['what']} {_short(g['value'])}, from {', '.join(g['from'])}"
        for g in data["guards"]
    ]
    parts += _section("specialised, and guarded at each call", guards)
    speculated = [
        f"{_place(s)}\n    {'random draw' if s['random'] else 'condition'}: {s['value']}"
        for s in data["speculated"]
    ]
    parts += _section("speculated on; a call in which it is otherwise runs eagerly", speculated)
    parts += _section("folded: the same at every run", [_place(f) for f in data["folded"]])
    if data.get("as_if_compiled"):
        parts += [Text(""), Text("captured as models run when they are compiled")]
    return Group(*parts)


def _section(title: str, entries: Sequence[str]) -> list[Text]:
    if not entries:
        return []
    shown = list(dict.fromkeys(entries))
    lines = [Text(f"  {entry}") for entry in shown[:_MOST_SHOWN]]
    if len(shown) > _MOST_SHOWN:
        lines.append(Text(f"  and {len(shown) - _MOST_SHOWN} more (--json shows all)"))
    return [Text(""), Text(title), *lines]


def _place(entry: dict[str, Any]) -> str:
    words = " ".join(filter(None, (entry["module"] or "the step", entry["line"])))
    return f"{words}: {entry['code']}" if entry["code"] else words


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
