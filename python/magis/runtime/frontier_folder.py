"""A frontier on disk: a folder with an index, the captured graph, and a plan file for each point.

    frontier.json   {"magis": "0.1.0", "format": 1, "device": "cpu", "baseline_peak_bytes": ...,
                     "lower_bound_bytes": ..., "plans": [{"file": "plan-001.json", ...}, ...], ...}
    graph.magis     the captured graph
    plan-001.json   the fastest plan, as `magis run` and `magis inspect` take it
    ...             each slower and smaller than the one before

Choosing a plan reads the index and that plan's file. Reading runs nothing. Free of PyTorch.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from magis import __version__, _core
from magis.errors import PlanError
from magis.files import default_mode, is_read_only, write_text
from magis.report import Report
from magis.report.frontier import FrontierFigures, PlanFigures
from magis.runtime.frontier import Frontier, FrontierPoint
from magis.runtime.interrupts import DeferredInterrupt
from magis.runtime.plan_fields import check_integer, check_object, wrong_field
from magis.runtime.plan_file import (
    PlanFile,
    captured_fingerprint,
    envelope,
    parse_graph,
    parse_plan,
    read_plan,
)

FORMAT = 1
INDEX = "frontier.json"
GRAPH = "graph.magis"

_PLAN_NAME = re.compile(r"plan-[0-9]{3,}\.json")


@dataclass(frozen=True)
class Index:
    """What `frontier.json` says."""

    folder: Path
    figures: FrontierFigures
    files: list[str]  # of `figures.plans`
    fingerprint: str  # of the captured graph


def write_frontier(folder: str | os.PathLike[str], frontier: Frontier) -> None:
    """Writes the whole folder or nothing: a new one beside it, then renamed. Raises PlanError if
    that cannot be, or if `folder` holds anything but a frontier.
    """
    target = Path(folder).resolve()
    check_replaceable(target)
    try:
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else default_mode(0o777)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            _write_files(temporary, frontier)
            temporary.chmod(mode)
            with DeferredInterrupt():
                _put_in_place(temporary, target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        raise PlanError(
            f"{folder}: the frontier cannot be written ({error.strerror or error}); choose another "
            "folder"
        ) from None


def check_replaceable(folder: Path) -> None:
    """Raises PlanError unless a frontier can be written as `folder`: there is none of that name in
    a folder that can be written to, or it is empty, or it holds a frontier and nothing else. Leaves
    everything as it was.
    """
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise PlanError(f"{folder}: is a file; a frontier is a folder, give the name of a new one")
    if not folder.parent.is_dir():
        raise PlanError(f"{folder}: there is no folder {folder.parent}")
    for place in (folder, folder.parent):
        if is_read_only(place):
            raise PlanError(f"{folder}: the folder {place} is read-only; choose another")
    try:
        probe = tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.")
        os.rmdir(probe)
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise PlanError(f"{folder}: cannot be written ({error.strerror or error})") from None
    if not names:
        return
    if INDEX not in names:
        raise PlanError(
            f"{folder}: holds files, but no frontier that could be replaced; choose another folder"
        )
    foreign = sorted(names - {INDEX, GRAPH, *read_index(folder).files})
    if foreign:
        raise PlanError(
            f"{folder}: holds {foreign[0]}, which is no part of the frontier there; move it away, "
            "or choose another folder"
        )


def read_frontier(folder: str | os.PathLike[str]) -> Frontier:
    """Raises PlanError, naming the file, if one is missing, damaged, foreign, or of a newer format,
    or if a plan does not keep what the index says of it.
    """
    index = read_index(folder)
    path = index.folder / GRAPH
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: the captured graph cannot be read ({error})") from None
    graph = parse_graph(text, str(path))
    if graph.fingerprint() != index.fingerprint:
        raise PlanError(f"{path}: is not the graph that {INDEX} beside it speaks of")
    plans = [read_point(index, position)[0] for position in range(len(index.files))]
    return Frontier(graph, index.figures, plans)


def read_point(index: Index, position: int) -> tuple[_core.Plan, PlanFile]:
    """One plan, verified, and the file that it is in. Raises PlanError as `read_frontier` does."""
    path = index.folder / index.files[position]
    saved = read_plan(path)
    plan = parse_plan(saved.text, f"{path} (text)")
    figures = index.figures.plans[position]
    simulated = plan.simulate(index.figures.device)
    promised = (figures.peak_bytes, figures.host_bytes)
    taken = (simulated.peak_bytes, simulated.host_peak_bytes)
    if promised != taken or saved.device != index.figures.device:
        raise PlanError(
            f"{path}: is not the plan that {INDEX} beside it speaks of: that promises "
            f"{promised[0]:,} bytes and {promised[1]:,} on the host, this takes {taken[0]:,} and "
            f"{taken[1]:,} (profile {saved.device}); find the frontier again"
        )
    return plan, saved


def read_index(folder: str | os.PathLike[str]) -> Index:
    """Reads `frontier.json` alone. Raises PlanError as `read_frontier` does."""
    path = Path(folder) / INDEX
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PlanError(
            f"{folder}: holds no frontier (there is no {INDEX}); `magis optimize --frontier -o` "
            "makes one"
        ) from None
    except OSError as error:
        raise PlanError(f"{path}: the frontier cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path}: the frontier is damaged ({error}); find it again") from None
    if not isinstance(content, dict) or "magis" not in content or "format" not in content:
        raise PlanError(f"{path}: JSON, but not a frontier that magis wrote")
    if (found := check_integer(content["format"], str(path), "format", "frontier")) != FORMAT:
        raise PlanError(
            f"{path}: written by magis {content['magis']} in format {found}; this is magis "
            f"{__version__}, which reads format {FORMAT}. Install that version, or find the "
            "frontier again."
        )
    return _checked(content, path)


def _checked(content: dict[str, Any], path: Path) -> Index:
    name, what = str(path), "frontier"
    types = get_type_hints(FrontierFigures) | {"plans": list, "fingerprint": str}
    check_object(content, types, name, what=what)
    if content["device"] not in _core.device_profiles():
        raise wrong_field(name, "device", "a device profile", content["device"], what)
    if not content["plans"]:
        raise wrong_field(name, "plans", "a list of at least one plan", [], what)
    plan_types = get_type_hints(PlanFigures) | {"parts": list, "file": str}
    plans: list[PlanFigures] = []
    files: list[str] = []
    for position, plan in enumerate(content["plans"]):
        where = f"plans[{position}]"
        if not isinstance(plan, dict):
            raise wrong_field(name, where, "an object", plan, what)
        check_object(plan, plan_types, name, f"{where}.", what)
        if not _PLAN_NAME.fullmatch(plan["file"]) or plan["file"] in files:
            raise wrong_field(
                name, f"{where}.file", "a name of its own like plan-001.json", plan["file"], what
            )
        for count in plan["parts"]:
            check_integer(count, name, f"{where}.parts", what)
        files.append(plan["file"])
        plans.append(PlanFigures(**{entry.name: plan[entry.name] for entry in fields(PlanFigures)}))
        if position and not _follows(plans[-1], plans[-2]):
            raise wrong_field(name, where, "slower and smaller than the plan before", plan, what)
    known = {entry.name: content[entry.name] for entry in fields(FrontierFigures)}
    figures = FrontierFigures(**{**known, "plans": plans})
    return Index(path.parent, figures, files, content["fingerprint"])


def _follows(plan: PlanFigures, before: PlanFigures) -> bool:
    return plan.seconds > before.seconds and plan.peak_bytes < before.peak_bytes


def _write_files(folder: Path, frontier: Frontier) -> None:
    figures = frontier.figures
    entries = figures.to_json()
    captured = captured_fingerprint(frontier.graph)
    for number, (point, entry) in enumerate(
        zip(frontier.points, entries["plans"], strict=True), start=1
    ):
        name = f"plan-{number:03d}.json"
        report = _report(point, number, len(frontier), frontier.times)
        write_text(folder / name, envelope(point.plan, report, captured))
        entries["plans"][number - 1] = {"file": name, **entry}
    write_text(folder / GRAPH, frontier.graph.text())
    fingerprint = frontier.graph.fingerprint()
    content = {"magis": __version__, "format": FORMAT, "fingerprint": fingerprint, **entries}
    write_text(folder / INDEX, json.dumps(content, indent=1) + "\n")


def _report(point: FrontierPoint, number: int, count: int, times: str) -> Report:
    return Report.build(
        point,
        device=point.frontier.device,
        limit_text=f"none given: plan {number} of the {count} of a frontier",
        replayed=point.source.meta.get("replay", "not recorded"),
        times=times,
    )


def _put_in_place(new: Path, target: Path) -> None:
    """Renames `new` to `target`; what stood there goes, or comes back if that fails."""
    if not target.exists():
        new.rename(target)
        return
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    target.rename(old)  # an empty folder may be renamed over
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise
    with contextlib.suppress(OSError):
        shutil.rmtree(old)
