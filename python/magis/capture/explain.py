"""Turns what goes wrong while the user's code is traced into one clear message."""

from __future__ import annotations

import linecache
import textwrap
from types import TracebackType

from torch import nn

from magis import _torch_internals as internals
from magis.capture.sites import ModulePaths, is_user_file, short_path
from magis.errors import CaptureError

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_READS_DATA = (
    "value out of a tracing tensor",
    ".numpy() is not supported for tensor subclasses",
    "tolist() shouldn't be called on a tensor with unallocated storage",
)


def data_dependent(error: BaseException) -> bool:
    """Whether the code asked for the data of a tensor, which does not exist while tracing."""
    return isinstance(
        error,
        (internals.DataDependentOutputException, internals.DynamicOutputShapeException),
    ) or any(phrase in str(error) for phrase in _READS_DATA)


def explain(error: BaseException, paths: ModulePaths) -> CaptureError:
    """A CaptureError that names module and source line of `error`; raise it `from error`."""
    where = _where(error.__traceback__, paths)
    if isinstance(error, internals.DynamicOutputShapeException):
        return CaptureError(
            f"{where}: the shape of a result depends on the data ({_spelling(error.func)}: boolean"
            " indexing, nonzero, masked_select, unique ...), so that its memory cannot be planned."
            " Keep the shape fixed, for instance with torch.where or by multiplying with the mask."
        )
    norm = _averaging_batch_norm(error.__traceback__, paths)
    if data_dependent(error) and norm is not None:
        return CaptureError(
            f"module {norm!r}: batch norm with momentum=None reads the number of steps that it has"
            " counted on every call, but a captured step runs the same operators for any data. Give"
            " it a momentum (0.1 is usual), or put it into eval mode."
        )
    if data_dependent(error):
        return CaptureError(
            f"{where}: the code reads the value of a tensor (.item(), .numpy(), int(), bool(), or"
            " an `if` or `while` on it), but a captured step runs the same operators for any data."
            " Use torch.where, or decide outside of the step and pass the decision in the batch."
        )
    return CaptureError(f"{where}: {type(error).__name__}: {error}")


def _averaging_batch_norm(traceback: TracebackType | None, paths: ModulePaths) -> str | None:
    """The path of the batch norm with momentum=None in whose code it happened, if in one."""
    found = None
    while traceback is not None:
        module = traceback.tb_frame.f_locals.get("self")
        if isinstance(module, _BATCH_NORMS) and module.momentum is None:
            found = paths.get(module)
        traceback = traceback.tb_next
    return found


def _spelling(func: object) -> str:
    return str(func).removesuffix(".default")


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
