"""Embedding bags on the CPU keep a list that says in which bag each index lies. Its kernel makes it
with room for one more and then shortens it: the shape alone would promise eight bytes too few.
"""

from __future__ import annotations

from typing import Any

import torch

from magis.capture.builder import Builder

_aten = torch.ops.aten


def _with_room(b: Builder, node: torch.fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    results = list(node.meta["val"])
    bags: torch.Tensor = results[1]
    if b.device.type != "cpu" or not bags.numel():  # sums need no such list
        return None
    with b.fake_mode:
        longer = torch.empty(bags.numel() + 1, dtype=bags.dtype, device=bags.device)
        results[1] = longer.as_strided(bags.shape, (1,))
    return b.run(node.target, args, kwargs, results)


EMBEDDING_BAG_RULES = {
    _aten._embedding_bag.default: _with_room,
    _aten._embedding_bag_forward_only.default: _with_room,
}
