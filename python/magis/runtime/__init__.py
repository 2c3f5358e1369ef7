"""The optimized step: guards, plan cache, running a plan, gradients, hooks, buffers, generator,
comparison with eager.
"""

from magis.runtime.api import optimize
from magis.runtime.step import Step

__all__ = ["Step", "optimize"]
