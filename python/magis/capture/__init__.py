"""PyTorch training step -> graph text."""

from magis.capture.batch import (
    BatchLeaf,
    OutLeaf,
    OutputLeaf,
    OutputScalar,
    ScalarLeaf,
    StaticLeaf,
    TensorLeaf,
    TreeSpec,
    flatten_batch,
    normalise_batch,
)
from magis.capture.checks import (
    check_differentiated_once,
    differentiated_twice,
    differentiated_twice_words,
)
from magis.capture.step import Capture, capture

__all__ = [
    "BatchLeaf",
    "Capture",
    "OutLeaf",
    "OutputLeaf",
    "OutputScalar",
    "ScalarLeaf",
    "StaticLeaf",
    "TensorLeaf",
    "TreeSpec",
    "capture",
    "check_differentiated_once",
    "differentiated_twice",
    "differentiated_twice_words",
    "flatten_batch",
    "normalise_batch",
]
