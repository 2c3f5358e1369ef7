"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from magis.cli.status import UsageError

if TYPE_CHECKING:
    from magis import _core

Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object to stdout, and nothing else there; nothing at all after an "
        "error.",
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Say what the plan does and why: what runs in parts, is recomputed or swapped, what "
        "each saves and costs, what stands at the new peak.",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="PROFILE",
        help="Device profile that times come from: reference, reference-h2, rtx3090, a100, h100, "
        "h200 or cpu, or a TOML file that describes a device. Default: cpu for a graph captured on "
        "the CPU, else reference.",
    ),
]
ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model of the zoo (see `magis zoo`), or path/to/file.py:function that returns "
        "(model, loss_fn, batch).",
        show_default=False,
    ),
]
GraphOrFrontier = Annotated[
    Path,
    typer.Argument(
        metavar="GRAPH",
        help="A graph that `magis capture` wrote, or a folder from `magis optimize --frontier`.",
        show_default=False,
    ),
]
GraphOrPlanFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A graph (from `magis capture`) or a plan (from `magis optimize`).",
        show_default=False,
    ),
]


Measure = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="Search with times that were measured on this machine: so many seconds go into "
        "measuring what has no time yet, and the search runs again with it; 0: use what is known. "
        "Times are kept (`magis cache list`).",
    ),
]
OffloadTo = Annotated[
    str,
    typer.Option(
        metavar="host|disk",
        help="Where tensors go that leave the device for a while: memory, or a file in "
        "--offload-directory.",
    ),
]
OffloadDirectory = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="A folder on a local disk, for --offload-to disk."),
]


def one_of(option: str, value: str, choices: Sequence[str]) -> str:
    """`value` if it is one of `choices`; otherwise UsageError that names them all."""
    if value in choices:
        return value
    near = difflib.get_close_matches(value.lower(), choices, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    raise UsageError(f'{option}: "{value}" is not known.{hint} Choose one of: {", ".join(choices)}')


def device_profile(value: str | None, graph_device: str) -> _core.Device:
    """The profile asked for, by its name or in a TOML file; without, the one that fits the device
    that the graph was captured on.
    """
    from magis import _core
    from magis.timing.user_profile import is_profile_file, read_profile

    if value is None:
        return "cpu" if graph_device.startswith("cpu") else "reference"
    if is_profile_file(value):
        return read_profile(Path(value))
    return one_of("--device", value, _core.device_profiles())
