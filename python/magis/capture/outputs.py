"""What a traced step hands back and leaves behind, collected while it is traced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from magis._torch_internals import pytree
from magis.capture.batch import (
    OutLeaf,
    OutputLeaf,
    OutputScalar,
    StaticLeaf,
    TreeSpec,
    is_static,
)
from magis.capture.ir import InputKind, OutputKind
from magis.capture.records import opened
from magis.errors import CaptureError


@dataclass
class Outputs:
    """What the traced function returns, with a label for each tensor, and how the loss function's
    result is put together again.
    """

    labels: list[tuple[OutputKind, str]] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)
    scalars: list[Any] = field(default_factory=list)  # one for each OutputScalar among the leaves
    leaves: list[OutLeaf] = field(default_factory=list)
    spec: TreeSpec = field(default_factory=lambda: pytree.tree_structure(()))

    def add(self, kind: OutputKind, path: str, tensor: torch.Tensor) -> int:
        self.labels.append((kind, path))
        self.tensors.append(tensor)
        return len(self.labels) - 1

    def add_result(self, result: Any, has_loss: bool) -> None:
        """All that loss_fn, or without one the model, returned. Raises CaptureError for what cannot
        be handed back.
        """
        flat, self.spec = pytree.tree_flatten_with_path(opened(result))
        for position, (key_path, value) in enumerate(flat):
            path = pytree.keystr(key_path)
            if isinstance(value, torch.Tensor):
                if has_loss and position == 0:
                    index = self.add("loss", "", value.detach())
                else:
                    index = self.add("aux", path, value.detach())
                self.leaves.append(OutputLeaf(path, index))
            elif isinstance(value, torch.SymFloat):
                self.scalars.append(value)
                self.leaves.append(OutputScalar(path, ""))
            elif isinstance(value, float) or is_static(value):
                self.leaves.append(StaticLeaf(path, value))
            else:
                raise CaptureError(
                    f"the step returns a {type(value).__name__} (result{path or ' itself'}), which"
                    " magis cannot hand back. Return tensors, numbers, and tuples, lists or dicts"
                    " of them."
                )


def checked_loss(loss: Any) -> torch.Tensor:
    if not isinstance(loss, torch.Tensor):
        raise CaptureError(
            f"loss_fn returned a {type(loss).__name__}; it must return a scalar tensor, or a tuple"
            " whose first item is one"
        )
    if loss.numel() != 1:
        raise CaptureError(
            f"the loss has shape {tuple(loss.shape)}; it must be a scalar: reduce it with .mean()"
            " or .sum()"
        )
    if not loss.dtype.is_floating_point:
        raise CaptureError(f"the loss is {loss.dtype}; it must be floating point")
    if not loss.requires_grad:
        raise CaptureError(
            "the loss does not depend on anything that requires a gradient: are all parameters"
            " frozen, or was it detached or computed under no_grad? For inference pass"
            " loss_fn=None."
        )
    return loss


def shared_buffers(model: nn.Module) -> dict[str, list[str]]:
    """Paths of the buffers that have several, by their first; only these."""
    paths: dict[int, list[str]] = {}
    for path, buffer in model.named_buffers(remove_duplicate=False):
        paths.setdefault(id(buffer), []).append(path)
    return {names[0]: names for names in paths.values() if len(names) > 1}


def reassigned_buffers(
    model: nn.Module,
    originals: Mapping[str, torch.Tensor],
    shared: Mapping[str, list[str]],
    live: Mapping[tuple[InputKind, str], Any],
) -> dict[str, torch.Tensor]:
    """What stands in the place of buffers that the step replaced. Raises CaptureError where that
    cannot be written back.
    """
    result = {}
    for path, original in originals.items():
        for name in shared.get(path, ()):
            if _buffer_at(model, name) is not live["buffer", path]:
                raise CaptureError(
                    f"the step replaces the buffer {name}, which is the same tensor as"
                    f" {', '.join(n for n in shared[path] if n != name)}: from then on they would"
                    " be two. Write to it in place (copy_), or give each module its own."
                )
        now = _buffer_at(model, path)
        if now is live["buffer", path]:
            continue
        if now is None or now.shape != original.shape or now.dtype != original.dtype:
            became = "nothing" if now is None else f"{now.dtype} {tuple(now.shape)}"
            raise CaptureError(
                f"the step replaces the buffer {path}, {original.dtype} {tuple(original.shape)}, by"
                f" {became}; a buffer must keep its dtype and shape"
            )
        result[path] = now.detach()
    return result


def _buffer_at(model: nn.Module, path: str) -> torch.Tensor | None:
    owner, _, name = path.rpartition(".")
    found: torch.Tensor | None = model.get_submodule(owner)._buffers.get(name)
    return found


def plain_tensors(model: nn.Module) -> dict[tuple[str, str], torch.Tensor]:
    """Tensors that modules hold as ordinary attributes, by the module's path and their name."""
    return {
        (path, name): value
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor)
    }


def refuse_replaced_attributes(
    model: nn.Module, before: Mapping[tuple[str, str], torch.Tensor], used: Mapping[int, Any]
) -> None:
    """State kept in an ordinary attribute would stand still: read as a constant at each run.

    `used` holds, by id, the tensors that the step read from outside of its inputs.
    """
    for (path, name), tensor in before.items():
        now = vars(model.get_submodule(path)).get(name)
        if now is not tensor and isinstance(now, torch.Tensor) and id(tensor) in used:
            raise CaptureError(
                f"the step reads {path + '.' if path else ''}{name}, a tensor that is neither a"
                " parameter nor a buffer, and puts another in its place; that would happen only"
                " once. Register it with register_buffer."
            )
