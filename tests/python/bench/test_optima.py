"""Exact planners: against every schedule of tiny graphs, and our search against them."""

from __future__ import annotations

import itertools
import math
import random
import sys
from pathlib import Path

import pytest

OPTIMA = Path(__file__).parents[3] / "bench" / "optima"
sys.path.insert(0, str(OPTIMA))

import chains  # noqa: E402
from checkmate import Checkmate, Instance  # noqa: E402
from every_schedule import least_seconds  # noqa: E402
from network import PROFILE, UNIT_BYTES, Network, plan_of, search  # noqa: E402
from rotor import Rotor, Stage  # noqa: E402
from training import transformer, unet  # noqa: E402

import magis._core as core  # noqa: E402


def program_peak(network: Network) -> int:
    base = core.Plan.program_order(network.graph()).simulate(PROFILE)
    return base.transient_peak_bytes // UNIT_BYTES


def assert_replayed(network: Network, runs: list[str], budget: int, seconds: float) -> None:
    simulation = plan_of(network, runs).simulate(PROFILE)
    assert simulation.transient_peak_bytes <= budget * UNIT_BYTES
    assert simulation.seconds == pytest.approx(seconds, rel=1e-6)


# ---- rotor


def test_rotor_on_a_chain_counted_by_hand() -> None:
    """Three stages and the loss, one unit each, 1 s forward, 2 s backward, the loss 1 s. All kept
    needs x1 x2 x3 and two gradients: 5 units, 10 s. In 4, x1 is let go of and made again: 11 s. In
    3 nothing fits: the second backward step reads x1 and x2 beside its two gradients."""
    stage = Stage(
        forward=1,
        backward=2,
        activation=1,
        saved=1,
        gradient=1,
        forward_memory=1,
        backward_memory=3,
    )
    rotor = Rotor([stage, stage, stage, Stage(0, 1, 0, 0, 0, 0, 1)], most=6)
    assert [rotor.seconds(budget) for budget in range(3, 7)] == [math.inf, 11, 10, 10]
    assert rotor.least_budget() == 4


# (seed, budget) of chains for which letting go of something before it is used, or of one of a
# pool's two results, is better than what rotor's schedules may do.
BETTER_THAN_ROTOR = {(1, 19), (1, 20), (3, 10), (4, 8)}


@pytest.mark.parametrize("seed", range(12))
def test_rotor_against_every_schedule_of_small_chains(seed: int) -> None:
    layers = chains.heterogeneous(3 + seed % 2, seed, pools=True)
    network = chains.network_of(layers)
    most = program_peak(network)
    rotor = Rotor(chains.stages_of(layers), most)
    for budget in range(most + 1):
        optimum = least_seconds(network, budget)
        if (seed, budget) in BETTER_THAN_ROTOR:
            assert optimum < rotor.seconds(budget) < 1.11 * optimum
        else:
            assert rotor.seconds(budget) == pytest.approx(optimum), budget


@pytest.mark.parametrize("length", [1, 2, 20])
def test_rotor_schedules_hold_in_the_simulator(length: int) -> None:
    pools = chains.heterogeneous(length, seed=length, pools=True)
    for layers in (chains.homogeneous(length), pools):
        network = chains.network_of(layers)
        most = program_peak(network)
        rotor = Rotor(chains.stages_of(layers), most)
        times = [rotor.seconds(budget) for budget in range(rotor.least_budget(), most + 1)]
        assert times == sorted(times, reverse=True)
        for budget, seconds in enumerate(times, rotor.least_budget()):
            runs = chains.runs_of(rotor.steps(budget), length)
            assert_replayed(network, runs, budget, seconds)
        base = core.Plan.program_order(network.graph()).simulate(PROFILE)
        assert times[-1] == pytest.approx(base.seconds)


def test_rotor_says_that_nothing_fits() -> None:
    rotor = Rotor(chains.stages_of(chains.homogeneous(4)), most=6)
    assert rotor.least_budget() == 4
    with pytest.raises(ValueError, match="no schedule fits in 3 units"):
        rotor.steps(3)


# ---- Checkmate


def random_network(seed: int) -> Network:
    """Seven operators of random sizes that read up to three others; two outputs."""
    draw = random.Random(seed)
    network = Network()
    network.batch("x", 1)
    names: list[str] = []
    for i in range(7):
        reads = draw.sample(names, min(len(names), draw.randint(1, 3))) or ["x"]
        network.product(f"v{i}", draw.randint(1, 4), reads, draw.choice([64, 256, 1024]))
        names.append(f"v{i}")
    network.outputs += ["v6", draw.choice(names[:-1])]
    return network


@pytest.mark.parametrize("seed", [*range(7), 18])
def test_checkmate_against_every_schedule_of_small_graphs(seed: int) -> None:
    network = random_network(seed)
    outcomes = set()
    for budget in range(2, program_peak(network) + 1):
        optimum = least_seconds(network, budget)
        solution = Checkmate(Instance.of(network), budget).solve()
        outcomes.add(math.isfinite(optimum))
        assert solution.seconds == pytest.approx(optimum), budget
        assert solution.optimal() or solution.runs is None
        if solution.runs is not None:
            assert_replayed(network, solution.runs, budget, solution.seconds)
    assert outcomes == {True, False}


def test_checkmate_equals_rotor_on_a_chain() -> None:
    layers = [chains.Layer(1, work, 3 * work) for work in (256, 64, 1024, 128, 512, 64, 256)]
    network = chains.network_of(layers)
    most = program_peak(network)
    rotor = Rotor(chains.stages_of(layers), most)
    for budget in range(rotor.least_budget(), most + 1):
        solution = Checkmate(Instance.of(network), budget).solve()
        assert solution.seconds == pytest.approx(rotor.seconds(budget)), budget


def test_checkmate_takes_single_results_only() -> None:
    network = chains.network_of([chains.Layer(1), chains.Layer(1, pooled=True)])
    with pytest.raises(ValueError, match="x2 has 2 results"):
        Checkmate(Instance.of(network), 8)


# ---- our search; as many states, not seconds, so that a slow machine finds the same


CHAINS = {
    "homogeneous": chains.homogeneous(16),
    "heterogeneous": chains.heterogeneous(12, seed=4),
    "pools": chains.heterogeneous(12, seed=4, pools=True),
}
# (chain, budget): ratio, where more states do not help. An optimal schedule needs there what modes
# of uses cannot say: that both results of an operator are kept when it runs again.
FURTHER_OFF = {("pools", 22): 1.025}


@pytest.mark.parametrize("name", CHAINS)
def test_our_search_is_within_two_percent_of_rotor(name: str) -> None:
    layers = CHAINS[name]
    network = chains.network_of(layers)
    graph = network.graph()
    most = program_peak(network)
    rotor = Rotor(chains.stages_of(layers), most)
    least = rotor.least_budget()
    for budget in sorted({least + (most - least) * i // 9 for i in range(10)}):
        found = search(graph, budget, states=150_000)
        assert found.met, budget
        ratio = found.seconds / rotor.seconds(budget)
        assert ratio <= FURTHER_OFF.get((name, budget), 1.02), budget


@pytest.mark.parametrize("seed", range(2))
def test_our_search_is_near_rotor_where_hardly_anything_fits(seed: int) -> None:
    """In the least memory that any schedule fits in, where checkpoints nest many times."""
    layers = chains.heterogeneous(50, seed=2)
    network = chains.network_of(layers)
    rotor = Rotor(chains.stages_of(layers), program_peak(network))
    budget = rotor.least_budget()
    assert rotor.seconds(budget) > 1.5 * rotor.seconds(rotor.most)
    found = search(network.graph(), budget, states=200_000, seed=seed)
    assert found.met
    assert found.seconds <= 1.02 * rotor.seconds(budget)


@pytest.mark.parametrize(
    ("network", "fractions"), [(transformer(1), (0.75, 0.9)), (unet(2, 1), (0.85, 0.95))]
)
def test_our_search_is_within_two_percent_of_checkmate(
    network: Network, fractions: tuple[float, ...]
) -> None:
    for budget in (math.ceil(fraction * program_peak(network)) for fraction in fractions):
        solution = Checkmate(Instance.of(network), budget).solve()
        assert solution.optimal()
        found = search(network.graph(), budget, states=20_000)
        assert found.met
        assert found.seconds <= 1.02 * solution.seconds


def test_least_seconds_of_a_graph_counted_by_hand() -> None:
    """b and c read a, d reads both, one unit each: a, b and c are held at once, 3 units; no order
    needs less, as c cannot run without a while b is held."""
    network = Network()
    network.batch("x", 1)
    for name, reads in {"a": ["x"], "b": ["a"], "c": ["a"], "d": ["b", "c"]}.items():
        network.product(name, 1, reads, 64)
    network.outputs.append("d")
    seconds = sum(itertools.chain(network.seconds().values()))
    assert least_seconds(network, 3) == pytest.approx(seconds)
    assert least_seconds(network, 2) == math.inf
