"""Which rewrite rules fire on which zoo model, what each saves by itself, and what they bring the
search: the same search with and without them, for the same number of states.

python bench/rules.py [MODEL ...] [--paper] [--states 200000]

With --paper the zoo's other variant, which writes attention out; with --states 0 no search.
"""

from __future__ import annotations

import argparse
from typing import Any

from magis import _core, zoo
from magis.capture import capture

PROFILES = ("reference", "cpu")
SLOWER = 1.1  # the limit on time that the search is compared at


def show_rules(graph: _core.Graph) -> None:
    for profile in PROFILES:
        before = _core.Plan.program_order(graph).simulate(profile)
        for rule, matches, applied, saved, change in _core.rule_effects(graph, device=profile):
            if applied:
                print(
                    f"  {profile:9}  {rule:32}  {matches:5,}  {applied:5,}"
                    f"  time {-saved / before.seconds:+7.2%}"
                    f"  peak {change / before.peak_bytes:+7.2%}"
                )


def show_search(graph: _core.Graph, states: int) -> None:
    before = _core.Plan.program_order(graph).simulate("reference")
    peaks = []
    for rewrite in (False, True):
        found = _core.optimize(
            graph,
            device="reference",
            latency_limit=SLOWER * before.seconds,
            state_budget=states,
            time_budget=120.0,
            rewrite=rewrite,
        )
        peaks.append(found.peak_bytes / before.peak_bytes)
    print(f"  at {SLOWER} times the time: memory {peaks[0]:.4f} without rules, {peaks[1]:.4f} with")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=zoo.names())
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--states", type=int, default=200_000)
    options = parser.parse_args()
    for name in options.models:
        variant: dict[str, Any] = {}
        if options.paper:
            variant["variant"] = "paper"
            if zoo.entry(name).attention:
                variant["attention"] = "eager"
        model, loss_fn, batch = zoo.build(name, size="full", **variant)
        graph = _core.Graph.parse(capture(model, loss_fn, batch).text)
        print(f"{name}: {graph.operator_count:,} operators", flush=True)
        show_rules(graph)
        if options.states:
            show_search(graph, options.states)


if __name__ == "__main__":
    main()
