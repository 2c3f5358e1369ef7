"""Plans kept on disk, so that a second start need not search: one plan file each, in the folder
`plans` of magis's cache.

A file is found again by its name, `<graph>-<search>-<limit>.json`: hashes of the captured graph's
text (which says device, shapes and what kernels take for themselves), of what else the search was
asked for with the versions of magis and PyTorch, and of the limit. What is in a file is trusted no
more than any plan file: it is parsed, verified, and compared with eager like one just found.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from magis import __version__, _core
from magis.errors import MagisError, PlanError
from magis.files import write_text
from magis.report import Report
from magis.report.found import Found
from magis.runtime.plan_file import (
    PlanFile,
    checked_report,
    envelope,
    parse_envelope,
    parse_plan,
    read_plan,
)
from magis.timing.cache import cache_folder

logger = logging.getLogger("magis")

MOST_PLANS = 256  # those used longest ago go first
_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{16}\.json")
# A plan for a limit on memory that is so much lower serves as well: what is free varies a little.
_NEAR = 0.99


@dataclass(frozen=True)
class Request:
    """What a search was asked for: all that its plan depends on, but for time and chance."""

    graph: str  # text, as captured
    search: tuple[tuple[str, Any], ...]  # settings by name
    memory_bytes: int | None  # the limit: one of these two
    seconds: float | None
    time_budget: float
    host_memory: int | None = None  # that the plan may use; varies with what is free

    @property
    def group(self) -> str:
        """The part of a file's name that does not depend on the limit."""
        words = json.dumps([__version__, *self.search])
        return f"{_hash(self.graph)}-{_hash(words)}"

    @property
    def name(self) -> str:
        return f"{self.group}-{_hash(json.dumps([self.memory_bytes, self.seconds]))}.json"


@dataclass(frozen=True)
class KeptPlan:
    """A plan of an earlier search, as `magis.report.found.Found`."""

    name: str  # the file
    source: _core.Graph
    plan: _core.Plan
    report: Report
    regions: int
    met: bool
    stop_reason: str = "kept"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.report, name)

    @property
    def peak_bytes(self) -> int:
        return self.report.promised_peak_bytes

    @property
    def baseline_peak_bytes(self) -> int:
        return self.report.captured_peak_bytes

    @property
    def baseline_seconds(self) -> float:
        return self.report.captured_seconds

    @property
    def history(self) -> Sequence[_core.Progress]:
        return ()  # of an earlier search, in the kept report


class PlanStore:
    """Failures to read or write are warnings: a store that is out of reach costs a search."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder() / "plans"

    def find(self, request: Request, graph: _core.Graph) -> KeptPlan | None:
        """A plan of an equal request, which was given as much time or found nothing left to try; or
        one that keeps a slightly lower limit on memory.
        """
        exact = self.folder / request.name
        for path in [exact, *sorted(self.folder.glob(f"{request.group}-*.json"))]:
            content = _asked(path)
            if content is None or not _serves(content, request, path == exact):
                continue
            plan = self._read(path, graph, request)
            if plan is not None:
                logger.info("taking the plan kept in %s", path)
                return plan
        return None

    def keep(self, request: Request, result: Found, report: Report) -> None:
        """Keeps a plan for later runs, unless the search was interrupted."""
        if result.stop_reason == "interrupted":
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(self.folder / request.name, kept_text(request, result, report))
            self._prune()
        except OSError as error:
            warnings.warn(
                f"{self.folder}: the plan is not kept for the next start "
                f"({error.strerror or error}). Set MAGIS_CACHE_DIR to another folder, make room, "
                "or pass reuse_plans=False",
                stacklevel=2,
            )

    def drop(self, path: Path, why: str) -> None:
        """Forgets a plan that turned out to be damaged."""
        warnings.warn(f"{path} is dropped, and a plan searched for: {why}", stacklevel=2)
        path.unlink(missing_ok=True)

    def add(self, text: str, name: str) -> Path:
        """A kept plan from elsewhere, such as another machine. Raises PlanError for any other text,
        which `name` is what messages call.
        """
        saved = parse_envelope(text, name)
        parse_plan(saved.text, name)
        kept = json.loads(text).get("kept")
        own = kept.get("name") if isinstance(kept, dict) else None
        if not isinstance(own, str) or not _NAME.fullmatch(own):
            raise PlanError(f"{name}: not a plan that was kept; `magis plans export` writes them")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / own, text)
        return self.folder / own

    def plans(self) -> list[tuple[Path, PlanFile, dict[str, Any]]]:
        """Files that can be read, what they hold and what was asked for, the last used first."""
        found = []
        for path in sorted(self.folder.glob("*.json"), key=_last_used, reverse=True):
            content = _asked(path)
            if content is None:
                continue
            try:
                found.append((path, read_plan(path), content))
            except MagisError:
                continue
        return found

    def _read(self, path: Path, graph: _core.Graph, request: Request) -> KeptPlan | None:
        try:
            plan = kept_plan(path.read_text(encoding="utf-8"), str(path), graph, request)
            os.utime(path)
        except (OSError, MagisError, _core.UserError, ValueError, TypeError) as error:
            self.drop(path, str(error))
            return None
        return plan

    def _prune(self) -> None:
        files = sorted(self.folder.glob("*.json"), key=_last_used)
        for path in files[: max(0, len(files) - MOST_PLANS)]:
            path.unlink(missing_ok=True)


def kept_text(request: Request, result: Found, report: Report) -> str:
    """A plan file that says what it answers."""
    content = json.loads(envelope(result.plan, report))
    content["kept"] = {
        "name": request.name,
        "memory_bytes": request.memory_bytes,
        "seconds": request.seconds,
        "time_budget": request.time_budget,
        "host_memory": request.host_memory,
        "regions": result.regions,
        "model": result.source.meta.get("model", ""),
    }
    return json.dumps(content, indent=1) + "\n"


def kept_plan(text: str, name: str, graph: _core.Graph, request: Request) -> KeptPlan:
    """What kept_text wrote, for `graph`; `name` is what messages call it. Raises MagisError or
    UserError.
    """
    saved = parse_envelope(text, name)
    plan = parse_plan(saved.text, name)
    report = checked_report(saved, plan, graph, name)
    peak = report.promised_peak_bytes
    met = report.met and (request.memory_bytes is None or peak <= request.memory_bytes)
    regions = int(json.loads(text)["kept"].get("regions", 0))
    return KeptPlan(name, graph, plan, report, regions, met)


def last_used(path: Path) -> datetime:
    return datetime.fromtimestamp(_last_used(path))


def _last_used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # gone meanwhile
        return 0.0


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _asked(path: Path) -> dict[str, Any] | None:
    """What the plan in the file was asked for; None if there is no such file, or another one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        kept: dict[str, Any] = content["kept"]
        if kept["name"] != path.name:  # copied by hand: it answers another question
            return None
        kept["met"] = content["promise"]["met"]
        kept["host_bytes"] = int(content["promise"]["host_bytes"])
        kept["stop_reason"] = content["report"]["stop_reason"]
        return kept
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _serves(asked: dict[str, Any], request: Request, same_limit: bool) -> bool:
    searched_out = asked["stop_reason"] == "converged"
    if not searched_out and asked.get("time_budget", 0.0) < request.time_budget:
        return False
    if request.host_memory is not None:
        before = asked.get("host_memory") or 0
        if not asked["host_bytes"] <= request.host_memory <= 2 * before:
            return False
    if same_limit:
        return True
    limit, wanted = asked.get("memory_bytes"), request.memory_bytes
    if limit is None or wanted is None:
        return False
    return bool(asked["met"]) and _NEAR * wanted <= limit <= wanted
