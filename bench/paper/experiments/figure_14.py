"""Figure 14: incremental against full scheduling."""

import published
from cells import Cell

from experiments import charts
from experiments.experiment import Experiment, Panel, Results, Settings, Table, gap

KINDS = ("forward", "training")


def _cell(kind: str) -> Cell:
    return Cell("scheduling", "NASNet-like", kind, seconds=60)


def cells(_settings: Settings) -> list[Cell]:
    return [_cell(kind) for kind in KINDS]


def panels(_settings: Settings, results: Results) -> list[Panel]:
    traces, rows = [], []
    for position, kind in enumerate(KINDS):
        cell = _cell(kind)
        figures = results.figures(cell)
        if figures is None:
            rows.append([kind, gap(results.reason(cell)), "", "", "", ""])
            continue
        x, y = [p[0] for p in figures["points"]], [p[1] for p in figures["points"]]
        traces.append(charts.line(kind, x, y, position, mode="markers"))
        rows.append(
            [
                kind,
                f"{figures['mean']:.1f}",
                f"{figures['least']:.1f} to {figures['most']:.1f}",
                f"{figures['equal']} of {len(x)}",
                str(figures["higher"]),
                f"{figures['worst']:.4f}",
            ]
        )
    paper = published.SCHEDULING
    traces.append(charts.hollow("paper: mean", [paper["mean"]], [1.0], "diamond"))
    times = f"{paper['least']:.0f} to {paper['most']:.0f}"
    rows.append(
        ["paper", f"{paper['mean']:.0f}", times, f"{paper['equal']} of {paper['of']}", "", ""]
    )
    chart = charts.chart(
        traces,
        "time of full over incremental scheduling",
        "peak of incremental over full",
        xaxis={"type": "log"},
        yaxis={"rangemode": "normal"},
    )
    head = ["networks", "times faster, mean", "range", "equal peaks", "higher", "worst peak"]
    return [Panel({}, chart if len(traces) > 1 else None, Table(head, rows))]


EXPERIMENT = Experiment(
    figure="14",
    title="Incremental scheduling",
    about="Random NASNet-like networks, rewritten again and again: the order around what changed,"
    " found anew, against all of it. From magis_bench, which is C++ (make core-tools).",
    cells=cells,
    panels=panels,
)
