"""The state of PyTorch's random generators: saved before a step that draws from them, put back if
it fails.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch


class GeneratorState:
    """The default generators of the CPU and of some CUDA devices, at one moment.

    Saving the CPU's takes nothing from PyTorch's allocator, so that a step that saves it takes no
    more than was promised; restoring and comparing go through a tensor of 5,056 bytes.
    """

    def __init__(self, devices: Iterable[torch.device]) -> None:
        self._cpu = torch.default_generator.clone_state()
        self._cuda = {
            device: _to_bytes(torch.cuda.get_rng_state(device))
            for device in devices
            if device.type == "cuda"
        }

    def restore(self) -> None:
        torch.set_rng_state(self._cpu.get_state())
        for device, state in self._cuda.items():
            torch.cuda.set_rng_state(_to_tensor(state), device)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GeneratorState):
            return NotImplemented
        same = torch.equal(self._cpu.get_state(), other._cpu.get_state())
        return same and self._cuda == other._cuda

    __hash__ = None  # type: ignore[assignment]  # a state is compared, never looked up


def _to_bytes(state: torch.Tensor) -> bytes:
    return bytes(state.numpy())


def _to_tensor(state: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)
