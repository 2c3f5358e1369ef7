"""`magis inspect`: where the memory of a graph or a plan goes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from magis.cli.options import Explain, GraphOrPlanFile, Json, Profile, device_profile
from magis.cli.outcome import Outcome
from magis.cli.rules import rule_rows, rules_view
from magis.cli.subject import Subject, read_subjects
from magis.report import Explanation, MemoryReport
from magis.report import explain as explain_plan
from magis.report.curve import MemoryCurve
from magis.report.render import memory_view

if TYPE_CHECKING:
    from magis import _core


def inspect(
    file: GraphOrPlanFile,
    device: Profile = None,
    explain: Explain = False,
    rules: Annotated[
        bool,
        typer.Option(
            "--rules",
            help="List the rewrite rules: where each matches in the graph, how often it was "
            "applied, and what it saves by itself.",
        ),
    ] = False,
    json: Json = False,
) -> Outcome:
    """Show where the memory of a graph or a plan goes.

    The peak, memory over a step, what is live at the peak by kind, by module and by operator, and
    the biggest tensors with the source lines that made them. With --explain, what a plan does and
    why, in place of these tables; with --rules, the rewrite rules.
    """
    (subject,) = read_subjects([file])
    profile = device_profile(device or subject.profile, subject.graph.device)
    if subject.plan is None:
        memory = MemoryReport.of_graph(subject.graph, device=profile)
    else:
        memory = MemoryReport.of_plan(subject.plan, device=profile)
    curve = _curve(subject, profile)
    data = {"file": str(file), **memory.to_json(), "curve": asdict(curve)}
    view: RenderableType = memory_view(memory, curve)
    if subject.report is not None:
        data["report"] = subject.report.to_json()
        view = Group(subject.report, Text(""), view)
    if explain:
        explanation = _explained(subject, profile)
        data["explanation"] = explanation.to_json()
        view = Group(subject.report, Text(""), explanation) if subject.report else explanation
    if rules:
        rows = rule_rows(subject.graph, subject.plan, profile)
        data["rules"] = rows
        view = rules_view(rows)
    return Outcome(data, view, json)


def _curve(subject: Subject, profile: _core.Device) -> MemoryCurve:
    from magis import _core
    from magis.report.timeline import Timeline

    plan = subject.plan or _core.Plan.program_order(subject.graph)
    simulation = plan.simulate(profile)
    return MemoryCurve.of(Timeline.of(plan, simulation, profile), simulation)


def _explained(subject: Subject, profile: _core.Device) -> Explanation:
    """A report that was made for another profile has nothing to say here."""
    from magis import _core

    plan = subject.plan or _core.Plan.program_order(subject.graph)
    report = subject.report if subject.profile == str(profile) else None
    return Explanation(explain_plan(plan, profile, report))
