"""`magis plans`: the plans that are kept for the next start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from magis.cli.files import check_writable, read_text
from magis.cli.options import Json
from magis.cli.outcome import Outcome
from magis.cli.status import UsageError
from magis.files import write_text
from magis.report.text import bytes_text, plural
from magis.runtime.plan_file import PlanFile
from magis.runtime.plan_store import PlanStore, last_used

PlanName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A plan's name, or how it begins.", show_default=False),
]


def list_plans(json: Json = False) -> Outcome:
    """Show the plans that are kept, the last used first, and where they lie."""
    store = PlanStore()
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for name in ("name", "last used", "model", "device", "limit"):
        table.add_column(name, no_wrap=name != "limit")
    for name in ("peak", "before"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = []
    for path, saved, asked in store.plans():
        row = _row(path, saved, asked)
        rows.append(row)
        table.add_row(
            row["name"][:16],
            row["last_used"],
            row["model"],
            saved.device,
            saved.limit,
            bytes_text(row["peak_bytes"]),
            bytes_text(row["baseline_peak_bytes"]),
        )
    empty = Text("None yet; magis.optimize keeps those that it finds.")
    view = Group(Text(f"{store.folder}"), Text(""), table if rows else empty)
    return Outcome({"folder": str(store.folder), "plans": rows}, view, json)


def show(name: PlanName, json: Json = False) -> Outcome:
    """Show the report on a plan; `magis inspect` on its file shows more."""
    path, saved, asked = _find(name)
    view = Group(Text(f"{path}"), Text(""), saved.report)
    return Outcome(_row(path, saved, asked) | {"report": saved.report.to_json()}, view, json)


def remove(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every plan.")] = False,
    json: Json = False,
) -> Outcome:
    """Forget plans; the next start searches again."""
    if bool(names) == everything:
        raise UsageError("say which plans (`magis plans list` shows their names), or --all")
    if everything:
        paths = sorted(PlanStore().folder.glob("*.json"))
    else:
        paths = [_find(name)[0] for name in names or []]
    for path in paths:
        path.unlink(missing_ok=True)
    words = Text(f"{plural(len(paths), 'plan')} forgotten.")
    return Outcome({"removed": [path.stem for path in paths]}, words, json)


def export(
    name: PlanName,
    output: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    json: Json = False,
) -> Outcome:
    """Write a plan to a file, for `magis plans import` on a machine of the same kind.

    It is taken there where the same model is planned under the same settings, and the same versions
    of magis and PyTorch. `magis run` and `magis inspect` read the file, too.
    """
    path, _, _ = _find(name)
    check_writable(output, "FILE")
    write_text(output, path.read_text(encoding="utf-8"))
    return Outcome({"file": str(output)}, Text(f"Plan written to {output}."), json)


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    json: Json = False,
) -> Outcome:
    """Keep a plan that `magis plans export` wrote."""
    path = PlanStore().add(read_text(file, "`magis plans export` makes them"), str(file))
    return Outcome({"name": path.stem}, Text(f"Plan kept as {path.stem[:16]}."), json)


def _row(path: Path, saved: PlanFile, asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": path.stem,
        "file": str(path),
        "last_used": last_used(path).isoformat(" ", "minutes"),
        "model": asked.get("model", ""),
        "device": saved.device,
        "limit": saved.limit,
        "peak_bytes": saved.report.promised_peak_bytes,
        "baseline_peak_bytes": saved.report.baseline_peak_bytes,
        "seconds": saved.report.seconds,
    }


def _find(name: str) -> tuple[Path, PlanFile, dict[str, Any]]:
    found = [entry for entry in PlanStore().plans() if entry[0].stem.startswith(name)]
    if not found:
        raise UsageError(f"no plan's name begins with {name}; `magis plans list` shows them")
    if len(found) > 1:
        raise UsageError(f"the names of {len(found)} plans begin with {name}; give more of one")
    return found[0]
