"""Tensors that the step closes over: literals and attributes that are neither parameters nor
buffers.
"""

from __future__ import annotations

import hashlib

import torch

from magis import _torch_internals as internals
from magis.capture.builder import Builder
from magis.capture.ir import Value
from magis.errors import CaptureError

LARGEST_CONSTANT = 64 << 20  # bytes


class Constants:
    """One `const` input per distinct content."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._known: dict[tuple[torch.dtype, tuple[int, ...], bytes], Value] = {}

    def add(self, data: object, used_by: str) -> Value:
        """Raises CaptureError, naming `used_by`, for a constant without data or of more than 64
        MiB, and for what is not a tensor.
        """
        if isinstance(data, torch.Generator):
            raise CaptureError(
                f"{used_by}: draws from a generator of its own; use the default generator"
            )
        if not isinstance(data, torch.Tensor):
            raise CaptureError(
                f"{used_by}: hands a {type(data).__name__} to an operator, which a graph cannot"
                " hold"
            )
        tensor: torch.Tensor = data
        what = (
            f"a tensor {tensor.dtype} {tuple(tensor.shape)} that is neither a parameter, a buffer"
            " nor in the batch"
        )
        if tensor.is_meta or isinstance(tensor, internals.FakeTensor):
            raise CaptureError(
                f"{used_by}: uses {what}, and it has no data (it is on the meta device). Register"
                " it with register_buffer."
            )
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise CaptureError(f"{used_by}: uses {what}; only dense tensors can be carried along")
        size = tensor.numel() * tensor.element_size()
        if size > LARGEST_CONSTANT:
            raise CaptureError(
                f"{used_by}: uses {what}; it would be copied into the graph, and has {size} bytes."
                " Register it with register_buffer, or pass it in the batch."
            )
        tensor = tensor.detach().cpu().contiguous()
        digest = hashlib.sha256(tensor.reshape(-1).view(torch.uint8).numpy().tobytes()).digest()
        key = (tensor.dtype, tuple(tensor.shape), digest)
        if key not in self._known:
            fake = internals.fake_like(self._builder.fake_mode, tensor, self._builder.device)
            self._known[key] = self._builder.input("const", "", "lit", fake, tensor)
        return self._known[key]
