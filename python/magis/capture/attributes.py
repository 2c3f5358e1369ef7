"""Plain values among modules' attributes that the step's Python code reads: a dropout probability,
a flag, an activation function. The capture freezes them, and every call compares them again.
"""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from magis.capture.reads import same_value

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
# What every module has, the mode among it, and what it runs are looked after elsewhere.
_OF_ALL_MODULES = frozenset({*vars(nn.Module), *vars(nn.Module()), "forward"})


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


@dataclass(frozen=True)
class Attribute:
    """What an attribute was when the step was captured."""

    path: str | None  # of the module in the model; None: it is not in the model, as a loss may be
    module: nn.Module
    name: str
    expected: Any

    def now(self, modules: Mapping[str, nn.Module]) -> Any:
        """Its value, in the module that the model has there by now."""
        module = self.module if self.path is None else modules.get(self.path)
        return _ABSENT if module is None else _held(module, self.name)

    def is_unchanged(self, modules: Mapping[str, nn.Module]) -> bool:
        return _same(self.expected, self.now(modules))

    def __str__(self) -> str:
        module = type(self.module).__name__
        if self.path is not None:
            module = f"{self.path} ({module})" if self.path else f"the model ({module})"
        return f"attribute {self.name} of {module}"


class AttributeReads:
    """Collects the plain attributes that modules are asked for."""

    def __init__(self, model: nn.Module) -> None:
        self._paths = {module: path for path, module in model.named_modules()}
        self._found: dict[tuple[nn.Module, str], Any] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """While the step's code runs, in this thread. What it writes itself, such as a count of
        calls, is dropped: nobody could say what the next call would find.
        """
        with _asked(self._note):
            yield
        for (module, name), value in list(self._found.items()):
            if not _same(value, _held(module, name)):
                del self._found[module, name]

    def found(self) -> tuple[Attribute, ...]:
        return tuple(
            Attribute(self._paths.get(module), module, name, value)
            for (module, name), value in self._found.items()
        )

    def _note(self, module: nn.Module, name: str) -> None:
        if name in _OF_ALL_MODULES or (module, name) in self._found:
            return
        value = _held(module, name)
        if _is_plain(value):
            self._found[module, name] = list(value) if isinstance(value, list) else value


_listeners: dict[int, Callable[[nn.Module, str], None]] = {}  # by thread
_lock = threading.Lock()


@contextlib.contextmanager
def _asked(listener: Callable[[nn.Module, str], None]) -> Iterator[None]:
    """Inside, `listener` hears of each attribute that this thread asks a module for."""
    thread = threading.get_ident()
    with _lock:
        if not _listeners:
            nn.Module.__getattribute__ = _telling
        _listeners[thread] = listener
    try:
        yield
    finally:
        with _lock:
            del _listeners[thread]
            if not _listeners:
                del nn.Module.__getattribute__  # object's is what modules have


def _telling(module: nn.Module, name: str) -> Any:
    listener = _listeners.get(threading.get_ident())
    if listener is not None:
        listener(module, name)
    return object.__getattribute__(module, name)


def _held(module: nn.Module, name: str) -> Any:
    """What the module itself, or else its class, holds under this name; no code of its runs."""
    own = object.__getattribute__(module, "__dict__")
    if name in own:
        return own[name]
    for kind in type(module).__mro__:
        if name in kind.__dict__:
            held = kind.__dict__[name]
            return _ABSENT if isinstance(held, _FUNCTIONS) else held  # a method
    return _ABSENT


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(type(item) in _PLAIN for item in value)
    return type(value) in (*_PLAIN, *_FUNCTIONS)


def _same(expected: Any, found: Any) -> bool:
    if expected is found and not isinstance(expected, list):
        return True
    return type(expected) is type(found) and _is_plain(found) and same_value(expected, found)
