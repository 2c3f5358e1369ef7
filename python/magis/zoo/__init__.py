"""Ten models to try magis on, each with a loss and a batch.

>>> from magis import zoo
>>> model, loss_fn, batch = zoo.build("resnet50", size="tiny")
>>> loss = loss_fn(model, **batch)
"""

from magis.zoo.registry import ENTRIES, build, describe, entry, names
from magis.zoo.workload import Size, Workload, ZooEntry

__all__ = ["ENTRIES", "Size", "Workload", "ZooEntry", "build", "describe", "entry", "names"]
