"""Independent checks of graphs and plans. Nothing here shares code with the core or with codegen.

- `evaluate` runs graph or program text on tensors, in float64 or in the recorded dtypes.
- `verify_plan` holds a program to its graph statement by statement and counts its bytes.
- `check_fission` compares a graph with loops with the graph that it was split from;
  `FissionCheck` does so for many splits of one graph.
- `check_types` re-runs the operators on fake tensors and compares layouts and storage sharing.
"""

from magis.verify.evaluator import Evaluation, evaluate, evaluate_all
from magis.verify.fission import FissionCheck, check_fission
from magis.verify.inputs import inputs_from, random_inputs
from magis.verify.layouts import check_types
from magis.verify.plan import PlanFacts, verify_plan

__all__ = [
    "Evaluation",
    "FissionCheck",
    "PlanFacts",
    "check_fission",
    "check_types",
    "evaluate",
    "evaluate_all",
    "inputs_from",
    "random_inputs",
    "verify_plan",
]
