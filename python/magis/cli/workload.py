"""What is trained: a model of the zoo, or what a function in the user's own file returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from magis.cli.status import UsageError
from magis.cli.user_file import call_function

_BEYOND = 2**63  # PyTorch counts elements in 64 bits
_ZOO_PREFIX = "zoo_"


@dataclass(frozen=True)
class ZooOptions:
    """Options of `magis.zoo.build`; what is None is left to the zoo."""

    size: str | None = None
    batch: int | None = None
    seq: int | None = None
    image: int | None = None
    dtype: str | None = None
    variant: str | None = None
    dropout: float | None = None
    attention: str | None = None
    seed: int | None = None

    def given(self) -> dict[str, Any]:
        """Only what is not None, by name."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Workload:
    model: Any
    loss_fn: Any
    batch: Any
    meta: dict[str, str]  # recorded in the graph, so that `magis run` can build the model again


def is_file(name: str) -> bool:
    """Whether a name on the command line means a function in a file, not a model of the zoo."""
    return ":" in name or name.endswith(".py") or "/" in name


def zoo_workload(name: str, options: ZooOptions, *, device: str) -> Workload:
    """A model of the zoo with weights on `device` ("meta": none, and no memory for them)."""
    from magis import zoo

    given = options.given()
    for option, value in given.items():
        if isinstance(value, int) and not -_BEYOND < value < _BEYOND:
            raise UsageError(f"{option} {value}: larger than any tensor")
    model, loss_fn, batch = zoo.build(name, device=device, **given)
    meta = {"model": name, **{_ZOO_PREFIX + key: str(value) for key, value in given.items()}}
    return Workload(model, loss_fn, batch, meta)


def file_workload(location: str) -> Workload:
    """What `path/to/file.py:function` returns. Runs the file."""
    return Workload(*call_function(location), meta={"model": location})


def workload_of(meta: Mapping[str, str], location: str | None, *, device: str) -> Workload:
    """The workload that a graph with `meta` was captured from.

    A model of the zoo is built again, on `device`. A file is only run if `location` names it: a
    plan says where it came from, but opening one must not run code.
    """
    if location is not None:
        return file_workload(location)
    name = meta.get("model", "")
    if not name or is_file(name):
        origin = f", captured from {name}" if name else ""
        raise UsageError(
            f"the plan is for a model of your own{origin}; "
            f"--model {name or 'path/to/file.py:function'} builds it"
        )
    recorded = {
        key.removeprefix(_ZOO_PREFIX): text
        for key, text in meta.items()
        if key.startswith(_ZOO_PREFIX)
    }
    return zoo_workload(name, _parse(recorded), device=device)


def _parse(recorded: Mapping[str, str]) -> ZooOptions:
    readers: dict[str, type] = {
        "batch": int,
        "seq": int,
        "image": int,
        "seed": int,
        "dropout": float,
    }
    known = {entry.name for entry in fields(ZooOptions)} & recorded.keys()
    try:
        values = {key: readers.get(key, str)(recorded[key]) for key in known}
    except ValueError as error:
        raise UsageError(f"the plan records an option of its model wrongly: {error}") from None
    return ZooOptions(**values)
