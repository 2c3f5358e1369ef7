"""What a canonicalisation rule is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from magis.capture.builder import Builder

# rule(builder, fx node, positional arguments, keyword arguments) -> what stands for the node's
# result: a Value or a list of them; None if the rule does not apply and the operator is to be taken
# over as it is.
Rule = Callable[[Builder, torch.fx.Node, list[Any], dict[str, Any]], Any]
