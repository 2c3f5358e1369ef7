"""Each decision of a plan in a sentence, from what `magis.report.explanation.explain` found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from magis.report.explanation_words import STEPS, axis_text, place_text
from magis.report.modules import NO_MODULE
from magis.report.text import bytes_text, part_bytes_text, plural, seconds_text

Item = dict[str, Any]


def sentences(items: list[Item]) -> list[tuple[str, str]]:
    """(the kind of its item, the sentence), in the explanation's order; items that only describe,
    such as what is live at the peak, have none.
    """
    return [
        (item["kind"], sentence)
        for item in items
        if item["kind"] in _SENTENCES
        for sentence in _SENTENCES[item["kind"]](item)
    ]


def _start(item: Item) -> Iterator[str]:
    yield (
        f"Before, the step peaks at {bytes_text(item['peak_bytes'])} and takes "
        f"{seconds_text(item['seconds'])} ({item['source']})."
    )


def _step(item: Item) -> Iterator[str]:
    words = STEPS[item["by"]]
    yield (
        f"{words[0].upper()}{words[1:]} {_took(item['saved_bytes'])} and "
        f"{_cost(item['cost_seconds'])}: the peak is {bytes_text(item['peak_bytes'])} then, the "
        f"time {seconds_text(item['seconds'])}."
    )


def _took(saved: int) -> str:
    if saved == 0:
        return "leaves the peak as it is"
    size = bytes_text(abs(saved))
    return f"takes {size} off the peak" if saved > 0 else f"adds {size} to the peak"


def _cost(seconds: float) -> str:
    if seconds == 0:
        return "costs no time"
    return f"{'costs' if seconds > 0 else 'saves'} {seconds_text(abs(seconds))}"


def _rewrite(item: Item) -> Iterator[str]:
    words = item["description"] or "operators were replaced by others that compute the same"
    yield f"The rule {item['rule']} was applied {plural(item['times'], 'time')}: {words}."


def _split(item: Item) -> Iterator[str]:
    inside = f", inside every part of {item['inside']}" if item["inside"] else ""
    sentence = (
        f"{plural(item['operators'], 'operator')} run in {plural(item['parts'], 'part')} along the "
        f"{axis_text(item['axis'], item['length'])} ({item['loop']}{inside})"
    )
    if item["first"] is not None:
        sentence += f", from {place_text(item['first'])} to {place_text(item['last'])}"
    if item.get("whole_bytes"):
        sentence += (
            f": what was {bytes_text(item['whole_bytes'])} of the old peak is "
            f"{bytes_text(item['part_bytes'])} now"
        )
    yield sentence + "."


def _again(item: Item) -> Iterator[str]:
    yield f"Recomputing {_group(item)}: {_without(item)}."


def _swap(item: Item) -> Iterator[str]:
    hidden, copying = item["hidden_seconds"], item["copy_seconds"]
    share = "all" if hidden >= 0.9995 * copying else seconds_text(hidden)
    yield (
        f"Keeping {_group(item)} on the host for a while: {_without(item)}; of "
        f"{seconds_text(copying)} of copying {share} is hidden behind computing."
    )


def _group(item: Item) -> str:
    where = "" if item["operator"] == "others" else f" of {item['module'] or NO_MODULE}"
    between = f", free between {item['between']}" if item["between"] else ""
    size = part_bytes_text(item["bytes"], item["parts"])
    return f"{item['tensors']:,} x {item['operator']}{where} ({size}{between})"


def _without(item: Item) -> str:
    saved, cost = item["saved_bytes"], item["cost_seconds"]
    peak = f"{bytes_text(saved)} higher" if saved > 0 else "no higher"
    time = f"{seconds_text(cost)} faster" if cost > 0 else "no faster"
    return f"without it the peak would be {peak} and the step {time}"


def _limit(item: Item) -> Iterator[str]:
    if not item["met"]:
        yield f"The limit is not met ({item['limit']}); this is the best plan found."


def _bound(item: Item) -> Iterator[str]:
    above = item["above_bytes"]
    distance = f"{bytes_text(above)} above it" if above > 0 else "at it"
    reason = f" ({item['reason']})" if item["reason"] else ""
    size = bytes_text(item["bytes"])
    yield f"No plan of this step stays below {size}{reason}; this one is {distance}."


def _time_bound(item: Item) -> Iterator[str]:
    yield f"Bound on time: {': '.join(item['words'])}."


_SENTENCES: dict[str, Callable[[Item], Iterator[str]]] = {
    "start": _start,
    "step": _step,
    "rewrite": _rewrite,
    "split": _split,
    "recompute": _again,
    "swap": _swap,
    "limit": _limit,
    "bound": _bound,
    "time bound": _time_bound,
}
