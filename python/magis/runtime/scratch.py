"""Memory that CPU kernels take for themselves while they run, measured once per distinct call.

Flash attention, convolutions and some reductions hold buffers of their own whose size no rule
tells: it depends on the number of threads and on the library underneath. Each distinct call of a
graph is run once on tensors of the right types, and what it held above its results is written into
the text as `scratch <bytes>`, so that the promise counts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch

from magis import _torch_internals as internals
from magis.runtime.compiled import DTYPES, operator_named
from magis.runtime.free_memory import free_bytes
from magis.runtime.generator import GeneratorState
from magis.verify import document as language
from magis.verify.text import parse

# A call is measured if its operands and results take at most this share of the free memory.
_MOST_MEMORY = 0.25

# Kernels that take more for some values than for zeros, and what makes them take the most: the
# series for the exponential of a matrix grows with its norm; empty bags need no gradient.
_FILLS = {"aten.linalg_matrix_exp": 10.0, "aten._embedding_bag_backward": 1.0}

_MARK = "magis.scratch#"
_SCRATCH = re.compile(r" scratch \d+$")

Signature = tuple[Any, ...]
_measured: dict[Signature, int] = {}


def with_measured_scratch(graph_text: str) -> str:
    """`graph_text` with the scratch of every operator that could be run here; the rest is as it
    was.

    Leaves the random generator as it was. Calls measured earlier in this process are not run again.
    """
    document = parse(graph_text)
    unknown = {name: op for name, op in document.operators.items() if not op.scratch}
    return _with_scratch(graph_text, document, unknown)


def with_parts_measured(plan_text: str, captured_text: str) -> str:
    """`plan_text` with the scratch measured of everything that the captured graph does not have: at
    the size of a part, or as rewritten.

    What stands there was estimated from the whole operator's, or from that of the operator in whose
    place it stands.
    """
    captured = {_SCRATCH.sub("", line) for line in captured_text.split("\n")}
    lines = plan_text.split("\n")
    document = parse(plan_text)
    altered: dict[str, language.Operation] = {}
    for name, op in document.operators.items():
        bare = _SCRATCH.sub("", lines[op.line - 1])
        if bare not in captured:
            lines[op.line - 1] = bare
            altered[name] = op
    return _with_scratch("\n".join(lines), document, altered)


def _with_scratch(
    text: str, document: language.Document, operators: dict[str, language.Operation]
) -> str:
    """`text`, which `document` is of, with the scratch of `operators`; their lines have none."""
    signatures = {name: _signature(op, document) for name, op in operators.items()}
    most = int(_MOST_MEMORY * free_bytes(torch.device("cpu")))
    missing: dict[Signature, language.Operation] = {}
    for name, op in operators.items():
        signature = signatures[name]
        if signature not in _measured and _bytes_touched(op, document) <= most:
            missing.setdefault(signature, op)
    _measured.update(_measure(missing, document))

    lines = text.split("\n")
    for name, op in operators.items():
        if scratch := _measured.get(signatures[name], 0):
            lines[op.line - 1] += f" scratch {scratch}"
    return "\n".join(lines)


def _signature(op: language.Operation, document: language.Document) -> Signature:
    def of(arg: language.Arg) -> Any:
        if isinstance(arg, language.Ref):
            return ("tensor", document.types[arg.name])
        if isinstance(arg, list):
            return tuple(map(of, arg))
        if isinstance(arg, language.PartLength):
            return int, repr(document.full(arg))
        return type(arg), repr(arg)

    args = tuple(map(of, op.args))
    kwargs = tuple((key, of(arg)) for key, arg in op.kwargs.items())
    return op.operator, torch.get_num_threads(), args, kwargs


def _bytes_touched(op: language.Operation, document: language.Document) -> int:
    types: Iterable[language.Type | None] = [document.types[name] for name in op.reads()]
    return sum(type_.storage for type_ in [*types, *op.types] if type_ is not None)


def _measure(
    calls: dict[Signature, language.Operation], document: language.Document
) -> dict[Signature, int]:
    """Scratch by signature of what could be run."""
    if not calls:
        return {}
    order = list(calls)

    def run() -> None:
        for number, signature in enumerate(order):
            _run_marked(calls[signature], document, number)

    generator = GeneratorState([])
    _, recorder = internals.recorded(run)
    generator.restore()
    by_mark = _by_mark(recorder.events)
    return {order[number]: _scratch(changes) for number, changes in by_mark.items()}


def _run_marked(op: language.Operation, document: language.Document, number: int) -> None:
    try:
        args = [_example(arg, document) for arg in op.args]
        fill = _FILLS.get(op.operator)
        if fill is not None:
            args = [arg.fill_(fill) if isinstance(arg, torch.Tensor) else arg for arg in args]
        kwargs = {key: _example(arg, document) for key, arg in op.kwargs.items()}
        function = operator_named(op.operator)
        with torch.profiler.record_function(f"{_MARK}{number}"):
            result = function(*args, **kwargs)
    except Exception:
        # Operands of zeros do not suit every operator (a Cholesky factor of zeros); its scratch
        # stays unknown.
        with torch.profiler.record_function(f"{_MARK}{number} failed"):
            return
    del result


def _by_mark(events: list[tuple[str, str, int]]) -> dict[int, list[int]]:
    """The allocator's changes within each marked block; blocks that failed are left out."""
    changes: dict[int, list[int]] = {}
    depth, current = 0, -1
    for kind, name, size in events:
        if kind == "push":
            if name.startswith(_MARK):
                number, _, failed = name.removeprefix(_MARK).partition(" ")
                if failed:
                    changes.pop(int(number), None)
                else:
                    current, depth = int(number), 0
                    changes[current] = []
            depth += 1
        elif kind == "pop":
            depth -= 1
            if depth == 0:
                current = -1
        elif kind == "memory_alloc" and current >= 0:
            changes[current].append(size)
    return changes


def _scratch(changes: list[int]) -> int:
    """The most held at once above what stays."""
    held = most = 0
    for change in changes:
        held += change
        most = max(most, held)
    return max(0, most - held)


def _example(arg: language.Arg, document: language.Document) -> Any:
    """A value of the kind that `arg` stands for: zeros for tensors, 1.0 for a run-time scalar."""
    if isinstance(arg, language.Ref):
        type_ = document.types[arg.name]
        if type_ is not None:
            return _zeros(type_)
        scalars = {entry.name for entry in document.inputs if entry.kind == "scalar"}
        return 1.0 if arg.name in scalars else None
    if isinstance(arg, language.Symbol):
        return getattr(torch, arg.word)
    if isinstance(arg, language.DeviceWord):
        return torch.device(arg.name)
    if isinstance(arg, language.PartLength):
        return document.full(arg)
    if isinstance(arg, list):
        return [_example(item, document) for item in arg]
    return arg


def _zeros(type_: language.Type) -> torch.Tensor:
    dtype = DTYPES[type_.dtype]
    # Pages of zeros are not real memory until a kernel writes to them.
    storage = torch.zeros(type_.storage, dtype=torch.uint8).untyped_storage()
    tensor = torch.empty(0, dtype=dtype)
    tensor.set_(storage, type_.offset, type_.shape, type_.strides)
    return tensor
