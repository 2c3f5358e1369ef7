"""Refuses, before anything runs, what cannot be captured."""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn

from magis.capture.batch import classify_leaf, flatten_batch
from magis.capture.reads import Read
from magis.capture.sites import place
from magis.errors import CaptureError

REPLICATED = {"DistributedDataParallel", "DataParallel"}
SHARDED = {"FullyShardedDataParallel", "FSDPModule"}
_DEVICES = ("cpu", "cuda")

WITHOUT_SHARDS = (
    "A planned step needs whole parameters: give each process the whole model in a"
    " DistributedDataParallel, and the optimizer to the step, which lowers what gradients and"
    " activations take; or train without magis."
)

AVERAGING_BATCH_NORM = (
    "module {module!r}: batch norm with momentum=None reads the number of steps that it has counted"
    " on every call, but a captured step runs the same operators for any data. Give it a momentum"
    " (0.1 is usual), or put it into eval mode."
)

Draws: TypeAlias = tuple[Any, Any]  # where the generators of Python and NumPy stand


def check_model(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise CaptureError(f"the model is a {type(model).__name__}, not a torch.nn.Module")
    for path, module in model.named_modules():
        where = f"module {path!r}" if path else "the model"
        kinds = {base.__name__ for base in type(module).__mro__}
        if wrappers := REPLICATED & kinds:
            raise CaptureError(
                f"{where} is wrapped in {wrappers.pop()}, which cannot be captured: pass the module"
                " itself (model.module). magis.optimize takes a DistributedDataParallel around the"
                " whole model."
            )
        if sharders := SHARDED & kinds:
            raise CaptureError(f"{where} is sharded by {sharders.pop()}. {WITHOUT_SHARDS}")
        if type(module).__name__ == "OptimizedModule":
            raise CaptureError(
                f"{where} was made by torch.compile; pass the original module (model._orig_mod)"
            )
        if isinstance(module, torch.jit.ScriptModule):
            raise CaptureError(f"{where} is a TorchScript module; pass the original nn.Module")
    for path, parameter in model.named_parameters():
        _check_tensor(f"parameter {path}", parameter, nn.Parameter)
    for path, buffer in model.named_buffers():
        _check_tensor(f"buffer {path}", buffer, torch.Tensor)
        if buffer.requires_grad:
            raise CaptureError(f"buffer {path} requires a gradient; make it a parameter")


def _check_tensor(what: str, tensor: torch.Tensor, expected: type) -> None:
    if isinstance(tensor, nn.parameter.UninitializedTensorMixin):
        raise CaptureError(f"{what} has no shape yet; run the model once before capturing it")
    if tensor.layout is not torch.strided:
        raise CaptureError(f"{what} is {tensor.layout}; only dense tensors can be captured")
    if tensor.is_quantized:
        raise CaptureError(f"{what} is quantized ({tensor.dtype}), which cannot be captured")
    # Subclasses that hook into dispatch (DTensor, torchao's weights) hide what they hold; others
    # are plain tensors.
    if type(tensor).__name__ == "DTensor" or type(tensor.data).__name__ == "DTensor":
        raise CaptureError(
            f"{what} is a DTensor, spread over several processes (FSDP, tensor parallel)."
            f" {WITHOUT_SHARDS}"
        )
    if type(tensor) is not expected and hasattr(type(tensor), "__tensor_flatten__"):
        raise CaptureError(
            f"{what} is a {type(tensor).__name__}; tensor subclasses cannot be captured"
        )


def resolve_device(model: nn.Module, batch: Any, asked: str | None) -> torch.device:
    """The device that the step is captured for: the one asked for, else the one that everything is
    on.

    Weights on the meta device count as being on the CPU.
    """
    if asked is not None:
        try:
            device = torch.device(asked)
        except (RuntimeError, TypeError) as error:
            raise CaptureError(_unknown_device(asked)) from error
        if device.type not in _DEVICES:
            raise CaptureError(_unknown_device(asked))
        return _indexed(device)
    first: dict[torch.device, str] = {}
    for what, tensor in _tensors(model, batch):
        device = torch.device("cpu") if tensor.is_meta else tensor.device
        first.setdefault(device, what)
    if len(first) > 1:
        places = ", ".join(f"{what} is on {device}" for device, what in first.items())
        raise CaptureError(
            f"the step must be on one device, but {places}. Move everything there, or name the"
            " device to plan for: device=..."
        )
    device = next(iter(first), torch.device("cpu"))
    if device.type not in _DEVICES:
        raise CaptureError(_unknown_device(str(device)))
    return _indexed(device)


def _indexed(device: torch.device) -> torch.device:
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


def _unknown_device(device: str) -> str:
    return f"unknown device {device!r}; steps can be captured for {' and '.join(_DEVICES)}"


def _tensors(model: nn.Module, batch: Any) -> list[tuple[str, torch.Tensor]]:
    found: list[tuple[str, torch.Tensor]] = [
        (f"parameter {path}", parameter) for path, parameter in model.named_parameters()
    ]
    found += [(f"buffer {path}", buffer) for path, buffer in model.named_buffers()]
    leaves, _ = flatten_batch(batch)
    found += [(f"batch{path}", leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
    return found


def check_batch(model: nn.Module, batch: Any) -> None:
    leaves, _ = flatten_batch(batch)
    for path, value in leaves:
        classify_leaf(path, value)
        if not isinstance(value, torch.Tensor):
            continue
        _check_tensor(f"batch{path}", value, torch.Tensor)
        if value.grad_fn is not None:
            raise CaptureError(
                f"batch{path} is the result of a differentiable computation; the step cannot reach"
                " back through it. Pass it detached, or make that computation part of the model."
            )
    check_differentiated_once(model, [path for path, _ in leaves], [value for _, value in leaves])


def check_differentiated_once(
    model: nn.Module, paths: Sequence[str], leaves: Sequence[Any]
) -> None:
    found = differentiated_twice(dict(model.named_parameters()), leaves)
    if found is not None:
        raise CaptureError(differentiated_twice_words(paths, found))


def differentiated_twice(
    parameters: Mapping[str, torch.Tensor], leaves: Sequence[Any]
) -> tuple[int, int | str] | None:
    """The first tensor among `leaves` that requires a gradient and is there twice.

    Returns its position and its other position, or the name of the parameter that it is. Its
    gradient would come in two parts, while eager gives hooks the sum and adds in another order.
    """
    seen: dict[int, int | str] = {}
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            if not seen:
                seen = {id(parameter): name for name, parameter in parameters.items()}
            if id(leaf) in seen:
                return position, seen[id(leaf)]
            seen[id(leaf)] = position
    return None


def differentiated_twice_words(paths: Sequence[str], found: tuple[int, int | str]) -> str:
    """What `differentiated_twice` found, and the way out. `paths` are those of the leaves."""
    position, other = found
    here = f"batch{paths[position]}"
    if isinstance(other, str):
        return (
            f"{here} is the model's parameter {other}, whose gradient would come in two parts; "
            "reach it through the model inside of loss_fn, or pass it detached"
        )
    return (
        f"batch{paths[other]} and {here} are the same tensor, which requires a gradient; pass it "
        "once and use it twice inside of loss_fn"
    )


def check_written_storage(written: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Raises CaptureError if what the step writes to overlaps another of the model's tensors.

    The keys of `tensors` name them in words; `written` is one of the keys.
    """
    tensor = tensors[written]
    for other, candidate in tensors.items():
        if candidate is not tensor and _overlap(tensor, candidate):
            raise CaptureError(
                f"the step writes in place to {written}, which shares its storage with {other}; in"
                " a captured step each has a value of its own. Register one of them and take the"
                " other as a view of it in forward()."
            )


def check_read_state(reads: Iterable[Read], written: Collection[tuple[str, str]]) -> None:
    """Raises CaptureError where the step reads, in Python, numbers that it writes itself: a guard
    on them would miss at every call. A truth value may well stay as it is.
    """
    for read in reads:
        if isinstance(read.expected, bool):
            continue
        for kind, path in read.inputs:
            if (kind, path) in written:
                owner, _, name = path.rpartition(".")
                if name == "num_batches_tracked":
                    raise CaptureError(AVERAGING_BATCH_NORM.format(module=owner))
                raise CaptureError(
                    f"{place(read.site)}: the code reads the value of a tensor made from the {kind}"
                    f" {path}, which the step itself changes, so that each step would need a plan"
                    " of its own. Compute with it on tensors (torch.where), or count in the"
                    " training loop and pass the count in the batch."
                )


def check_draws(before: Draws, after: Draws, where: str) -> None:
    """Raises CaptureError where forward drew from Python's or NumPy's generator: what it drew would
    be frozen into the plan.
    """
    for name, one, other in zip(("Python's random module", "NumPy"), before, after, strict=True):
        if one != other:
            raise CaptureError(
                f"{where}: the code draws from the generator of {name}, whose numbers a captured"
                " step would repeat at every run. Draw with torch, or outside of the step and pass"
                " what was drawn in the batch."
            )


def draws_now() -> Draws:
    """Where the generators of Python and NumPy stand."""
    numpy = sys.modules.get("numpy")
    state = numpy.random.get_state() if numpy is not None else ("", (), 0, 0, 0.0)
    return random.getstate(), (state[2], hash(bytes(state[1])))


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    address = a.untyped_storage().data_ptr()  # 0 on the meta device, where nothing can be told
    if not address or address != b.untyped_storage().data_ptr():
        return False
    (first, last), (start, end) = _extent(a), _extent(b)
    return first < end and start < last


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """From the first byte in its storage to behind the last."""
    first = tensor.storage_offset() * tensor.itemsize
    if not tensor.numel():
        return first, first
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((length - 1) * stride for length, stride in steps)
    return first, first + (last + 1) * tensor.itemsize
