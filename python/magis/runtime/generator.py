"""The state of PyTorch's random generators: saved before a step that draws from them, put back if
it fails.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch


class GeneratorState:
    """The default generators of the CPU and of some CUDA devices, at one moment."""

    def __init__(self, devices: Iterable[torch.device]) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = {
            device: torch.cuda.get_rng_state(device) for device in devices if device.type == "cuda"
        }

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        for device, state in self._cuda.items():
            torch.cuda.set_rng_state(state, device)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GeneratorState) or self._cuda.keys() != other._cuda.keys():
            return NotImplemented
        return torch.equal(self._cpu, other._cpu) and all(
            torch.equal(state, other._cuda[device]) for device, state in self._cuda.items()
        )

    __hash__ = None  # type: ignore[assignment]
