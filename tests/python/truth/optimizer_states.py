"""An optimizer's state in the middle of training, for steps that contain its update."""

from torch import Tensor

from magis.verify import random_inputs
from magis.verify.text import parse


def states(text: str, *, seed: int = 0) -> dict[str, Tensor]:
    """By path, as `inputs_from` takes them: positive, as second moments and counts are."""
    values = random_inputs(text, seed=seed)
    found = {i.path: values[i.name] for i in parse(text).inputs if i.kind == "state"}
    return {path: value for path, value in found.items() if isinstance(value, Tensor)}
