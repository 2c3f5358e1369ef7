"""Figure 11: what each planner trades for what."""

import published
import workloads
from cells import Cell

from experiments import charts, figure_09, figure_10
from experiments.bars import wanted
from experiments.experiment import Experiment, Panel, Results, Settings, Table, percent

LIMITS = tuple(f"memory {ratio:g}" for ratio in (0.9, 0.6, 0.3, 0.2, 0.15, 0.1))
SHARED = (*figure_09.LIMITS, *figure_10.LIMITS)


def _frontier(settings: Settings, workload: str, variant: str, profile: str) -> Cell:
    seconds = settings.seconds * (1 if settings.quick else 3)
    return Cell("frontier", workload, variant, profile, "magis", "", seconds, settings.seed)


def _subjects(settings: Settings) -> list[tuple[str, str, str]]:
    return [
        (workload, variant, profile)
        for profile in settings.profiles
        for workload, variant in settings.subjects()
        if wanted(settings, settings.plan(workload, variant, profile, "magis", "memory 0.4"))
        and not (settings.quick and variant != "paper")
    ]


def _points(settings: Settings, subject: tuple[str, str, str], planner: str) -> list[Cell]:
    limits = SHARED if settings.quick else (*SHARED, *LIMITS)
    made = [settings.plan(*subject, planner, limit) for limit in limits]
    return [cell for cell in made if wanted(settings, cell)]


def cells(settings: Settings) -> list[Cell]:
    found = []
    if "magis" in settings.planners:
        found += [_frontier(settings, *subject) for subject in _subjects(settings)]
    for planner in reversed(settings.planners):
        for subject in _subjects(settings):
            found += _points(settings, subject, planner)
    return found


def panels(settings: Settings, results: Results) -> list[Panel]:
    found = []
    for subject in _subjects(settings):
        panel = _panel(settings, results, subject)
        if panel is not None:
            found.append(panel)
    return found


def _panel(settings: Settings, results: Results, subject: tuple[str, str, str]) -> Panel | None:
    workload, variant, profile = subject
    traces, rows = [], []
    for planner in settings.planners:
        points = _curve(settings, results, subject, planner)
        if not points:
            continue
        x, y = [p[0] for p in points], [p[1] for p in points]
        style = {"color": charts.colour(planner), "width": 3 if planner == "magis" else 1}
        traces.append(charts.line(planner, x, y, line=style))
        curve = ", ".join(f"{percent(a, 0)}: {percent(b)}" for a, b in _thinned(points))
        rows.append([planner, curve])
    if not traces:
        return None
    paper = published.CURVES.get(workload)
    if paper:
        x, y = [p[0] for p in paper], [p[1] for p in paper]
        traces.append(charts.hollow("paper: MAGIS", x, y, "diamond"))
        rows.append(["paper: MAGIS", ", ".join(f"{percent(a, 0)}: {percent(b)}" for a, b in paper)])
    chart = charts.chart(
        traces,
        "peak over program order's",
        "additional time",
        xaxis={"tickformat": ".0%"},
        # Planners that take several times as long would flatten all others.
        yaxis={"tickformat": ".0%", "range": [-0.05, 0.8], "rangemode": "normal"},
    )
    choices = {
        "workload": workloads.WORKLOADS[workload].title,
        "variant": variant,
        "profile": profile,
    }
    return Panel(choices, chart, Table(["planner", "memory: additional time"], rows))


def _curve(
    settings: Settings, results: Results, subject: tuple[str, str, str], planner: str
) -> list[tuple[float, float]]:
    """(memory, overhead) of all plans that no other of the planner's beats, largest first."""
    made = [results.figures(cell) for cell in _points(settings, subject, planner)]
    found = [(f["memory"], f["time"] - 1) for f in made if f is not None]
    if planner == "magis":
        frontier = results.figures(_frontier(settings, *subject))
        if frontier is not None:
            found += [(p["memory"], p["time"] - 1) for p in frontier["points"]]
    kept: list[tuple[float, float]] = []
    for memory, overhead in sorted(set(found)):
        if not kept or overhead < kept[-1][1]:
            kept.append((memory, overhead))
    return kept[::-1]


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    step = -(-len(points) // 12)
    return points[::step]


EXPERIMENT = Experiment(
    figure="11",
    title="Memory against time",
    about="Every plan that no other plan of the same planner beats. Ours come from one search for"
    " the whole curve, and from those of figures 9 and 10.",
    cells=cells,
    panels=panels,
    default={
        "variant": "paper",
        "profile": "rtx3090",
        "workload": workloads.WORKLOADS["bert"].title,
    },
)
