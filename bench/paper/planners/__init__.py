"""All planners behind one interface, by the names under which they are chosen."""

from __future__ import annotations

from planners.capuchin import FreeTimeSwapping
from planners.checkmate_planner import IntegerProgramme
from planners.chen import SquareRoot
from planners.dtr import DynamicRematerialization
from planners.microbatch import MicroBatches, MicroBatchesOffloaded
from planners.orders import InductorOrder, ProgramOrder, StaticMemoryPlanning
from planners.ours import PaperSearch, Search
from planners.planner import Outcome, Planner, Task
from planners.pofo import ChainOffloading
from planners.rotor import OptimalChain
from planners.torch_budget import PartitionerBudget
from planners.xla import GreedyRematerialization

_ALL: tuple[Planner, ...] = (
    ProgramOrder(),
    InductorOrder(),
    StaticMemoryPlanning(),
    SquareRoot(),
    OptimalChain(),
    ChainOffloading(),
    IntegerProgramme(),
    DynamicRematerialization(),
    GreedyRematerialization(),
    FreeTimeSwapping(),
    MicroBatches(),
    MicroBatchesOffloaded(),
    *(MicroBatchesOffloaded((parts,), f"microbatch-{parts}+pofo") for parts in (8, 16, 32)),
    PartitionerBudget(),
    PaperSearch(),
    Search(),
)
PLANNERS: dict[str, Planner] = {planner.name: planner for planner in _ALL}
"""In the paper's order."""

__all__ = ["PLANNERS", "Outcome", "Planner", "Task"]
