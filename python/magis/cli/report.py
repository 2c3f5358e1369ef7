"""`magis report`: a plan or a graph as one HTML page."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from magis.cli.files import check_distinct, read_text
from magis.cli.options import GraphOrPlanFile, Json, Profile, device_profile
from magis.cli.outcome import Outcome
from magis.cli.progress import spinner
from magis.cli.status import UsageError
from magis.cli.subject import Subject, read_subjects
from magis.errors import PlanError
from magis.report.text import bytes_text

if TYPE_CHECKING:
    from magis.report.frontier import FrontierFigures


def report(
    file: GraphOrPlanFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PAGE",
            help="The page. Default: beside the file, with the ending .html.",
            show_default=False,
        ),
    ] = None,
    device: Profile = None,
    frontier: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder from `magis optimize --frontier`, whose plans are shown around this "
            "one. Default: the folder that the plan lies in, if it is one.",
            show_default=False,
        ),
    ] = None,
    peers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Other ways to run the step, to be shown beside the plan: a JSON list of objects "
            "with name, peak_bytes and seconds.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> Outcome:
    """Show a plan as one HTML page that needs nothing else.

    Memory over time before and after, what is live at the peak by module and by source line, what
    runs when, what runs in parts, what is computed again or leaves for the host, the frontier
    between memory and time, and why.
    """
    page = output or file.with_suffix(".html")
    if peers is not None:
        check_distinct({"--peers": peers, "--output": page})
    (subject,) = read_subjects([file], {"--output": page})
    figures = _frontier(file, frontier)
    others = [] if peers is None else read_peers(peers)
    with spinner("drawing the page"):
        data = page_data(subject, file, device, figures, others)
        from magis.report.page import write_page

        write_page(page, data)
    size = page.stat().st_size if page.is_file() else 0
    summary = {
        "file": str(file),
        "page": str(page),
        "bytes": size,
        "device": data["device"],
        "runs": [
            {key: run[key] for key in ("label", "source", "peak_bytes", "seconds")}
            for run in data["runs"]
        ],
    }
    return Outcome(summary, Text(f"Page written to {page} ({bytes_text(size)})."), json)


def page_data(
    subject: Subject,
    file: Path,
    device: str | None,
    frontier: FrontierFigures | None,
    peers: list[dict[str, Any]],
) -> dict[str, Any]:
    """What the page shows; a report that was made for another profile has nothing to say there."""
    from magis.report.page import report_data

    profile = device_profile(device or subject.profile, subject.graph.device)
    known = subject.report if subject.profile == str(profile) else None
    captured = subject.graph if subject.plan is None else subject.captured
    return report_data(subject.plan, profile, known, captured, frontier=frontier, peers=peers)


def _frontier(file: Path, folder: Path | None) -> FrontierFigures | None:
    """Of the folder given, or of the one that the plan lies in."""
    from magis.runtime.frontier_folder import INDEX, read_index

    if folder is not None:
        return read_index(folder).figures
    if not (file.parent / INDEX).is_file():
        return None
    index = read_index(file.parent)
    return index.figures if file.name in index.files else None


def read_peers(path: Path) -> list[dict[str, Any]]:
    """Raises UsageError that says what is wrong with the file."""
    from magis.runtime.plan_fields import check_object

    try:
        content = json_module.loads(read_text(path, "--peers takes a JSON list"))
    except ValueError:
        raise UsageError(f"--peers {path}: is not JSON") from None
    if not isinstance(content, list) or not all(isinstance(peer, dict) for peer in content):
        raise UsageError(f"--peers {path}: must hold a list of objects")
    types = {"name": str, "peak_bytes": int, "seconds": float}
    try:
        for position, peer in enumerate(content):
            check_object(peer, types, str(path), f"[{position}].", "list")
            _check_peer(peer, str(path), f"[{position}].")
    except PlanError as error:
        raise UsageError(f"--peers {error}") from None
    return [{field: peer[field] for field in types} for peer in content]


def _check_peer(peer: dict[str, Any], name: str, prefix: str) -> None:
    """What types do not say."""
    from magis.runtime.plan_fields import wrong_field

    if not peer["name"].strip():
        raise wrong_field(name, f"{prefix}name", "a text that is not empty", peer["name"], "list")
    for field in ("peak_bytes", "seconds"):
        if peer[field] <= 0:
            raise wrong_field(name, prefix + field, "more than nothing", peer[field], "list")
