"""The paper's figures, one module each."""

from __future__ import annotations

from experiments import (
    figure_09,
    figure_10,
    figure_11,
    figure_12,
    figure_13,
    figure_14,
    figure_15,
    figure_16,
    measured,
)
from experiments.experiment import (
    PLANNER_NAMES,
    Chart,
    Experiment,
    Panel,
    Results,
    Settings,
    Table,
)

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.figure: module.EXPERIMENT
    for module in (
        figure_09,
        figure_10,
        figure_11,
        figure_12,
        figure_13,
        figure_14,
        figure_15,
        figure_16,
        measured,
    )
}

__all__ = [
    "EXPERIMENTS",
    "PLANNER_NAMES",
    "Chart",
    "Experiment",
    "Panel",
    "Results",
    "Settings",
    "Table",
]
