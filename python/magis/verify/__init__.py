"""Independent checks of graphs and plans. Nothing here shares code with the core or with codegen.

- `evaluate` runs graph or program text on tensors, in float64 or in the recorded dtypes.
- `verify_plan` holds a program to its graph statement by statement and counts its bytes.
- `check_types` re-runs the operators on fake tensors and compares layouts and storage sharing.
"""

from magis.verify.evaluator import Evaluation, evaluate, evaluate_all
from magis.verify.inputs import inputs_from
from magis.verify.layouts import check_types
from magis.verify.plan import PlanFacts, verify_plan

__all__ = [
    "Evaluation",
    "PlanFacts",
    "check_types",
    "evaluate",
    "evaluate_all",
    "inputs_from",
    "verify_plan",
]
