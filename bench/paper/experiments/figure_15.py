"""Figure 15: where the time of the search goes."""

import published
from cells import Cell

from experiments import charts
from experiments.experiment import Experiment, Panel, Results, Settings, Table, gap

PHASES = ("transform", "schedule", "simulate", "hash", "other")


def _cell(settings: Settings) -> Cell:
    seconds = settings.seconds if settings.quick else 60.0
    profile = settings.profiles[0]
    return Cell(
        "phases", "vit", "paper", profile, "magis-paper", "memory 0.4", seconds, settings.seed
    )


def cells(settings: Settings) -> list[Cell]:
    return [_cell(settings)] if "vit" in settings.workloads else []


def panels(settings: Settings, results: Results) -> list[Panel]:
    figures = results.figures(_cell(settings))
    if figures is None:
        reason = results.reason(_cell(settings))
        return [Panel({}, None, Table(["magis-paper"], [[gap(reason)]]))]
    sources = {"ours": figures, "paper": published.PHASES}
    traces, rows = [], []
    shares = {name: _shares(source["seconds"]) for name, source in sources.items()}
    for position, phase in enumerate(PHASES):
        y = [shares[name].get(phase) for name in sources]
        trace = charts.bars(phase, list(sources), y, [f"{phase}: {_percent(v)}" for v in y])
        own = charts.colour("", position)
        # The paper's are hollow.
        filled, edged = [own, "rgba(0,0,0,0)"], {"color": own, "width": 2}
        trace["marker"] = {"color": filled, "line": edged}
        traces.append(trace)
    for name, source in sources.items():
        counts = [str(source[word]) for word in ("generated", "repeated", "evaluated")]
        rows.append([name, *(_percent(shares[name].get(phase)) for phase in PHASES), *counts])
    chart = charts.chart(
        traces, "", "share of the time", barmode="stack", yaxis={"tickformat": ".0%"}
    )
    head = ["", *PHASES, "states generated", "dropped by hash", "scheduled and simulated"]
    return [Panel({}, chart, Table(head, rows))]


def _shares(seconds: dict[str, float]) -> dict[str, float]:
    whole = sum(seconds.values())
    return {phase: value / whole for phase, value in seconds.items()} if whole else {}


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


EXPERIMENT = Experiment(
    figure="15",
    title="Where the search's time goes",
    about="The search as published on ViT, one core. Scheduling contains the exact simulation of"
    " the order that it finds; hashing is incremental here, which is why it takes so much less"
    " than in the paper.",
    cells=cells,
    panels=panels,
)
