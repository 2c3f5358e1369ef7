"""The table of models, and the one function that builds any of them."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from magis.errors import MagisError
from magis.zoo import btlm, huggingface, mlp, resnet, unet, unet_plus_plus
from magis.zoo.workload import Request, Workload, ZooEntry

VARIANTS = ("real", "paper")
PAPER_ATTENTION = ("eager", "sdpa")  # the paper's workloads write attention out

ENTRIES: dict[str, ZooEntry] = {
    entry.name: entry
    for entry in (
        mlp.ENTRY,
        resnet.ENTRY,
        unet.ENTRY,
        unet_plus_plus.ENTRY,
        btlm.ENTRY,
        *huggingface.ENTRIES,
    )
}


def names() -> list[str]:
    """The zoo's models, in a fixed order."""
    return list(ENTRIES)


def entry(name: str) -> ZooEntry:
    """The entry of that name; `MagisError` with the nearest name if there is none."""
    if name not in ENTRIES:
        near = difflib.get_close_matches(name, ENTRIES, n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise MagisError(f'no zoo model "{name}"{hint} There are: {", ".join(ENTRIES)}')
    return ENTRIES[name]


def describe() -> list[dict[str, Any]]:
    """What `magis zoo` shows: a plain dictionary for each model, fit for JSON."""
    return [
        {
            "name": model.name,
            "summary": model.summary,
            "options": list(model.options),
            "attention": list(model.attention),
            "variants": list(VARIANTS),
            "sizes": {
                word: {
                    "parameters": size.parameters,
                    "paper_parameters": size.paper_parameters,
                    "batch": size.batch,
                    "seq": size.seq,
                    "image": size.image,
                }
                for word, size in model.sizes.items()
            },
        }
        for model in ENTRIES.values()
    ]


def build(
    name: str,
    *,
    size: str = "tiny",
    batch: int | None = None,
    seq: int | None = None,
    image: int | None = None,
    dtype: str | torch.dtype = "float32",
    variant: str = "real",
    dropout: float | None = None,
    attention: str | None = None,
    device: str | torch.device = "cpu",
    seed: int = 0,
) -> Workload:
    """A model in training mode, its loss function and a batch: what `magis.optimize` takes.

    Args:
        name: one of `names()`.
        size: "tiny" (milliseconds a step), "small" (about a second on two cores) or "full" (as
            published).
        batch: samples; by default what the size says, as for `seq` and `image`.
        seq: tokens a sample, for language models.
        image: pixels a side, for vision models.
        dtype: of weights and floating-point inputs, "float32" or torch.float32.
        variant: "real", or "paper": the MAGIS paper's workload (no batch norm, dropout, embeddings,
            positions or biases; ReLU for every activation; mean squared error).
        dropout: sets every dropout rate; by default the model's own.
        attention: "sdpa" (fused) or "eager" (matmul, softmax, matmul), where the model offers both.
        device: where weights and batch are created. "meta" takes no memory.
        seed: of weights and batch. The global generators are left as they were.

    Raises:
        MagisError: names the argument that the model does not understand.
    """
    model_entry = entry(name)
    request = _check(model_entry, size, batch, seq, image, variant, dropout, attention)
    with _creation(_dtype(dtype), torch.device(device), seed):
        model, loss_fn, example = model_entry.builder(request)
    model.train()
    return model, loss_fn, example


def _check(
    model: ZooEntry,
    size: str,
    batch: int | None,
    seq: int | None,
    image: int | None,
    variant: str,
    dropout: float | None,
    attention: str | None,
) -> Request:
    _one_of("size", size, tuple(model.sizes))
    _one_of("variant", variant, VARIANTS)
    paper = variant == "paper"
    defaults = model.sizes[size]
    lengths = {"batch": batch, "seq": seq, "image": image}
    for option, value in lengths.items():
        if value is not None and option not in model.options:
            raise MagisError(f"{model.name} has no {option}; its options: {_listed(model.options)}")
        if value is not None and value < 1:
            raise MagisError(f"{option} must be at least 1, not {value}")
    if dropout and (paper or "dropout" not in model.options):
        what = "paper variants have" if paper else f"{model.name} has"
        raise MagisError(f"{what} no dropout, so its rate cannot be {dropout}")
    if dropout is not None and not 0.0 <= dropout < 1.0:
        raise MagisError(f"dropout must lie in [0, 1), not {dropout}")
    choices = PAPER_ATTENTION if paper and model.attention else model.attention
    if attention is not None:
        _one_of(f"attention of {model.name}", attention, choices)
    return Request(
        size=size,
        batch=batch or defaults.batch,
        seq=seq or defaults.seq or 0,
        image=image or defaults.image or 0,
        variant=variant,
        dropout=dropout,
        attention=attention or (choices[0] if choices else ""),
    )


def _one_of(what: str, word: str, choices: tuple[str, ...]) -> None:
    if word not in choices:
        known = f"it is {_listed(choices)}" if choices else "it has none"
        raise MagisError(f'{what}: "{word}" is not known; {known}')


def _listed(words: tuple[str, ...]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise MagisError(f'dtype "{dtype}" is not one of floating point, like float32 or bfloat16')
    return found


@contextmanager
def _creation(dtype: torch.dtype, device: torch.device, seed: int) -> Iterator[None]:
    """Sets dtype, device and seed of what is made inside; leaves nothing global changed."""
    before = torch.get_default_dtype()
    if device.type in ("cpu", "meta"):
        generators = torch.random.fork_rng(devices=[])
    else:
        generators = torch.random.fork_rng([device], device_type=device.type)
    with generators, torch.device(device):
        torch.manual_seed(seed)
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)
