"""Captures one model at full size on the meta device and prints what that took, as JSON.

    python capture_full.py <name> <variant>

A program of its own: the peak of resident memory is a figure of a whole process.
"""

import json
import resource
import sys
import time

import torch

from magis import zoo
from magis.capture import capture


def main(name: str, variant: str) -> None:
    torch.set_num_threads(1)
    model, loss_fn, batch = zoo.build(name, size="full", variant=variant, device="meta")
    # Of this process: what else the machine does meanwhile is not capture's time.
    start = time.process_time()
    captured = capture(model, loss_fn, batch, device="cpu")
    seconds = time.process_time() - start
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lines = captured.text.count("\n")
    print(json.dumps({"cpu_seconds": seconds, "resident_bytes": resident, "lines": lines}))


if __name__ == "__main__":
    main(*sys.argv[1:])
