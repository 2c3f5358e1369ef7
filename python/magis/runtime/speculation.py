"""What is raised where a plan turns out to be for another outcome of a condition."""

from __future__ import annotations

from magis.capture.reads import Check
from magis.capture.sites import place


class SpeculationFailed(Exception):
    """A truth value came out otherwise than the plan takes for granted; nothing has been left."""

    def __init__(self, position: int, check: Check) -> None:
        super().__init__(
            f"{place(check.site)}: a condition on {'a random draw' if check.chance else 'data'}"
            f" is {not check.expected}, the plan is for {check.expected}"
        )
        self.position = position
        self.check = check
