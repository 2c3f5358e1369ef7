"""What a search hands over, whoever kept it since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from magis import _core


class Found(Protocol):
    """A plan, what it promises, and the search that it is from. `_core.Result` is one."""

    @property
    def source(self) -> _core.Graph: ...  # as it was given to the search
    @property
    def plan(self) -> _core.Plan: ...
    @property
    def regions(self) -> int: ...  # that run in parts
    @property
    def peak_bytes(self) -> int: ...
    @property
    def persistent_bytes(self) -> int: ...
    @property
    def host_bytes(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def recomputed(self) -> int: ...  # operators
    @property
    def met(self) -> bool: ...  # the limit
    @property
    def baseline_peak_bytes(self) -> int: ...  # of `source` in program order
    @property
    def baseline_seconds(self) -> float: ...
    @property
    def lower_bound_bytes(self) -> int: ...
    @property
    def lower_bound_reason(self) -> str: ...
    @property
    def stop_reason(self) -> str: ...
    @property
    def states_scored(self) -> int: ...
    @property
    def states_evaluated(self) -> int: ...
    @property
    def wall_seconds(self) -> float: ...
    @property
    def cpu_seconds(self) -> float: ...
    @property
    def history(self) -> Sequence[_core.Progress]: ...  # of that search; empty: not told
