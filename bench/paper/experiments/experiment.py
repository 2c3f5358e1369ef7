"""A figure of the paper: which cells it needs, and how they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cells import Cell, Figures, Record
from workloads import VARIANTS, WORKLOADS, names

Chart = dict[str, Any]
"""{"data": [...], "layout": {...}}, as Plotly takes them."""

# All planners, in the order in which they are drawn.
PLANNER_NAMES = (
    "pytorch",
    "inductor-order",
    "tvm",
    "chen",
    "rotor",
    "pofo",
    "checkmate",
    "dtr",
    "xla",
    "capuchin",
    "microbatch",
    "microbatch+pofo",
    "torch-budget",
    "magis-paper",
    "magis",
)


@dataclass(frozen=True)
class Settings:
    """What of the evaluation is run."""

    seconds: float = 10.0  # of each search
    peer_seconds: float = 10.0  # of each search by another planner
    seed: int = 0
    quick: bool = False
    workloads: tuple[str, ...] = tuple(WORKLOADS)
    variants: tuple[str, ...] = VARIANTS
    profiles: tuple[str, ...] = ("rtx3090", "reference", "reference-h2")
    planners: tuple[str, ...] = PLANNER_NAMES
    scaled: bool = True  # the rtx3090's small operators at half and twice their cost, too

    def seconds_of(self, planner: str) -> float:
        return self.seconds if planner.startswith("magis") else self.peer_seconds

    def plan(
        self,
        workload: str,
        variant: str,
        profile: str,
        planner: str,
        limit: str,
        kind: str = "plan",
    ) -> Cell:
        seconds = self.seconds_of(planner)
        return Cell(kind, workload, variant, profile, planner, limit, seconds, self.seed)

    def subjects(self) -> Iterable[tuple[str, str]]:
        """(workload, variant) of all that there are."""
        for variant in self.variants:
            for workload in names(variant):
                if workload in self.workloads:
                    yield workload, variant


class Results:
    """Records by cell. What has none, or a failed one, has a reason."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = {record.cell: record for record in records}

    def figures(self, cell: Cell) -> Figures | None:
        record = self._records.get(cell)
        return None if record is None else record.figures

    def reason(self, cell: Cell) -> str:
        """Why there are no figures; "" if there are."""
        record = self._records.get(cell)
        return "not computed" if record is None else record.failure

    def has(self, cell: Cell) -> bool:
        return cell in self._records


@dataclass(frozen=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Panel:
    """One chart of a figure with its table. Panels of a figure are chosen by their choices."""

    choices: dict[str, str]  # {"profile": "rtx3090", "variant": "paper"}
    chart: Chart | None
    table: Table
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    figure: str  # "9"
    title: str
    about: str
    cells: Callable[[Settings], list[Cell]]
    panels: Callable[[Settings, Results], list[Panel]]
    default: dict[str, str] = field(default_factory=dict)  # of the choices
    repeat: str = ""  # how, beside --figures


def percent(ratio: float, digits: int = 1) -> str:
    return f"{100 * ratio:.{digits}f} %"


GAP = "\u2013"


def gap(reason: str) -> str:
    """An entry of a table where there is no figure."""
    return f"{GAP} ({reason})"
