"""Figures 9 and 10: every planner on every workload under a limit."""

from __future__ import annotations

import published
import workloads
from cells import Cell, Figures

from experiments import charts
from experiments.experiment import Panel, Results, Settings, Table, gap, percent

SCALED = ("rtx3090-half", "rtx3090-double")


def limit_words(limit: str) -> str:
    of, ratio = limit.split()
    if of == "memory":
        return f"{percent(float(ratio), 0)} of the memory"
    return f"{percent(float(ratio) - 1, 0)} more time"


def cells(settings: Settings, limits: tuple[str, ...]) -> list[Cell]:
    """Ours first: a suite that is broken off has these."""
    found = []
    for planner in reversed(settings.planners):
        for profile in _profiles(settings, planner):
            for limit in limits:
                for workload, variant in settings.subjects():
                    cell = settings.plan(workload, variant, profile, planner, limit)
                    if wanted(settings, cell):
                        found.append(cell)
    return found


def _profiles(settings: Settings, planner: str) -> tuple[str, ...]:
    scaled = settings.scaled and planner == "magis" and "rtx3090" in settings.profiles
    return settings.profiles + (SCALED if scaled else ())


def wanted(settings: Settings, cell: Cell) -> bool:
    """The authors' graphs belong to the yardsticks."""
    if cell.variant == "authors" and (cell.profile == "rtx3090" or cell.profile in SCALED):
        return False
    return not settings.quick or _wanted_quickly(cell)


def _wanted_quickly(cell: Cell) -> bool:
    """One limit a figure, of ours all that the verdicts ask for, and of the others' planners not
    all real workloads."""
    ours = cell.planner == "magis"
    fewer = cell.limit in ("latency 1.1", "memory 0.4")
    if cell.profile in SCALED:
        return cell.variant == "paper" and cell.limit == "latency 1.1"
    if cell.variant == "authors":
        public = published.PUBLIC[cell.profile].get(cell.limit, {})
        baseline = (cell.profile, cell.limit) == ("reference", "latency 1.1")
        judged = cell.workload in public or baseline
        return judged and (ours or (baseline and cell.planner == "pytorch"))
    if cell.profile != "rtx3090":
        return False
    if ours:
        return cell.variant == "paper" or cell.limit != "latency 1.05"
    if cell.planner == "torch-budget":  # PyTorch takes longer to load than others take in all
        return fewer and cell.variant == "paper" and cell.workload in ("resnet50", "bert", "unet")
    return fewer and (cell.variant == "paper" or cell.workload in ("resnet50", "bert"))


def figure_of(figures: Figures, limit: str) -> float:
    """What the limit leaves free: the memory's ratio, or the overhead."""
    return float(figures["memory"] if limit.startswith("latency") else figures["time"] - 1)


def shown(results: Results, cell: Cell) -> tuple[float | None, str]:
    """The bar, None for a gap, and what it says."""
    figures = results.figures(cell)
    if figures is None:
        return None, results.reason(cell)
    words = f"memory {percent(figures['memory'])}, time +{percent(figures['time'] - 1, 2)}"
    if not figures["met"]:
        return None, f"limit not met; nearest: {words}"
    note = f"; {figures['note']}" if figures["note"] else ""
    return figure_of(figures, cell.limit), f"{words}, {figures['wall_seconds']:.1f} s{note}"


def panels(settings: Settings, results: Results, limits: tuple[str, ...]) -> list[Panel]:
    found = []
    profiles = settings.profiles + (SCALED if settings.scaled else ())
    for variant in settings.variants:
        for profile in profiles:
            for limit in limits:
                panel = _panel(settings, results, variant, profile, limit)
                if panel is not None:
                    found.append(panel)
    return found


def _panel(
    settings: Settings, results: Results, variant: str, profile: str, limit: str
) -> Panel | None:
    names = [name for name in workloads.names(variant) if name in settings.workloads]
    titles = [workloads.WORKLOADS[name].title for name in names]
    traces, columns = [], []
    for planner in settings.planners:
        made = [settings.plan(name, variant, profile, planner, limit) for name in names]
        if not any(results.has(cell) for cell in made):
            continue
        bars, words = zip(*[shown(results, cell) for cell in made], strict=True)
        hover = [f"{planner}, {t}: {w}" for t, w in zip(titles, words, strict=True)]
        traces.append(charts.bars(planner, titles, bars, hover))
        columns.append((planner, bars, words))
    if not columns:
        return None
    of_memory = limit.startswith("latency")
    ours = [published.magis(name, limit) for name in names]
    others = [published.best_other(name, limit) for name in names]
    traces.append(charts.hollow("paper: MAGIS", titles, ours, "diamond"))
    best = [other[1] if other else None for other in others]
    if any(value is not None for value in best):
        traces.append(charts.hollow("paper: best other", titles, best, "circle"))
    axis = "peak over program order's" if of_memory else "additional time"
    chart = charts.chart(
        traces, "", axis, barmode="group", yaxis={"tickformat": ".0%", "rangemode": "tozero"}
    )
    rows = [
        [planner, *(_text(value, w, of_memory) for value, w in zip(bars, words, strict=True))]
        for planner, bars, words in columns
    ]
    rows.append(["paper: MAGIS (best other)", *map(_paper, ours, others)])
    head = ["planner", *titles]
    choices = {"variant": variant, "profile": profile, "limit": limit_words(limit)}
    return Panel(choices, chart, Table(head, rows))


def _text(value: float | None, words: str, of_memory: bool) -> str:
    if value is None:
        return gap(words)
    return percent(value, 1 if of_memory else 2)


def _paper(ours: float | None, other: tuple[str, float] | None) -> str:
    if ours is None:
        return ""
    best = f"{other[0]} {percent(other[1])}" if other else "none"
    return f"{percent(ours)} ({best})"
