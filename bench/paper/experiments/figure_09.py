"""Figure 9: the least memory for 10 and 5 % more time."""

from experiments import bars
from experiments.experiment import Experiment

LIMITS = ("latency 1.1", "latency 1.05")

EXPERIMENT = Experiment(
    figure="9",
    title="Least memory for 10 % and 5 % more time",
    about="Peak memory over that of the captured step in program order, which no planner touched."
    " A gap is a planner that did not keep the limit, or has no plan; hover or read the table for"
    " why.",
    cells=lambda settings: bars.cells(settings, LIMITS),
    panels=lambda settings, results: bars.panels(settings, results, LIMITS),
    default={"variant": "paper", "profile": "rtx3090"},
)
