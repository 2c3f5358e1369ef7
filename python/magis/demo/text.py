"""Real text that every machine has: the sources of Python's standard library, bytes as tokens."""

import sysconfig
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from magis.errors import MagisError

MASK_TOKEN = 256  # the first id after the bytes
MASKED_SHARE = 0.15
IGNORED = -100  # cross-entropy's label for "no target"
CORPUS_BYTES = 2_000_000

Batch = dict[str, Tensor]


def standard_library() -> Tensor:
    """The first `CORPUS_BYTES` of the standard library's modules in order of name: u8[bytes]."""
    folder = Path(sysconfig.get_path("stdlib"))
    text = bytearray()
    for path in sorted(folder.glob("*.py")):
        text += path.read_bytes()
        if len(text) >= CORPUS_BYTES:
            break
    if not text:
        raise MagisError(f"no Python sources in {folder}: the demo trains on them")
    return torch.frombuffer(text[:CORPUS_BYTES], dtype=torch.uint8)


def masked_batches(corpus: Tensor, steps: int, batch: int, seq: int, seed: int) -> Iterator[Batch]:
    """Batches for masked language modelling: i64[batch, seq] `input_ids` and `labels`.

    Windows of the text start anywhere. A chosen token is hidden behind the mask token; the labels
    of all others are `IGNORED`. Drawn from a generator of their own, so that training draws the
    same dropout whatever the batches.
    """
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.arange(seq)
    for _ in range(steps):
        starts = torch.randint(0, len(corpus) - seq, (batch, 1), generator=generator)
        tokens = corpus[starts + offsets].long()
        masked = torch.rand(batch, seq, generator=generator) < MASKED_SHARE
        yield {
            "input_ids": tokens.masked_fill(masked, MASK_TOKEN),
            "labels": tokens.masked_fill(~masked, IGNORED),
        }
