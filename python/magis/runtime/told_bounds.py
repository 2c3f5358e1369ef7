"""Whether the bounds that a plan file tells of can be those of its plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from magis.report.text import bytes_text, seconds_text

if TYPE_CHECKING:
    from magis import _core
    from magis.report import Report

# Times are written and read again: what differs by less was not edited.
_ROUNDING = 1e-6


class Untrue(NamedTuple):
    """What is told, and what it is found to be, in words."""

    told: str
    found: str


def untrue_bounds(
    report: Report, plan: _core.Plan, device: _core.Device, captured: _core.Graph | None
) -> Iterator[Untrue]:
    """What a file's `report` says of bounds and cannot be so. report: with all else counted anew.

    The bound on memory is counted anew as far as the file holds the graph that was searched. That
    on time takes seconds to find: it is held to what is known of it at once.
    """
    yield from _memory(report, plan, device, captured)
    if report.time_bound is not None:
        yield from _time(report, plan, device)


def _memory(
    report: Report, plan: _core.Plan, device: _core.Device, captured: _core.Graph | None
) -> Iterator[Untrue]:
    told = report.lower_bound_bytes
    claim = f"that no plan stays below {bytes_text(told)}"
    if told > report.promised_peak_bytes:
        yield Untrue(claim, bytes_text(report.promised_peak_bytes))
    least = _at_the_end(captured or plan.graph, device)
    if told < least:
        yield Untrue(claim, f"{bytes_text(least)} for inputs and outputs alone")
    if (searched := _searched(plan, captured)) is not None:
        found = _bounds(searched, device)
        if (told, report.lower_bound_reason) not in found:
            reason = f" ({report.lower_bound_reason})" if told in dict(found) else ""
            others = " or ".join(f"{count:,} bytes ({why})" for count, why in found)
            yield Untrue(f"that no plan stays below {told:,} bytes{reason}", others)


def _at_the_end(graph: _core.Graph, device: _core.Device) -> int:
    """Of inputs and outputs, which live together at the end of every step."""
    from magis import _core

    facts = _core.structure(graph, device=device)
    made = sum(t.bytes for t in facts.tensors if t.is_output and not t.is_input)
    return facts.persistent_bytes + made


def _searched(plan: _core.Plan, captured: _core.Graph | None) -> _core.Graph | None:
    """The graph whose bound a search tells; None: not in the file, or with other scratch, which
    may have been measured since.
    """
    graph = plan.graph
    searched = captured if not graph.rewrites else None if graph.loop_count else graph
    return None if searched is None or " scratch " in searched.text() else searched


def _bounds(graph: _core.Graph, device: _core.Device) -> list[tuple[int, str]]:
    """(bytes, reason) for each way of searching, lowest first: a file does not tell in which way
    its plan was found.
    """
    from magis import _core

    found = {
        (bound.bytes, bound.reason)
        for fission in (True, False)
        for host in (None, 0)
        for bound in [_core.lower_bound(graph, device=device, fission=fission, host_memory=host)]
    }
    return sorted(found)


def _time(report: Report, plan: _core.Plan, device: _core.Device) -> Iterator[Untrue]:
    bound = report.time_bound
    assert bound is not None
    if not bound.missing and report.host_bytes:
        yield Untrue("a bound on the time", "one that swaps, for which there is none")
    if bound.seconds is not None:
        claim = f"that no plan like it takes less than {seconds_text(bound.seconds)}"
        keeps = 0 < report.promised_peak_bytes <= report.limit_bytes
        if keeps and bound.seconds > report.seconds * (1 + _ROUNDING):
            yield Untrue(claim, seconds_text(report.seconds))
        least = 0.0 if report.times else _once(plan, device)
        if bound.seconds < least * (1 - _ROUNDING):
            yield Untrue(claim, f"{seconds_text(least)} for running each operator once")
        gap = max(0.0, report.seconds / bound.seconds - 1) if keeps and bound.seconds else None
        if (gap is None) != (bound.gap is None) or not math.isclose(
            gap or 0.0, bound.gap or 0.0, rel_tol=_ROUNDING, abs_tol=_ROUNDING
        ):
            yield Untrue(f"to be {_share(bound.gap)} above its bound on time", _share(gap))
    if bound.least_bytes is not None and (
        bound.least_bytes > report.promised_peak_bytes or bound.least_bytes <= report.limit_bytes
    ):
        claim = f"that plans like it take at least {bytes_text(bound.least_bytes)}"
        limit = f"the limit is {bytes_text(report.limit_bytes)}"
        yield Untrue(claim, f"{bytes_text(report.promised_peak_bytes)}; {limit}")
    if not bound.missing and bound.in_parts != (plan.graph.loop_count > 0):
        words = ("operators that run whole", "operators that run in parts")
        yield Untrue(
            f"its bound on time to be of {words[bound.in_parts]}", words[not bound.in_parts]
        )


def _once(plan: _core.Plan, device: _core.Device) -> float:
    from magis import _core

    return math.fsum(op.seconds for op in _core.structure(plan.graph, device=device).operators)


def _share(gap: float | None) -> str:
    return "an unknown share" if gap is None else f"{100 * gap:.2f} %"
