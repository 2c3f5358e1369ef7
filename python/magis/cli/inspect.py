"""`magis inspect`: where the memory of a graph or a plan goes."""

from rich.console import Group, RenderableType
from rich.text import Text

from magis.cli.options import GraphOrPlanFile, Json, Profile, device_profile
from magis.cli.outcome import Outcome
from magis.cli.subject import read_subject
from magis.report import MemoryReport
from magis.report.render import memory_view


def inspect(file: GraphOrPlanFile, device: Profile = None, json: Json = False) -> Outcome:
    """Show where the memory of a graph or a plan goes.

    The peak, what is live there by kind, by module and by operator, and the biggest tensors with
    the source lines that made them.
    """
    subject = read_subject(file)
    profile = device_profile(device or subject.profile, subject.graph.device)
    if subject.plan is None:
        memory = MemoryReport.of_graph(subject.graph, device=profile)
    else:
        memory = MemoryReport.of_plan(subject.plan, device=profile)
    data = {"file": str(file), **memory.to_json()}
    view: RenderableType = memory_view(memory)
    if subject.report is not None:
        data["report"] = subject.report.to_json()
        view = Group(subject.report, Text(""), view)
    return Outcome(data, view, json)
