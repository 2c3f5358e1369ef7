"""Independent checks of graphs and plans. Nothing here shares code with the core or with code
generation."""

from magis.verify.evaluator import Evaluation, evaluate, evaluate_all, inputs_from

__all__ = ["Evaluation", "evaluate", "evaluate_all", "inputs_from"]
