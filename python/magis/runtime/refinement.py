"""Searching with measured times: what the best plan uses and lacks is measured, and the search runs
again, until nothing is lacking or the budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from magis import _core
from magis.errors import MagisError
from magis.report.text import plural, seconds_text
from magis.runtime.free_memory import free_bytes
from magis.runtime.progress import counting
from magis.timing.candidates import part_plans

if TYPE_CHECKING:
    import torch

    from magis.timing.times import Times

# Of the budget that the graph in program order leaves, what goes into parts that no plan uses yet.
PARTS_SHARE = 0.5
# Searches for one plan: the first finds what to measure, the last has nothing left to measure.
_MOST_ROUNDS = 4


class Refinement:
    """Measures within one budget for all plans that are searched for with it.

    budget: seconds that measuring may take in all; 0: only what is known already is used.
    """

    def __init__(self, times: Times, profile: str, budget: float) -> None:
        self.times = times
        self._profile = profile
        self.budget = budget  # seconds
        self._left = budget
        self._known_before = set(times.measured_calls())
        self._seconds = 0.0
        self._rounds = 0
        self._device: _core.DeviceProfile | None = None

    @property
    def device(self) -> _core.DeviceProfile:
        """The profile with all times that are known by now."""
        if self._device is None:
            self._device = self.times.profile(self._profile)
        return self._device

    def begin(self, graph: _core.Graph, *, parts: bool, share: float = PARTS_SHARE) -> int:
        """Measures what the graph runs in program order and, with `parts`, in its likely parts, for
        which a share of the budget's rest is spent; how many calls that was.

        The model fitted to whole operators alone is further off for parts than parts cost, and a
        search that believes it finds no plan from which to learn better.
        """
        count = self.learn(_core.Plan.program_order(graph))
        if parts:
            kept = self._left * (1 - share)
            for plan in part_plans(graph, self.device):
                count += self.learn(plan, keep=kept)
        return count

    def learn(self, *plans: _core.Plan, keep: float = 0.0) -> int:
        """Measures what the plans run and has no time for, the most valuable first; how many calls
        that was. Those that fail, and those for which no time is left, stay modelled. So many
        seconds of the budget are kept for later.
        """
        calls = [call for plan in plans for call in plan.calls(self.device)]
        lacking = list(dict.fromkeys(self.times.lacking(calls)))
        if not lacking or self._left <= keep:
            return 0
        with counting("measuring operators", len(lacking)) as show:
            found = self.times.measure(
                lacking,
                self._left - keep,
                free_bytes(self.times.device),
                lambda number, _total: show(number + 1),
            )
        self._left -= found.seconds
        self._seconds += found.seconds
        if found.entries:
            self.times.calibrate(self._profile)
            self._device = None
        return len(found.entries)

    def refine(
        self,
        search: Callable[[], _core.Result],
        memory_limit: int | None,
        latency_limit: float | None,
    ) -> _core.Result:
        """The best of what `search`, which reads `device`, finds in rounds; promised with the times
        that are known in the end. The limit is in bytes or in seconds.
        """
        found: list[_core.Result] = []
        for _ in range(_MOST_ROUNDS):
            result = search()
            self._rounds += 1
            found.append(result)
            if result.stop_reason == "interrupted" or not self.learn(result.plan):
                break
        recounted = [
            result.with_plan(
                result.plan,
                device=self.device,
                memory_limit=memory_limit,
                latency_limit=latency_limit,
            )
            for result in found
        ]

        def cost(result: _core.Result) -> tuple[bool, float]:
            wanted, limited = result.seconds, float(result.peak_bytes)
            if latency_limit is not None:
                wanted, limited = limited, wanted
            return not result.met, wanted if result.met else limited

        return min(reversed(recounted), key=cost)

    def refine_frontier(self, search: Callable[[], list[_core.Result]]) -> list[_core.Result]:
        """The plans for all limits that `search`, which reads `device`, finds in rounds, promised
        with the times that are known in the end; some are behind others then.
        """
        found: list[_core.Result] = []
        for _ in range(_MOST_ROUNDS):
            results = search()
            self._rounds += 1
            found += results
            if results[0].stop_reason == "interrupted":
                break
            if not self.learn(*(result.plan for result in results)):
                break
        return [result.with_plan(result.plan, device=self.device) for result in found]

    def words(self, *plans: _core.Plan) -> str:
        """How many of the plans' times were measured, and when."""
        every = {call.key: call for plan in plans for call in plan.calls(self.device)}
        calls = list(every.values())
        measured = [call for call in calls if call.measured]
        before = sum(call.key in self._known_before for call in measured)
        spent = sum(call.runs * call.seconds for call in calls)
        share = sum(call.runs * call.seconds for call in measured) / spent if spent else 1.0
        text = (
            f"{len(measured):,} of {plural(len(calls), 'call')} measured ({share:.0%} of the time)"
        )
        now = len(self.times.measured_calls() - self._known_before)
        if now:
            text += f"; {plural(now, 'call')} measured now, in {seconds_text(self._seconds)}"
        elif before:
            text += "; all of these before, nothing was measured now"
        failed = [call.key for call in calls if self.times.failure(call.key)]
        if failed:
            text += f"; {plural(len(failed), 'call')} cannot be run alone: modelled"
        return text


def refinement_on(device: torch.device, profile: str, budget: float) -> Refinement:
    """Measuring for plans that run on `device` and were asked to be found under `profile`.

    Raises MagisError if these times would be those of another device.
    """
    from magis.runtime.planner import choose_profile
    from magis.timing.times import Times

    if device.type not in ("cpu", "cuda"):
        raise MagisError(
            f"measure={budget:g} needs a model on the device that runs it, not on {device.type!r}"
        )
    here = choose_profile(None, device)
    if profile != here:
        raise MagisError(
            f"operators are measured on this machine, and {profile!r} is another: leave `device` "
            f"out, or pass device={here!r}"
        )
    return Refinement(Times(device), here, budget)
