"""torch.compile's backend "magis": forward and backward of each graph that dynamo finds, planned
together and run as two functions.
"""

from magis.torch_compile.entry_point import backend

__all__ = ["backend"]
