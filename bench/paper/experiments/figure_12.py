"""Figure 12: ViT in micro-batches, each planned by POFO."""

import published
from cells import Cell

from experiments import charts
from experiments.bars import shown
from experiments.experiment import Experiment, Panel, Results, Settings, Table, gap, percent

LIMITS = tuple(f"memory {ratio:g}" for ratio in (0.8, 0.6, 0.4, 0.3, 0.2, 0.1))
QUICK_LIMITS = ("memory 0.6", "memory 0.4", "memory 0.2")
PARTS = (8, 16, 32)
PLANNERS = ("pofo", *(f"microbatch-{parts}+pofo" for parts in PARTS), "magis")


def _limits(settings: Settings) -> tuple[str, ...]:
    return QUICK_LIMITS if settings.quick else LIMITS


def _variants(settings: Settings) -> list[str]:
    if "vit" not in settings.workloads:
        return []
    known = [v for v in settings.variants if v != "authors"]
    return [v for v in known if v == "paper"] if settings.quick else known


def _choices(settings: Settings) -> list[tuple[str, str]]:
    profiles = settings.profiles[:1] if settings.quick else settings.profiles
    return [(variant, profile) for variant in _variants(settings) for profile in profiles]


def cells(settings: Settings) -> list[Cell]:
    return [
        settings.plan("vit", variant, profile, planner, limit)
        for variant, profile in _choices(settings)
        for planner in reversed(PLANNERS)
        for limit in _limits(settings)
    ]


def panels(settings: Settings, results: Results) -> list[Panel]:
    found = []
    for variant, profile in _choices(settings):
        traces, rows = [], []
        for position, planner in enumerate(PLANNERS):
            made = [
                settings.plan("vit", variant, profile, planner, limit)
                for limit in _limits(settings)
            ]
            points = []
            row = [planner]
            for cell in made:
                overhead, words = shown(results, cell)
                row.append(gap(words) if overhead is None else percent(overhead))
                figures = results.figures(cell)
                if overhead is not None and figures is not None:
                    points.append((figures["memory"], overhead))
            rows.append(row)
            x, y = [p[0] for p in points], [p[1] for p in points]
            traces.append(charts.line(planner, x, y, position))
        paper = {limit: published.magis("vit", limit) for limit in _limits(settings)}
        known = [(float(limit.split()[1]), y) for limit, y in paper.items() if y is not None]
        x, y = [p[0] for p in known], [p[1] for p in known]
        traces.append(charts.hollow("paper: MAGIS", x, y, "diamond"))
        rows.append(["paper: MAGIS", *("" if v is None else percent(v) for v in paper.values())])
        chart = charts.chart(
            traces,
            "peak over program order's",
            "additional time",
            xaxis={"tickformat": ".0%"},
            yaxis={"tickformat": ".0%"},
        )
        head = ["planner", *(percent(float(limit.split()[1]), 0) for limit in _limits(settings))]
        choices = {"variant": variant, "profile": profile}
        found.append(Panel(choices, chart, Table(head, rows)))
    return found


EXPERIMENT = Experiment(
    figure="12",
    title="Micro-batches with POFO, on ViT",
    about="The step in 8, 16 or 32 parts of the batch, each part's plan by POFO, beside ours."
    " Additional time at each limit on memory. The paper's POFO in parts is known as a curve"
    " without figures: behind MAGIS everywhere, ahead of POFO alone under tight limits.",
    cells=cells,
    panels=panels,
    default={"variant": "paper", "profile": "rtx3090"},
)
