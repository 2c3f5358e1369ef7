"""The planners of the paper's evaluation, on graphs whose optimum is known."""

from __future__ import annotations

from collections.abc import Mapping

from network import UNIT_BYTES, Network
from planners import PLANNERS, Outcome, Planner, Task
from planners.problem import Problem

import magis._core as core

PROFILE = "reference"


def problem_of(network: Network, device: core.Device = PROFILE) -> Problem:
    return Problem.of(network.graph(), device)


def within(
    network: Network,
    planner: str | Planner,
    units: int,
    device: core.Device = PROFILE,
    seconds: float = 20,
) -> Outcome:
    """The outcome in so many units of memory beside the inputs."""
    graph = network.graph()
    limit = graph.persistent_bytes + units * UNIT_BYTES
    chosen = PLANNERS[planner] if isinstance(planner, str) else planner
    return chosen.plan(Task(graph, device, memory_limit=limit, seconds=seconds))


def program_units(network: Network) -> int:
    base = core.Plan.program_order(network.graph()).simulate(PROFILE)
    return base.transient_peak_bytes // UNIT_BYTES


def device_with_link(bytes_per_second: float) -> core.DeviceProfile:
    """The reference profile's figures with another link."""
    figures: Mapping[str, float] = {
        "flops_per_second": 35e12,
        "half_flops_per_second": 35e12,
        "matmul_efficiency": 0.6,
        "bytes_per_second": 936e9,
        "launch_seconds": 5e-6,
        "link_bytes_per_second": bytes_per_second,
        "link_seconds": 0,
        "host_memory_bytes": 1e12,
    }
    return core.DeviceProfile.of("linked", figures)


def runs_of(plan: core.Plan) -> list[str]:
    """Operators in the order in which they run, copies of their results numbered."""
    lines = plan.text().split("\nprogram\n")[1].splitlines()
    words = [line.split() for line in lines if line.startswith("run ")]
    return [word[1][1:] + (word[3] if word[2:3] == ["as"] else "") for word in words]
