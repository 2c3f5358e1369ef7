"""Our search, without fission and swapping, beside exact optima at ten budgets a graph.

python bench/optima/run.py [--seconds 10] [--only homogeneous-100 unet-35] [--json FILE]

Chains are planned by rotor's dynamic programme, other graphs by Checkmate's integer linear
programme. Budgets are evenly spaced from the least that an optimum fits in (graphs: from the lower
bound on any plan, where often nothing fits) to the peak of program order. Every optimal schedule is
replayed as a plan: the simulator has to agree on its time, and its peak has to be within the
budget. A ratio below 1 says that the search left what the planner is bound to: rotor keeps what it
has stored until it is used, Checkmate runs everything for the first time in program order.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import chains
from checkmate import Checkmate, Instance
from network import PROFILE, UNIT_BYTES, Network, peak_units, plan_of, search
from rotor import Rotor
from training import transformer, unet

import magis._core as core

CHAINS: dict[str, Callable[[], list[chains.Layer]]] = {
    "homogeneous-20": lambda: chains.homogeneous(20),
    "homogeneous-50": lambda: chains.homogeneous(50),
    "homogeneous-100": lambda: chains.homogeneous(100),
    "heterogeneous-20": lambda: chains.heterogeneous(20, seed=1),
    "heterogeneous-50": lambda: chains.heterogeneous(50, seed=2),
    "heterogeneous-100": lambda: chains.heterogeneous(100, seed=3),
    "pools-20": lambda: chains.heterogeneous(20, seed=1, pools=True),
    "pools-50": lambda: chains.heterogeneous(50, seed=2, pools=True),
    "pools-100": lambda: chains.heterogeneous(100, seed=3, pools=True),
    "narrowing-50": lambda: chains.narrowing(50),
    "narrowing-100": lambda: chains.narrowing(100),
}
# The number is that of the operators.
GRAPHS: dict[str, Callable[[], Network]] = {
    "transformer-21": lambda: transformer(1),
    "transformer-41": lambda: transformer(2),
    "transformer-61": lambda: transformer(3),
    "unet-35": lambda: unet(depth=3, operators=2),
    "unet-49": lambda: unet(depth=3, operators=3),
    "unet-63": lambda: unet(depth=3, operators=4),
}


@dataclass(frozen=True)
class Optimum:
    budget: int  # units, inputs not counted
    seconds: float  # inf: none was found
    bound: (
        float  # no schedule that the planner knows takes less; the same as seconds, if it finished
    )
    runs: list[str]


@dataclass(frozen=True)
class Outcome:
    case: str
    operators: int
    budget: int
    budget_ratio: float  # of the peak of program order
    optimum: float  # of the time of program order, as the next two; inf: none was found
    bound: float
    ours: float | None  # None: the budget was not met
    ratio: float | None  # ours / optimum
    wall_seconds: float


def budgets_between(least: int, most: int, count: int) -> list[int]:
    return sorted({least + (most - least) * i // max(1, count - 1) for i in range(count)})


def chain_optima(layers: Sequence[chains.Layer], most: int, count: int) -> Iterator[Optimum]:
    rotor = Rotor(chains.stages_of(layers), most)
    for budget in budgets_between(rotor.least_budget(), most, count):
        seconds = rotor.seconds(budget)
        yield Optimum(budget, seconds, seconds, chains.runs_of(rotor.steps(budget), len(layers)))


def graph_optima(network: Network, most: int, count: int, limit: float) -> Iterator[Optimum]:
    low = core.lower_bound(network.graph(), device=PROFILE, fission=False, host_memory=0)
    least = (low.bytes - low.persistent_bytes) // UNIT_BYTES
    for budget in budgets_between(least, most, count):
        solution = Checkmate(Instance.of(network), budget).solve(limit)
        yield Optimum(budget, solution.seconds, solution.bound, solution.runs or [])


def check(network: Network, optimum: Optimum) -> None:
    """The simulator agrees with the planner, or an error."""
    simulation = plan_of(network, optimum.runs).simulate(PROFILE)
    if simulation.transient_peak_bytes > optimum.budget * UNIT_BYTES:
        raise RuntimeError(f"the optimum in {optimum.budget} units takes {peak_units(simulation)}")
    if not math.isclose(simulation.seconds, optimum.seconds, rel_tol=1e-6):
        raise RuntimeError(f"the optimum takes {simulation.seconds}, not {optimum.seconds} s")


def outcomes(case: str, options: argparse.Namespace) -> Iterator[Outcome]:
    layers = CHAINS[case]() if case in CHAINS else None
    network = chains.network_of(layers) if layers else GRAPHS[case]()
    graph = network.graph()
    base = core.Plan.program_order(graph).simulate(PROFILE)
    most = peak_units(base)
    if layers:
        optima = chain_optima(layers, most, options.budgets)
    else:
        optima = graph_optima(network, most, options.budgets, options.planner_seconds)
    for optimum in optima:
        if optimum.runs:
            check(network, optimum)
        found = search(graph, optimum.budget, seconds=options.seconds, seed=options.seed)
        yield Outcome(
            case,
            graph.operator_count,
            optimum.budget,
            optimum.budget / most,
            optimum.seconds / base.seconds,
            optimum.bound / base.seconds,
            found.seconds / base.seconds if found.met else None,
            found.seconds / optimum.seconds if found.met and optimum.runs else None,
            found.wall_seconds,
        )


HEADER = (
    "case               operators  budget  of peak   optimum     bound      ours    ratio    wall"
)


def line(o: Outcome) -> str:
    def number(value: float | None, width: int) -> str:
        return ("-" if value is None or math.isinf(value) else f"{value:.4f}").rjust(width)

    figures = "".join(number(value, 10) for value in (o.optimum, o.bound, o.ours))
    return (
        f"{o.case:18} {o.operators:9}  {o.budget:6}  {o.budget_ratio:7.3f}{figures}"
        f" {number(o.ratio, 8)} {o.wall_seconds:7.2f}"
    )


def summary(case: str, rows: Sequence[Outcome]) -> str:
    ratios = [o.ratio for o in rows if o.ratio is not None]
    missed = sum(o.ours is None and not math.isinf(o.optimum) for o in rows)
    near = sum(ratio <= 1.02 for ratio in ratios)
    return (
        f"{case}: within 2 % at {near} of {len(ratios) + missed} budgets, missed {missed},"
        f" worst {max(ratios, default=math.nan):.4f}"
    )


def main() -> None:
    cases = [*CHAINS, *GRAPHS]
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=10, help="for each of our searches")
    parser.add_argument("--planner-seconds", type=float, default=120, help="for each programme")
    parser.add_argument("--budgets", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=cases, default=cases)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    print(HEADER)
    found: dict[str, list[Outcome]] = {}
    for case in options.only:
        found[case] = []
        for outcome in outcomes(case, options):
            found[case].append(outcome)
            print(line(outcome), flush=True)
        print(summary(case, found[case]), flush=True)
    if options.json:
        rows = [asdict(outcome) for case in found.values() for outcome in case]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
