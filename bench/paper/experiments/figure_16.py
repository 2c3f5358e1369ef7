"""Figure 16: U-Net's memory over a step's time."""

import published
from cells import Cell, Figures

from experiments import charts
from experiments.experiment import Experiment, Panel, Results, Settings, Table, gap, percent

LIMITS = ("memory 0.8", "memory 0.6")


def _lines(settings: Settings, variant: str) -> dict[str, Cell]:
    profile = settings.profiles[0]

    def cell(planner: str, limit: str) -> Cell:
        return settings.plan("unet", variant, profile, planner, limit, "timeline")

    return {
        "program order": cell("pytorch", "memory 1"),
        **{
            f"{planner}, {percent(float(limit.split()[1]), 0)}": cell(planner, limit)
            for planner in ("magis-paper", "magis")
            for limit in LIMITS
        },
    }


def _variants(settings: Settings) -> list[str]:
    if "unet" not in settings.workloads:
        return []
    known = [v for v in settings.variants if v != "authors"]
    return [v for v in known if v == "paper"] if settings.quick else known


def cells(settings: Settings) -> list[Cell]:
    return [c for variant in _variants(settings) for c in _lines(settings, variant).values()]


def panels(settings: Settings, results: Results) -> list[Panel]:
    found = []
    for variant in _variants(settings):
        traces, rows = [], []
        baseline: Figures | None = None
        for position, (name, cell) in enumerate(_lines(settings, variant).items()):
            figures = results.figures(cell)
            if figures is None:
                rows.append([name, gap(results.reason(cell)), "", ""])
                continue
            baseline = figures
            x = [point[0] * 1e3 for point in figures["points"]]
            y = [point[1] / 1e9 for point in figures["points"]]
            more = {
                "mode": "lines",
                "line": {"color": charts.colour("", position), "shape": "hv"},
            }
            traces.append(charts.line(name, x, y, position, **more))
            peak = figures["memory"] * figures["baseline_peak_bytes"] / 1e9
            time = figures["time"] - 1
            met = "" if figures["met"] else " (limit not met)"
            rows.append(
                [name, f"{peak:.2f} GB", percent(figures["memory"]) + met, percent(time, 2)]
            )
        if baseline is not None:
            traces.append(_papers(baseline))
        chart = charts.chart(traces, "milliseconds", "GB, persistent included")
        head = ["plan", "peak", "of program order's", "additional time"]
        found.append(Panel({"variant": variant}, chart if traces else None, Table(head, rows)))
    return found


def _papers(baseline: Figures) -> charts.Trace:
    """How high and how long the paper's plan for 80 % is, of this baseline."""
    overhead = published.magis("unet", LIMITS[0])
    assert overhead is not None
    seconds = baseline["baseline_seconds"] * (1 + overhead)
    gigabytes = baseline["baseline_peak_bytes"] * float(LIMITS[0].split()[1]) / 1e9
    return charts.hollow("paper: MAGIS, 80 %", [seconds * 1e3], [gigabytes], "diamond")


EXPERIMENT = Experiment(
    figure="16",
    title="U-Net's memory over a step",
    about="What is live at every moment of a step. Of the paper's curves the end and the height at"
    " 80 % are known.",
    cells=cells,
    panels=panels,
    default={"variant": "paper"},
)
