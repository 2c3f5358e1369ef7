"""`magis diff`: two plans side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from magis.cli.options import Json, Profile, device_profile
from magis.cli.outcome import Outcome
from magis.cli.subject import Subject, read_subjects
from magis.report.differences import Section, Side, differences
from magis.report.wrapping import Dotted

if TYPE_CHECKING:
    pass

_PLAN = "A plan (from `magis optimize`), or a graph, which is taken in program order."


def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help=_PLAN, show_default=False)],
    second: Annotated[Path, typer.Argument(metavar="B", help=_PLAN, show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PAGE",
            help="Write an HTML page too, with both plans' memory over time.",
            show_default=False,
        ),
    ] = None,
    device: Profile = None,
    json: Json = False,
) -> Outcome:
    """Show what differs between two plans.

    Their figures, what each runs in parts, computes again or keeps on the host, and what is live
    at their peaks.
    """
    subjects = read_subjects([first, second], {"--output": output})
    names = _names(first, second)
    # A graph has no profile of its own: it is set beside the other's.
    profiles = [subject.profile for subject in subjects]
    a = _side(subjects[0], names[0], device or profiles[0] or profiles[1])
    b = _side(subjects[1], names[1], device or profiles[1] or profiles[0])
    sections = differences(a, b)
    notes: list[RenderableType] = []
    warnings = _warnings(subjects, names)
    for section in sections:
        notes += [Text(section.title, style="bold"), _table(section), Text("")]
    if output is not None:
        from magis.report.page import diff_data, write_page

        write_page(output, diff_data(a, b, sections, warnings))
        notes.append(Text(f"Page written to {output}."))
    data = {
        "first": str(first),
        "second": str(second),
        "page": None if output is None else str(output),
        "sections": [section.to_json() for section in sections],
    }
    return Outcome(data, Group(*notes), json, warnings=warnings)


def _names(first: Path, second: Path) -> tuple[str, str]:
    """File names, as short as tells them apart."""
    if first.name != second.name:
        return first.name, second.name
    names = str(first), str(second)
    return names if names[0] != names[1] else (f"{first} (first)", f"{second} (second)")


def _side(subject: Subject, name: str, device: str | None) -> Side:
    from magis import _core
    from magis.report.edits import find_edits

    profile = device_profile(device, subject.graph.device)
    plan = subject.plan or _core.Plan.program_order(subject.graph)
    if subject.report is not None and subject.profile == str(profile):
        return Side(name, plan, profile, subject.report.edits, subject.report)
    before = _core.Plan.program_order(subject.captured or plan.graph)
    edits = find_edits(plan, before.simulate(profile), plan.simulate(profile))
    report = subject.report
    if report is not None:  # its bound on time is one under the other profile
        report = replace(report, edits=edits, time_bound=None)
    return Side(name, plan, profile, edits, report)


def _warnings(subjects: list[Subject], names: tuple[str, str]) -> list[str]:
    graphs = [_captured(subject) for subject in subjects]
    if None in graphs or graphs[0] == graphs[1]:
        return []
    return [f"{names[0]} and {names[1]} are not plans of the same step"]


def _captured(subject: Subject) -> str | None:
    """The fingerprint of the graph that a plan was made for; None if it is not known."""
    from magis.runtime.plan_file import captured_fingerprint

    return None if subject.captured is None else captured_fingerprint(subject.captured)


def _table(section: Section) -> Table:
    table = Table.grid(padding=(0, 2))
    for column, name in enumerate(section.columns):
        right = column > 0 and name not in section.words
        table.add_column(justify="right" if right else "left", overflow="fold")
    table.add_row(*(Text(name, style="dim") for name in section.columns))
    for row in section.rows:
        table.add_row(*(Dotted(cell) for cell in row))
    return table
