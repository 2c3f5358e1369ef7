"""`path/to/file.py:function`: the user's own model, loss and batch."""

from __future__ import annotations

import difflib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from magis.cli.status import UsageError

Triple = tuple[Any, Any, Any]


def call_function(location: str) -> Triple:
    """What `path/to/file.py:function` returns, called without arguments: model, loss_fn, batch.

    Runs the file as `python file.py` would, its folder first on the path, but not as `__main__`.
    What it prints goes to stderr. Raises UsageError that names the line in which it fails.
    """
    path, function = split_location(location)
    with redirect_stdout(sys.stderr):
        module = _guarded(lambda: _load(path), path)
        make = getattr(module, function, None)
        if not callable(make):
            raise UsageError(_no_function(path, function, module))
        result = _guarded(make, path)
    return _checked(result, location)


def split_location(location: str) -> tuple[Path, str]:
    """The two parts of `path/to/file.py:function`; a file without function is a UsageError."""
    path, colon, function = location.rpartition(":")
    if not colon or not function:
        name = location.removesuffix(":")
        raise UsageError(
            f'"{location}" does not say which function returns (model, loss_fn, batch); '
            f"write {name}:FUNCTION"
        )
    if not Path(path).is_file():
        raise UsageError(f"{path}: no such file (in {location})")
    return Path(path), function


def _load(path: Path) -> ModuleType:
    name = f"magis_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look their module up
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec.loader.exec_module(module)
    return module


def _guarded(function: Callable[[], Any], path: Path) -> Any:
    """What `function()` returns; its failure as UsageError with the innermost line of `path`."""
    try:
        return function()
    except (UsageError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        raise UsageError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except BaseException as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).resolve() == path.resolve()
        ]
        place = f"{path}:{lines[-1]}" if lines else str(path)
        raise UsageError(f"{place}: {type(error).__name__}: {error}") from error


def _no_function(path: Path, function: str, module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
    ]
    near = difflib.get_close_matches(function, names, n=1)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    listed = f" It defines: {', '.join(names)}." if names and not near else ""
    return f"{path} has no function {function}{hint or '.'}{listed}"


def _checked(result: Any, location: str) -> Triple:
    import torch

    if not isinstance(result, tuple) or len(result) != 3:
        what = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
        raise UsageError(f"{location} returns {what}; it must return (model, loss_fn, batch)")
    model, loss_fn, batch = result
    if not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"{location} returns {type(model).__name__} as model; it must be a torch.nn.Module"
        )
    if loss_fn is not None and not callable(loss_fn):
        raise UsageError(
            f"{location} returns {type(loss_fn).__name__} as loss_fn; it must be a function or None"
        )
    return model, loss_fn, batch
