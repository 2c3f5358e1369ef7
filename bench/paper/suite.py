"""From settings to results: what is there is taken, what is missing is computed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cells import Cell, Figures, Record, Store
from cells.compute import planner_named
from crew import Job, work_off
from experiments import EXPERIMENTS, Results, Settings
from verdicts import Verdict, verdicts

from magis.errors import MagisError
from magis.files import write_text

Watch = Callable[[int, int, list[Cell], Record | None], None]
"""Told how many cells are done, of how many, which run, and of each that is done."""


@dataclass(frozen=True)
class Places:
    out: Path
    graphs: Path

    @property
    def cells(self) -> Path:
        return self.out / "cells"

    @property
    def results(self) -> Path:
        return self.out / "results.json"

    @property
    def page(self) -> Path:
        return self.out / "index.html"


def cells_of(settings: Settings, figures: Sequence[str]) -> list[Cell]:
    """Each once, in the figures' order."""
    found: dict[Cell, None] = {}
    for figure in figures:
        found.update(dict.fromkeys(EXPERIMENTS[figure].cells(settings)))
    return list(found)


@dataclass
class Plan:
    """What is known, and what is to be computed."""

    known: list[Record]
    jobs: list[Job]
    damaged: list[Path]  # files of results that are computed again


def look_up(cells: Sequence[Cell], store: Store, graphs: Path, retry: bool) -> Plan:
    known, jobs = [], []
    for cell in cells:
        try:
            if cell.kind in ("plan", "timeline"):
                planner_named(cell.planner)
            key = cell.key(graphs)
        except MagisError as error:
            known.append(Record(cell, "", None, str(error)))
            continue
        record = store.find(key)
        if record is None or (retry and record.failure):
            store.path_of(key).unlink(missing_ok=True)
            jobs.append(Job(cell, key))
        else:
            known.append(record)
    return Plan(known, jobs, store.damaged)


def compute(plan: Plan, store: Store, graphs: Path, at_once: int, watch: Watch) -> list[Record]:
    records = list(plan.known)
    whole = len(plan.known) + len(plan.jobs)

    def one(running: list[Cell], record: Record | None) -> None:
        if record is not None:
            records.append(record)
        watch(len(records), whole, running, record)

    work_off(plan.jobs, store, graphs, at_once, one)
    return records


def as_json(settings: Settings, records: Sequence[Record], found: Sequence[Verdict]) -> Figures:
    return {
        "settings": asdict(settings),
        "records": [record.as_json() for record in records],
        "verdicts": [asdict(verdict) for verdict in found],
    }


def write_results(
    places: Places, settings: Settings, figures: Sequence[str], records: Sequence[Record]
) -> list[Verdict]:
    """The JSON file and the page."""
    from page import page

    results = Results(records)
    found = verdicts(settings, results)
    places.out.mkdir(parents=True, exist_ok=True)
    data = as_json(settings, records, found)
    write_text(places.results, json.dumps(data, indent=1) + "\n")
    write_text(places.page, page(settings, figures, results, found, data))
    return found
