"""Captures the workloads anew, from the models of the zoo on PyTorch's fake tensors.

python bench/paper/workloads/recapture.py [--only bert vit] [--variant paper real]
    [--check | --folder FOLDER]

--check writes nothing and says which shipped graphs differ from a fresh capture. No CUDA device is
needed, and neither weights nor activations take memory.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from magis import zoo
from magis.capture import capture
from workloads import GRAPHS, WORKLOADS, path_of

Optimizer = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]

# Convolutional networks as He et al. trained them, transformers as everybody does.
OPTIMIZERS: dict[str, Optimizer] = {
    "plain": lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    "momentum": lambda parameters: torch.optim.SGD(
        parameters, lr=0.1, momentum=0.9, weight_decay=1e-4
    ),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
}


def text_of(name: str, variant: str, size: str = "full") -> str:
    """The graph text of a workload's whole step, the optimizer's update in it."""
    workload = WORKLOADS[name]
    model, loss_fn, batch = zoo.build(
        workload.model, size=size, dtype=workload.dtype, variant=variant, device="meta"
    )
    kind = "plain" if variant == "paper" else workload.real_optimizer
    meta = {"model": workload.model, "variant": variant, "optimizer": kind}
    optimizer = OPTIMIZERS[kind](list(model.parameters()))
    device = "cuda" if variant == "paper" else workload.device
    return capture(model, loss_fn, batch, device=device, optimizer=optimizer, meta=meta).text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument(
        "--variant", nargs="+", choices=("paper", "real"), default=["paper", "real"]
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--folder", type=Path, default=GRAPHS)
    options = parser.parse_args()
    differing = 0
    for name in options.only:
        for variant in options.variant:
            text = text_of(name, variant)
            path = options.folder / path_of(name, variant).name
            if options.check:
                shipped = gzip.decompress(path.read_bytes()).decode() if path.exists() else None
                differing += shipped != text
                print(f"{name} {variant}: {'as shipped' if shipped == text else 'DIFFERS'}")
                continue
            options.folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(text.encode(), mtime=0))
            print(f"{path}: {path.stat().st_size / 1e3:.0f} kB", flush=True)
    return min(differing, 1)


if __name__ == "__main__":
    sys.exit(main())
