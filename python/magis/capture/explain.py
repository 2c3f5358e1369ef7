"""Turns what goes wrong while the user's code is traced into one clear message."""

from __future__ import annotations

import linecache
import re
import textwrap
from collections.abc import Iterable
from types import TracebackType

from torch import nn

from magis import _torch_internals as internals
from magis.capture.checks import AVERAGING_BATCH_NORM
from magis.capture.reads import UnreadableError, Why
from magis.capture.sites import ModulePaths, is_user_file, short_path
from magis.errors import CaptureError

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_READS_DATA = (
    "value out of a tracing tensor",
    ".numpy() is not supported for tensor subclasses",
    "tolist() shouldn't be called on a tensor with unallocated storage",
)
# What layer drop and its like are called.
_CHANCE_ARGUMENT = re.compile(r"(layer|path|head|token)_?drop|drop_?(path|layer)|stochastic", re.I)


def data_dependent(error: BaseException) -> bool:
    """Whether the code asked for the data of a tensor, which does not exist while tracing."""
    return isinstance(
        error,
        (
            UnreadableError,
            internals.DataDependentOutputException,
            internals.DynamicOutputShapeException,
        ),
    ) or any(phrase in str(error) for phrase in _READS_DATA)


def explain(error: BaseException, paths: ModulePaths) -> CaptureError:
    """A CaptureError that names module and source line of `error`; raise it `from error`."""
    where = _where(error.__traceback__, paths)
    why = error.why if isinstance(error, UnreadableError) else None
    norm = _averaging_batch_norm(error.__traceback__, paths)
    if data_dependent(error) and norm is not None:
        return CaptureError(AVERAGING_BATCH_NORM.format(module=norm))
    if why is Why.chance:
        return CaptureError(f"{where}: {_chance(error.__traceback__)}")
    if why is Why.too_large:
        return CaptureError(
            f"{where}: the code reads a value that is made from the batch by too many operators, or"
            " is too large to be compared at each call. Compute it outside of the step and pass it"
            " in the batch."
        )
    if why is Why.activation_shape or isinstance(error, internals.DynamicOutputShapeException):
        func = error.function if isinstance(error, UnreadableError) else _spelling(error)
        return CaptureError(
            f"{where}: the shape of a result depends on the data ({func}: boolean"
            " indexing, nonzero, masked_select, unique ...), so that its memory cannot be planned."
            f" {_dense_form(error.__traceback__)}"
        )
    if data_dependent(error):
        missing = ", and weights or batch are on the meta device" if why is Why.no_data else ""
        return CaptureError(
            f"{where}: the code reads the value of a tensor (.item(), .numpy(), int(), bool(), or"
            f" an `if` or `while` on it), but a captured step runs the same operators for any data"
            f"{missing}. Use torch.where, or decide outside of the step and pass the decision in"
            " the batch."
        )
    return CaptureError(f"{where}: {type(error).__name__}: {error}")


def _chance(traceback: TracebackType | None) -> str:
    """Layer drop and the like, with the argument that turns it off where one is found."""
    arguments = chance_arguments(_modules(traceback))
    way_out = f"set {arguments} to 0" if arguments else "set its probability to 0"
    return (
        "a random draw decides what the step runs (layer drop, or reading a random number), and a"
        f" plan is needed for each way that draws may come out: {way_out} in the model's"
        " configuration, or draw outside of the step and pass the outcome in the batch."
    )


def chance_arguments(modules: Iterable[object]) -> str:
    """Attributes of modules, and of their configurations, that turn random choices on."""
    found: dict[str, float] = {}
    for module in modules:
        for holder in (module, getattr(module, "config", None)):
            for name, value in getattr(holder, "__dict__", {}).items():
                number = isinstance(value, float) and 0 < value <= 1
                if number and _CHANCE_ARGUMENT.search(name):
                    found[name] = value
    return ", ".join(f"{name} ({value:g})" for name, value in found.items())


def _dense_form(traceback: TracebackType | None) -> str:
    """What to do about a shape that depends on data; a model's own dense form, if it has one."""
    for module in _modules(traceback):
        experts = getattr(getattr(module, "config", None), "_experts_implementation", None)
        if experts is not None and experts != "grouped_mm":
            return (
                "The model has a form of its experts whose shapes are fixed:"
                ' model.set_experts_implementation("grouped_mm").'
            )
    return "Keep the shape fixed, for instance with torch.where or by multiplying with the mask."


def _modules(traceback: TracebackType | None) -> list[nn.Module]:
    """The modules in whose code it happened, the innermost first."""
    found = []
    while traceback is not None:
        module = traceback.tb_frame.f_locals.get("self")
        if isinstance(module, nn.Module):
            found.append(module)
        traceback = traceback.tb_next
    return found[::-1]


def _averaging_batch_norm(traceback: TracebackType | None, paths: ModulePaths) -> str | None:
    """The path of the batch norm with momentum=None in whose code it happened, if in one."""
    found = None
    while traceback is not None:
        module = traceback.tb_frame.f_locals.get("self")
        if isinstance(module, _BATCH_NORMS) and module.momentum is None:
            found = paths.get(module)
        traceback = traceback.tb_next
    return found


def _spelling(error: BaseException) -> str:
    """The operator whose shape PyTorch could not tell."""
    return str(getattr(error, "func", error)).removesuffix(".default")


def _where(traceback: TracebackType | None, paths: ModulePaths) -> str:
    module, line = "", ""
    while traceback is not None:
        frame = traceback.tb_frame
        path = paths.get(frame.f_locals.get("self"))
        if path is not None:
            module = path
        filename = frame.f_code.co_filename
        if is_user_file(filename):
            line = f"{short_path(filename)}:{traceback.tb_lineno}"
            code = linecache.getline(filename, traceback.tb_lineno).strip()
            if code:
                line += f": `{textwrap.shorten(code, 100, placeholder=' ...')}`"
        traceback = traceback.tb_next
    place = f"module {module!r}" if module else "the step"
    return f"{place} ({line})" if line else place
