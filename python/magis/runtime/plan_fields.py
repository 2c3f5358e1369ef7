"""The fields of a plan file and their types: checked before anything relies on them."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from magis.errors import PlanError
from magis.report import Report
from magis.report.edits import Edit
from magis.report.report import ADDED_LATER

_ENVELOPE: dict[str, Any] = {
    "magis": str,
    "device": str,
    "limit": str,
    "promise": dict,
    "decisions": dict,
    "report": dict,
    "text": str,
}
_TENSOR_EDIT: dict[str, Any] = {
    "operator": str,
    "tensor": str,
    "module": str,
    "source": str,
    "times": int,
    "bytes": int,
    "seconds": float,
}
_EDITS: dict[str, dict[str, Any]] = {
    "reorder": {"moved": int, "operators": int},
    "rewrite": {"rule": str, "times": int},
    "recompute": _TENSOR_EDIT,
    "split": {
        "loop": str,
        "part": int,
        "length": int,
        "parts": int,
        "operators": int,
        "whole_bytes": int,
        "part_bytes": int,
        "held": list,
    },
    "swap": _TENSOR_EDIT,
}
_HELD: dict[str, Any] = {
    "operator": str,
    "module": str,
    "tensors": int,
    "whole_bytes": int,
    "part_bytes": int,
}
_WORDS = {
    str: "a text",
    int: "an integer of 64 bits",
    float: "a finite number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


def check_fields(content: Mapping[str, Any], name: str) -> None:
    """Raises PlanError that names the file (`name`) and the first field that is missing or wrong.

    `content` is the file's whole JSON object. Fields that are not known are let be.
    """
    from magis import _core

    check_object(content, _ENVELOPE, name)
    profiles = _core.device_profiles()
    for field, device in (
        ("device", content["device"]),
        ("report.device", content["report"].get("device", content["device"])),
    ):
        if device not in profiles:
            raise wrong_field(name, field, f"a device profile ({', '.join(profiles)})", device)
    hints = get_type_hints(Report, localns={"_core": _core})
    types = {entry.name: hints[entry.name] for entry in fields(Report)} | {"edits": list}
    plain = {field: kind for field, kind in types.items() if kind in _WORDS}
    report = {**ADDED_LATER, **content["report"]}
    check_object(report, plain, name, "report.")
    for field in types:
        if field in plain or report[field] is None:
            continue
        others = {part: None for part in types if part not in plain and part != field}
        try:
            Report.from_json({**report, **others})
        except (AttributeError, KeyError, TypeError, ValueError):
            wanted = "as magis wrote it, or null"
            raise wrong_field(name, f"report.{field}", wanted, report[field]) from None
    for index, edit in enumerate(content["report"]["edits"]):
        _check_edit(edit, name, f"report.edits[{index}]")


def check_integer(value: Any, name: str, field: str, what: str = "plan") -> int:
    """`value`, if it is an integer; otherwise PlanError."""
    if not _is(value, int):
        raise wrong_field(name, field, _WORDS[int], value, what)
    return int(value)


def check_object(
    content: Mapping[str, Any],
    types: Mapping[str, Any],
    name: str,
    prefix: str = "",
    what: str = "plan",
) -> None:
    """Raises PlanError unless `content` has a field of the right type for each of `types`.

    name: of the file; prefix: where in it `content` stands; what: what the file holds.
    """
    for field, kind in types.items():
        if field not in content:
            raise PlanError(f"{name}: the {what} has no field '{prefix}{field}'; make it again")
        if not _is(content[field], kind):
            raise wrong_field(name, prefix + field, _WORDS[kind], content[field], what)


def _check_edit(edit: Edit, name: str, field: str) -> None:
    if not isinstance(edit, dict):
        raise wrong_field(name, field, _WORDS[dict], edit)
    kind = edit.get("kind")
    if not isinstance(kind, str) or kind not in _EDITS:
        raise wrong_field(name, f"{field}.kind", " or ".join(f'"{word}"' for word in _EDITS), kind)
    check_object(edit, _EDITS[kind], name, f"{field}.")
    for index, group in enumerate(edit["held"] if kind == "split" else []):
        if not isinstance(group, dict):
            raise wrong_field(name, f"{field}.held[{index}]", _WORDS[dict], group)
        check_object(group, _HELD, name, f"{field}.held[{index}].")


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if isinstance(value, int):
        return kind in (int, float) and abs(value) < 2**63
    return isinstance(value, kind) and not (isinstance(value, float) and not math.isfinite(value))


def wrong_field(name: str, field: str, wanted: str, value: Any, what: str = "plan") -> PlanError:
    return PlanError(
        f'{name}: the {what}\'s field "{field}" must be {wanted}, not {_shown(value)}; '
        "make it again"
    )


def _shown(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "an integer of thousands of digits"
