"""Figure 16: U-Net's memory over a step's time."""

from cells import Cell

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
        for position, (name, cell) in enumerate(_lines(settings, variant).items()):
            figures = results.figures(cell)
            if figures is None:
                rows.append([name, gap(results.reason(cell)), "", ""])
                continue
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
        chart = charts.chart(traces, "milliseconds", "GB, persistent included")
        head = ["plan", "peak", "of program order's", "additional time"]
        found.append(Panel({"variant": variant}, chart if traces else None, Table(head, rows)))
    return found


EXPERIMENT = Experiment(
    figure="16",
    title="U-Net's memory over a step",
    about="What is live at every moment of a step.",
    cells=cells,
    panels=panels,
    default={"variant": "paper"},
)
