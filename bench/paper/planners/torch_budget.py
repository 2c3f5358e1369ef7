"""What PyTorch's own partitioner saves at a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planners.budgets import Candidates, rewritten_problem
from planners.planner import Outcome, Task
from planners.recompute import eager_order, saving

BUDGETS = (0.99, 0.5, 0.25, 0.75, 0.1, 0.05, 0.9, 0.35, 0.15, 0.6)


@dataclass(frozen=True)
class PartitionerBudget:
    name: ClassVar[str] = "torch-budget"
    published: ClassVar[str] = "PyTorch 2.13's activation_memory_budget (min-cut and knapsack)"
    simplified: ClassVar[str] = (
        "The saved set is chosen by torch._functorch.partitioners.choose_saved_values_set itself,"
        " minimum cuts and knapsack, on a joint graph of the same operators; runtimes are the"
        " profile's, by its hook for estimators. A multi-result operator's results are saved each"
        " for itself. Inductor's fusion, which would do away with tensors, is left out; what is"
        " not saved is recomputed before it is read. Budgets between 0 and 1 are tried, the"
        " partitioner's own measure."
    )

    def plan(self, task: Task) -> Outcome:
        # Only this planner needs PyTorch; all others do without.
        from planners.joint_graph import JointGraph

        problem = rewritten_problem(task)
        candidates = Candidates(task)
        candidates.add(problem, eager_order(problem), "all is saved")
        joint = JointGraph(problem)
        for budget in [1.0, 0.0, *BUDGETS]:
            if candidates.seconds_left <= 0:
                break
            saved = joint.saved(budget)
            candidates.add(problem, saving(problem, saved), f"budget {budget:g}")
        return candidates.outcome()
