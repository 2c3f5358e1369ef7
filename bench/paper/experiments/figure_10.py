"""Figure 10: the least additional time at 80 and 40 % of the memory."""

from experiments import bars
from experiments.experiment import Experiment

LIMITS = ("memory 0.8", "memory 0.4")

EXPERIMENT = Experiment(
    figure="10",
    title="Least additional time at 80 % and 40 % of the memory",
    about="Time of a step over that of the captured step in program order, less one. Negative where"
    " rewrites save more than the plan costs.",
    cells=lambda settings: bars.cells(settings, LIMITS),
    panels=lambda settings, results: bars.panels(settings, results, LIMITS),
    default={"variant": "paper", "profile": "rtx3090", "limit": bars.limit_words(LIMITS[1])},
)
