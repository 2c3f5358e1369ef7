"""Training chains, as networks and as rotor's stages."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from network import Network
from rotor import Stage, Step


@dataclass(frozen=True)
class Layer:
    units: int
    work: int = 64  # time of going forward and backward, see Network.product
    backward_work: int = 64
    pooled: bool = False  # a pool: indices of twice its units are saved beside its result


def homogeneous(length: int) -> list[Layer]:
    return [Layer(1, 512, 1024)] * length


def heterogeneous(length: int, seed: int, pools: bool = False) -> list[Layer]:
    """Sizes of 1 to 4 units, forward times apart by up to 16, backward ones one to three times as
    long; with `pools` one layer in six is one."""
    draw = random.Random(seed)
    layers = []
    for _ in range(length):
        units, work = draw.choice([1, 1, 2, 3, 4]), draw.choice([128, 256, 512, 1024, 2048])
        pooled = draw.random() < 1 / 6
        layers.append(Layer(units, work, int(work * draw.uniform(1, 3)), pools and pooled))
    return layers


def narrowing(length: int) -> list[Layer]:
    """As in image networks: sizes halve three times along the chain while the work stays."""
    layers = []
    for i in range(length):
        units = 8 >> (4 * i // length)
        layers.append(Layer(units, 2048 // units, 4096 // units))
    return layers


def network_of(layers: Sequence[Layer]) -> Network:
    """Results x1 .. xn, then gradients gn .. g0; gi reads g(i+1), xi, and x(i+1) or its indices."""
    network = Network()
    network.batch("x0", 1)
    for i, layer in enumerate(layers, 1):
        if layer.pooled:
            network.pool(f"x{i}", f"i{i}", layer.units, f"x{i - 1}")
        else:
            network.product(f"x{i}", layer.units, [f"x{i - 1}"], layer.work)
    n = len(layers)
    network.product(f"g{n}", layers[-1].units, [f"x{n}"], 256, backward=True)
    for i, layer in reversed(list(enumerate(layers, 1))):
        units = layers[i - 2].units if i > 1 else 1
        if layer.pooled:
            network.pool_backward(f"g{i - 1}", units, f"g{i}", f"x{i - 1}", f"i{i}")
        else:
            reads = [f"g{i}", f"x{i}", f"x{i - 1}"]
            network.product(f"g{i - 1}", units, reads, layer.backward_work, backward=True)
    network.outputs.append("g0")
    return network


def stages_of(layers: Sequence[Layer]) -> list[Stage]:
    """The chain with the profile's times; its last stage is the loss, which makes gn from xn."""
    seconds = network_of(layers).seconds()
    stages = []
    before = 1
    for i, layer in enumerate(layers, 1):
        saved = 3 * layer.units if layer.pooled else layer.units
        needed = 2 * layer.units if layer.pooled else layer.units
        stages.append(
            Stage(
                forward=seconds[f"x{i}"],
                backward=seconds[f"g{i - 1}"],
                activation=layer.units,
                saved=saved,
                gradient=layer.units,
                forward_memory=saved,
                backward_memory=layer.units + needed + before,
            )
        )
        before = layer.units
    stages.append(Stage(0.0, seconds[f"g{len(layers)}"], 0, 0, 0, 0, before))
    return stages


def runs_of(steps: Sequence[Step], length: int) -> list[str]:
    """Names of the operators that a schedule runs, for a chain of `length` layers."""
    forward = [f"x{step.stage + 1}" if not step.backward else f"g{step.stage}" for step in steps]
    return [name for name in forward if name != f"x{length + 1}"]
