"""`magis cache`: what was measured on this machine and others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from magis.cli.files import read_text
from magis.cli.options import Json
from magis.cli.outcome import Outcome
from magis.files import write_text
from magis.report.text import plural
from magis.timing.cache import PerformanceCache
from magis.timing.exchange import export_text, import_text


def list_cache(json: Json = False) -> Outcome:
    """Show where measured times are kept, and of which machines there are any."""
    cache = PerformanceCache()
    machines = cache.machines()
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for name in ("calls", "cannot run alone"):
        table.add_column(name, justify="right")
    table.add_column("machine", overflow="fold")
    rows = []
    for machine, times, failures in machines:
        table.add_row(f"{times:,}", f"{failures:,}", str(machine))
        rows.append({"machine": vars(machine), "times": times, "failures": failures})
    size = cache.path.stat().st_size if cache.path.exists() else 0
    view = [Text(f"{cache.path} ({size:,} bytes)"), Text("")]
    empty = Text("Nothing was measured yet; `magis profile` and `magis optimize --measure` do.")
    facts = {"path": str(cache.path), "bytes": size, "machines": rows}
    return Outcome(facts, Group(*view, table if machines else empty), json)


def clear(
    others: Annotated[
        bool,
        typer.Option(
            "--others",
            help="Forget only what was measured on other machines, with other versions of the "
            "libraries, or with another number of threads than PyTorch now takes.",
        ),
    ] = False,
    json: Json = False,
) -> Outcome:
    """Forget what was measured."""
    cache = PerformanceCache()
    if not others:
        count = cache.clear()
    else:
        here = _machines_here()
        count = sum(cache.clear(m) for m, _, _ in cache.machines() if m not in here)
    return Outcome({"cleared": count}, Text(f"{plural(count, 'call')} forgotten."), json)


def export(
    output: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    json: Json = False,
) -> Outcome:
    """Write everything to a text file, for `magis cache import` on an equal machine."""
    cache = PerformanceCache()
    text = export_text(cache)
    write_text(output, text)
    count = text.count("\n") - 1
    return Outcome(
        {"calls": count, "file": str(output)},
        Text(f"{plural(count, 'call')} written to {output}."),
        json,
    )


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    json: Json = False,
) -> Outcome:
    """Add what `magis cache export` wrote; where both know a call, the one with more samples stays.

    Times count only on a machine equal to the one that they were measured on.
    """
    cache = PerformanceCache()
    added, kept = import_text(cache, read_text(file, "`magis cache export` makes them"), str(file))
    words = f"{plural(added, 'call')} added"
    words += f", {plural(kept, 'call')} known already." if kept else "."
    return Outcome({"added": added, "kept": kept}, Text(words), json)


def _machines_here() -> set[object]:
    import torch

    from magis.timing.machine import machine_of

    devices = [torch.device("cpu")]
    if torch.cuda.is_available():
        devices += [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return {machine_of(device) for device in devices}
