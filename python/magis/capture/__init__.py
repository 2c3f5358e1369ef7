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
    "flatten_batch",
    "normalise_batch",
]
