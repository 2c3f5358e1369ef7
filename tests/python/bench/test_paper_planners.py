"""Each planner of the paper's evaluation on cases whose optimum, or behaviour, is known."""

from __future__ import annotations

import itertools
import math
import random

import chains
import pytest
from every_schedule import least_seconds
from network import UNIT_BYTES, Network
from paper_support import (
    PROFILE,
    device_with_link,
    problem_of,
    program_units,
    runs_of,
    within,
)
from planners import PLANNERS, Task
from planners.chain import ChainStep, chain_of
from planners.chen import saved_by, segmentations
from planners.dtr import TensorCache
from planners.joint_graph import JointGraph
from planners.memory import profile, without_dead_runs
from planners.microbatch import MicroBatches
from planners.orders import ORDERS, storage_pool
from planners.phases import phases_of
from planners.problem import Problem, run
from planners.recompute import crossing, eager_order, saving
from planners.rotor import RotorOfChain
from planners.swaps import Gap, place, with_swaps
from rotor import Rotor
from training import transformer, unet

import magis._core as core

NAMES = [
    *("pytorch", "inductor-order", "tvm", "chen", "rotor", "pofo", "checkmate", "dtr", "xla"),
    *("capuchin", "microbatch", "microbatch+pofo"),
    *("microbatch-8+pofo", "microbatch-16+pofo", "microbatch-32+pofo"),
    *("torch-budget", "magis-paper", "magis"),
]


def test_names_and_words_of_all_planners() -> None:
    assert list(PLANNERS) == NAMES
    for name, planner in PLANNERS.items():
        assert planner.name == name
        assert planner.published
        assert planner.simplified.endswith(".")


def test_a_task_has_one_limit() -> None:
    graph = transformer(1).graph()
    with pytest.raises(ValueError, match="either"):
        Task(graph, PROFILE)
    with pytest.raises(ValueError, match="either"):
        Task(graph, PROFILE, memory_limit=1, latency_limit=1.0)


@pytest.mark.parametrize("name", NAMES)
def test_outcomes_are_what_the_simulator_says(name: str) -> None:
    network = transformer(1)
    graph = network.graph()
    base = core.Plan.program_order(graph).simulate(PROFILE)
    transient = base.transient_peak_bytes
    tasks = [
        Task(graph, PROFILE, memory_limit=base.persistent_bytes + transient * 7 // 10, seconds=2),
        Task(graph, PROFILE, latency_limit=1.2 * base.seconds, seconds=2),
    ]
    for task in tasks:
        outcome = PLANNERS[name].plan(task)
        if outcome.plan is None:
            assert "microbatch-" in name  # there is no batch to split
            continue
        outcome.plan.verify()
        simulation = outcome.plan.simulate(PROFILE)
        assert (outcome.peak_bytes, outcome.seconds) == (simulation.peak_bytes, simulation.seconds)
        if task.memory_limit is not None:
            assert outcome.met == (outcome.peak_bytes <= task.memory_limit)
        else:
            assert outcome.met
            assert outcome.seconds <= 1.2 * base.seconds


# ---- what they share


@pytest.mark.parametrize("seed", range(12))
def test_bytes_are_counted_as_the_core_counts_them(seed: int) -> None:
    """Of programs that recompute at random, and swap what they do not recompute."""
    draw = random.Random(seed)
    network = draw.choice([transformer(2), unet(2, 2)])
    problem = problem_of(network)
    saved = {t for t in crossing(problem) if draw.random() < 0.5}
    steps = saving(problem, saved)
    for tensor in draw.sample(sorted(saved), len(saved) // 2):
        uses = [
            i
            for i, step in enumerate(steps)
            if tensor in problem.makes[step.subject] + problem.reads[step.subject]
        ]
        pairs = [(b - a, a, b) for a, b in itertools.pairwise(uses)]
        _, after, before = max(pairs)
        if before - after > 3 and all(step.kind == "run" for step in steps):
            placed = place(problem, steps, [Gap(tensor, after, before)])
            steps = with_swaps(problem, steps, [p for p in placed if p.release < p.load])
    counted = profile(problem, steps)
    found = problem.plan(steps).simulate(PROFILE)
    assert counted.peak == found.transient_peak_bytes
    runs = [m for m, step in zip(counted.moments, steps, strict=True) if step.kind == "run"]
    assert runs == [point.live_bytes for point in found.timeline]


def test_what_is_saved_is_not_recomputed_and_all_else_is() -> None:
    network = chains.network_of(chains.homogeneous(4))
    problem = problem_of(network)
    number = {tensor.name: i for i, tensor in enumerate(problem.tensors)}
    plan = problem.plan(saving(problem, {number["x2"], number["x4"]}))
    assert runs_of(plan) == [
        *("x1", "x2", "x3", "x4", "g4"),
        *("x3.1", "g3", "g2", "x1.1", "g1", "g0"),
    ]


def test_runs_that_nobody_reads_are_left_out() -> None:
    network = chains.network_of(chains.homogeneous(3))
    problem = problem_of(network)
    order = problem.program_order
    again = [*order[:3], run(0), run(1), *order[3:]]
    assert without_dead_runs(problem, again) == again  # the last copy of each is what is read
    assert without_dead_runs(problem, [*order, run(0)]) == order


def test_phases_of_a_graph_whose_loss_gradient_has_no_mark() -> None:
    network = transformer(1)
    phases = phases_of(problem_of(network))
    names = [op.name for op in network.operators]
    assert [names[op] for op in phases.backward if not names[op].startswith("d_")] == []
    assert [names[op] for op in phases.forward if names[op].startswith("d_")] == []


def test_the_chain_is_cut_at_every_waist_and_at_nothing_else() -> None:
    network = chains.network_of(chains.homogeneous(6))
    chain = chain_of(problem_of(network), 100)
    assert [len(stage.forward) for stage in chain.stages] == [1] * 6
    # A residual is carried past what stands between; the first one is the batch, which stays.
    problem = problem_of(transformer(2))
    waists = [problem.tensors[t].name for t in chain_of(problem, 100).waists]
    assert waists == ["qkv0", "mixed0", "attn0", "out0", "attn1"]
    assert len(chain_of(problem, 2).stages) == 2


def test_a_chain_program_follows_its_steps() -> None:
    network = chains.network_of(chains.homogeneous(3))
    chain = chain_of(problem_of(network), 100)
    steps = [ChainStep(False, i) for i in range(3)] + [
        ChainStep(True, 2),
        ChainStep(False, 0),
        ChainStep(False, 1),
        ChainStep(True, 1),
        ChainStep(True, 0),
    ]
    plan = chain.problem.plan(chain.program(steps))
    assert sum(name in ("x1.1", "x2.1") for name in runs_of(plan)) == 2


def test_swaps_are_placed_so_that_nobody_waits() -> None:
    network = chains.network_of(chains.homogeneous(8))
    device = linked(network, 1)
    problem = problem_of(network, device)
    steps = problem.program_order
    number = {tensor.name: i for i, tensor in enumerate(problem.tensors)}
    uses = {"x1": (1, 16 - 1), "x2": (2, 16 - 2)}
    gaps = [Gap(number[name], *between) for name, between in uses.items()]
    placed = place(problem, steps, gaps)
    assert all(p.hidden for p in placed)
    swapped = problem.footprint(with_swaps(problem, steps, placed))
    assert swapped.exposed_seconds == pytest.approx(0, abs=1e-12)
    assert swapped.peak_bytes == problem.baseline.peak_bytes - 2 * UNIT_BYTES


# ---- orders


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("network", [transformer(2), unet(2, 3)], ids=["transformer", "unet"])
def test_orders_run_everything_once(order: str, network: Network) -> None:
    problem = problem_of(network)
    found = ORDERS[order](problem)
    assert sorted(found) == list(range(len(problem.operators)))
    problem.plan([run(op) for op in found])  # UserError if something runs too early


def test_least_peak_first_waits_with_what_only_takes_memory() -> None:
    """big1 and big2 are each read once; in program order both are there together."""
    network = Network()
    network.batch("x", 1)
    network.product("big1", 8, ["x"], 64)
    network.product("big2", 8, ["x"], 64)
    network.product("small1", 1, ["big1"], 64)
    network.product("small2", 1, ["big2"], 64)
    network.product("y", 1, ["small1", "small2"], 64)
    network.outputs.append("y")
    assert program_units(network) == 17
    outcome = within(network, "inductor-order", 10)
    assert outcome.met
    assert outcome.note == "least peak first"
    assert outcome.plan is not None
    assert runs_of(outcome.plan) == ["big1", "small1", "big2", "small2", "y"]


def test_storage_is_handed_on_as_by_static_planning() -> None:
    """A chain of equal sizes takes two storages; what is 20 times as large takes its own."""
    network = Network()
    network.batch("x", 1)
    read = "x"
    for name, units in [("a", 1), ("b", 1), ("c", 1), ("d", 20)]:
        network.product(name, units, [read], 64)
        read = name
    network.outputs.append("d")
    problem = problem_of(network)
    assert storage_pool(problem, problem.program_order) == 22 * UNIT_BYTES


# ---- checkpointing


def test_chen_saves_square_root_many() -> None:
    """16 equal stages: k segments hold k - 1 ends and 16 / k results of one segment."""
    network = chains.network_of(chains.homogeneous(16))
    chain = chain_of(problem_of(network), 100)
    counts = {len(ends) + 1: ends for ends in segmentations(chain)}
    assert counts[4] == [3, 7, 11]
    peaks = {
        count: chain.problem.footprint(saving(chain.problem, saved_by(chain, ends))).peak_bytes
        for count, ends in counts.items()
    }
    units = {n: (peak - chain.problem.persistent_bytes) / UNIT_BYTES for n, peak in peaks.items()}
    # Beside two gradients: of four segments 3 ends and 4 results, of two 1 and 8, of eight 7 and 2.
    assert units == {1: 18, 2: 11, 3: 9, 4: 9, 6: 9, 8: 11, 16: 18}
    outcome = within(network, "chen", 9)
    assert outcome.met
    assert outcome.note == "4 segments of 16 stages"  # of those that fit, the fastest
    # All but the last segment, and of each but the ends, runs again.
    again = [name for name in runs_of(outcome.plan) if "." in name] if outcome.plan else []
    assert len(again) == 9


@pytest.mark.parametrize("seed", [0, 2, 5, 6])
def test_rotor_on_short_chains_against_every_schedule(seed: int) -> None:
    network = chains.network_of(chains.heterogeneous(4, seed))
    most = program_units(network)
    least = next(u for u in range(most + 1) if not math.isinf(least_seconds(network, u)))
    reached = 0
    for units in range(least, most + 1):
        outcome, optimum = within(network, "rotor", units), least_seconds(network, units)
        if outcome.met:
            assert outcome.seconds >= optimum * (1 - 1e-9)
            reached += outcome.seconds <= optimum * (1 + 1e-6)
    # Where rotor's own schedules are not the best ones, or rounding up costs a budget.
    assert reached >= (most + 1 - least) - 2


def test_rotor_finds_the_stages_of_a_long_chain() -> None:
    layers = chains.homogeneous(20)
    network = chains.network_of(layers)
    most = program_units(network)
    exact = Rotor(chains.stages_of(layers), most)
    for units in (8, 11, 15, 20):
        outcome = within(network, "rotor", units)
        assert outcome.met
        assert outcome.seconds <= exact.seconds(units) * 1.001
    chain = chain_of(problem_of(network), 100)
    planner = RotorOfChain(chain)
    assert planner.program(chain.problem.persistent_bytes + UNIT_BYTES) is None


@pytest.mark.parametrize("seed", range(3))
def test_checkmate_against_every_schedule_of_eight_operators(seed: int) -> None:
    network = chains.network_of(chains.heterogeneous(3, seed))  # 3 forward, 4 backward
    assert len(network.operators) <= 8
    for units in range(3, program_units(network) + 1):
        optimum = least_seconds(network, units)
        outcome = within(network, "checkmate", units)
        assert outcome.met == (not math.isinf(optimum))
        if outcome.met:
            assert outcome.seconds == pytest.approx(optimum, rel=1e-6)


def test_checkmate_rounds_what_it_puts_together() -> None:
    network = unet(3, 4)  # 63 operators
    most = program_units(network)
    outcome = within(network, "checkmate", most * 7 // 10, seconds=30)
    assert outcome.met
    assert "rounded, 40 groups of 63" in outcome.note


# ---- offloading


def test_pofo_costs_nothing_where_the_link_is_free() -> None:
    network = chains.network_of(chains.homogeneous(12))
    device = device_with_link(1e15)
    base = problem_of(network, device).baseline
    outcome = within(network, "pofo", 6, device=device)
    assert outcome.met
    assert outcome.seconds == pytest.approx(base.seconds, rel=1e-6)
    assert outcome.plan is not None
    assert outcome.plan.host_bytes > 0


def test_pofo_is_rotor_without_a_link() -> None:
    network = chains.network_of(chains.heterogeneous(12, seed=3))
    device = device_with_link(1.0)
    for units in (program_units(network) * share // 10 for share in (5, 7)):
        outcome = within(network, "pofo", units, device=device)
        alone = within(network, "rotor", units, device=device)
        assert outcome.met == alone.met
        assert outcome.seconds <= alone.seconds * (1 + 1e-9)
        assert outcome.plan is not None
        assert outcome.plan.host_bytes == 0


@pytest.mark.parametrize(("copies", "units"), [(2, 7), (3, 7), (4, 9)])
def test_pofo_mixes_both_where_neither_is_enough(copies: int, units: int) -> None:
    """A copy takes so many times a stage's time: fewer tensors than have to can leave in time."""
    network = chains.network_of(chains.homogeneous(12))
    device = linked(network, copies)
    base = problem_of(network, device).baseline.seconds
    mixed = within(network, "pofo", units, device=device)
    recomputed = within(network, "rotor", units, device=device)
    assert mixed.met
    assert base < mixed.seconds < recomputed.seconds
    assert mixed.plan is not None
    assert mixed.plan.host_bytes > 0
    assert mixed.plan.recomputed()


def linked(network: Network, copies: float) -> core.DeviceProfile:
    """A device whose link takes so many times x1's time for a unit."""
    seconds = problem_of(network, device_with_link(1e15)).seconds[0]
    return device_with_link(UNIT_BYTES / (copies * seconds))


def test_capuchin_hides_what_can_be_hidden() -> None:
    network = chains.network_of(chains.homogeneous(10))
    device = linked(network, 1)
    most = program_units(network)
    base = problem_of(network, device).baseline.seconds
    outcome = within(network, "capuchin", most - 3, device=device)
    assert outcome.met
    assert outcome.seconds == pytest.approx(base, rel=1e-9)
    assert outcome.note.endswith("0 others, 0 tensors recomputed")
    # A link that hides nothing: it recomputes.
    slow = within(network, "capuchin", most - 3, device=device_with_link(1e3))
    assert slow.met
    assert slow.note.startswith("0 hidden swaps, 0 others")
    assert slow.seconds > base


# ---- greedy ones


@pytest.mark.parametrize("network", [transformer(2), unet(2, 3)], ids=["transformer", "unet"])
def test_dtr_never_exceeds_its_budget(network: Network) -> None:
    problem = problem_of(network)
    most = program_units(network)
    done = 0
    for units in range(most // 4, most + 1):
        cache = TensorCache(problem, units * UNIT_BYTES)
        if cache.run_step():
            done += 1
            found = problem.footprint(cache.steps)
            assert found.peak_bytes - problem.persistent_bytes <= units * UNIT_BYTES
            assert found.seconds == pytest.approx(cache.clock)
    assert done > most // 3
    roomy = TensorCache(problem, 2 * most * UNIT_BYTES)
    assert roomy.run_step()
    assert roomy.evictions == 0


def test_dtr_evicts_what_is_cheap_large_and_stale() -> None:
    """When y has to be made, a (cheap), b (dear) and c (just read) are there and must be later."""
    network = Network()
    network.batch("x", 1)
    network.product("a", 2, ["x"], 64)
    network.product("b", 2, ["x"], 16384)
    network.product("c", 2, ["x"], 64)
    network.product("y", 2, ["c"], 64)
    network.product("z", 1, ["a", "b", "c"], 64)
    network.product("w", 1, ["z", "y"], 64)
    network.outputs.append("w")
    problem = problem_of(network)
    cache = TensorCache(problem, 6 * UNIT_BYTES)
    for op in range(4):  # y is the one for which there is no room
        assert cache._execute(op)
    assert [problem.tensors[t].name for t in cache.evicted] == ["a"]


def test_xla_repeats_the_large_cheap_value_behind_the_peak() -> None:
    """wide is cheap, read first and last; in between the peak is reached, where it waits."""
    network = Network()
    network.batch("x", 1)
    network.product("wide", 8, ["x"], 64)
    network.product("early", 1, ["wide"], 64)
    network.product("peak", 16, ["early"], 2048)
    network.product("low", 1, ["peak"], 2048)
    network.product("late", 1, ["low", "wide"], 64)
    network.outputs.append("late")
    assert program_units(network) == 25
    outcome = within(network, "xla", 17)
    assert outcome.met
    assert outcome.plan is not None
    assert runs_of(outcome.plan) == ["wide", "early", "peak", "low", "wide.1", "late"]


# ---- PyTorch's partitioner


def test_the_partitioner_saves_nothing_at_budget_zero_and_something_at_more() -> None:
    problem = problem_of(transformer(2))
    joint = JointGraph(problem)
    produced = set(crossing(problem))
    assert joint.saved(0.0) == set() | {t for t in joint.saved(0.0) if problem.producer[t] < 0}
    half, most = joint.saved(0.5) & produced, joint.saved(0.99) & produced
    assert half
    assert sum(problem.bytes[t] for t in half) <= sum(problem.bytes[t] for t in most)
    peaks = [
        problem.footprint(saving(problem, saved)).peak_bytes
        for saved in (half, set(crossing(problem)))
    ]
    assert peaks[0] < peaks[1]


# ---- one's own


def test_micro_batches_run_in_as_many_parts_as_asked_for() -> None:
    text = MLP_STEP
    graph = core.Graph.parse(text)
    for parts in (2, 4, 8):
        task = Task(graph, PROFILE, latency_limit=1e9)
        outcome = MicroBatches((parts,)).plan(task)
        assert outcome.plan is not None
        (line,) = (li for li in outcome.plan.text().splitlines() if "magis.begin(" in li)
        part, length = line.split('magis.begin("')[1].split(", ")[1:3]
        assert int(length) / int(part) == parts
    outcome = MicroBatches((3000,)).plan(Task(graph, PROFILE, latency_limit=1e9))
    assert outcome.plan is None
    assert outcome.note == "the batch cannot run in parts"


MLP_STEP = """magis 1
device cpu

param %w1 "w1" : f32[64,64]
param %w2 "w2" : f32[64,64]
batch %x "['x']" : f32[64,64]

%h = aten.mm(%x, %w1) : f32[64,64]
%a = aten.relu(%h) : f32[64,64]
%y = aten.mm(%a, %w2) : f32[64,64]
%loss = aten.sum(%y) : f32[]
%dy = aten.ones_like(%y) : f32[64,64] backward
%a_t = aten.permute(%a, [1,0]) : f32[64,64]{1,64}
%dw2 = aten.mm(%a_t, %dy) : f32[64,64] backward
%w2_t = aten.permute(%w2, [1,0]) : f32[64,64]{1,64}
%da = aten.mm(%dy, %w2_t) : f32[64,64] backward
%dh = aten.threshold_backward(%da, %a, 0) : f32[64,64] backward
%x_t = aten.permute(%x, [1,0]) : f32[64,64]{1,64}
%dw1 = aten.mm(%x_t, %dh) : f32[64,64] backward

output loss "" %loss
output grad "w1" %dw1
output grad "w2" %dw2
"""


def test_eager_order_is_program_order_unless_that_takes_more() -> None:
    for network in (transformer(2), unet(2, 2)):
        problem: Problem = problem_of(network)
        steps = eager_order(problem)
        assert problem.footprint(steps).peak_bytes <= problem.baseline.peak_bytes
