"""How far a plan's promised time is from the truth: the step, and its operators one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from magis.report.text import change_text, plural, seconds_text

if TYPE_CHECKING:
    import torch

    from magis import _core
    from magis.cli.trial import Trial

# The operators whose promises were farthest from the truth.
_MOST_OFFENDERS = 5


@dataclass(frozen=True)
class Offender:
    """A call, with the seconds that all its runs in a step were promised to take, and took."""

    call: str
    runs: int
    promised: float
    measured: float


def known_times(device: torch.device, profile: str) -> _core.Device:
    """The profile with what was measured before; as it is, if it is not this machine's."""
    from magis.runtime.planner import choose_profile
    from magis.timing.cache import cache_file
    from magis.timing.times import Times

    if device.type not in ("cpu", "cuda") or choose_profile(None, device) != profile:
        return profile
    if not cache_file().exists():
        return profile
    return Times(device).profile(profile)


def compare_times(
    trial: Trial, plan: _core.Plan, device: _core.Device, rounds: int
) -> dict[str, Any]:
    """Promised and measured seconds, for people and tools."""
    calls = plan.calls(device)
    steps = [trial.step_seconds() for _ in range(rounds)]
    operators = trial.time_operators(rounds)
    costs = plan.run_costs(device)
    worst = offenders(costs, operators) if operators is not None else []
    return {
        "promised_seconds": plan.simulate(device).seconds,
        "step_seconds": median(steps),
        "calls": len(calls),
        "calls_measured": sum(call.measured for call in calls),
        "offenders": [asdict(row) for row in worst[:_MOST_OFFENDERS]],
    }


def offenders(promised: list[tuple[str, float]], measured: list[float]) -> list[Offender]:
    """Calls by how many seconds of a step their promise is off, the worst first."""
    found: dict[str, Offender] = {}
    for (call, expected), seconds in zip(promised, measured, strict=True):
        row = found.get(call, Offender(call, 0, 0.0, 0.0))
        found[call] = Offender(call, row.runs + 1, row.promised + expected, row.measured + seconds)
    return sorted(found.values(), key=lambda row: -abs(row.promised - row.measured))


def time_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(what, words) of what `compare_times` found."""
    promised, measured = facts["promised_seconds"], facts["step_seconds"]
    share = f"{facts['calls_measured']:,} of {plural(facts['calls'], 'call')} measured before"
    change = change_text(measured, promised)
    yield "promised", f"{seconds_text(promised)} a step ({share})"
    yield "step", f"{seconds_text(measured)} ({change}; processor time where one thread computes)"
    for number, row in enumerate(facts["offenders"]):
        times = (
            f"{seconds_text(row['promised'])} promised, {seconds_text(row['measured'])} measured"
        )
        runs = plural(row["runs"], "run")
        yield "farthest off" if number == 0 else "", f"{times}, {runs}: {row['call']}"
