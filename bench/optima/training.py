"""Small training graphs with branches: a transformer's blocks, a U-Net with its skips."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from network import Network


@dataclass(frozen=True)
class Forward:
    name: str
    units: int
    reads: tuple[str, ...]
    saves: tuple[str, ...]  # what each gradient operator reads beside the gradient; at most two
    work: int


def training(forward: list[Forward], input_units: int) -> Network:
    """A forward phase of operators and its backward phase, input x, gradient of x as the output. An
    operator gives each tensor that it reads a gradient; several for one tensor are added up."""
    network = Network()
    network.batch("x", input_units)
    units = {"x": input_units} | {op.name: op.units for op in forward}
    for op in forward:
        network.product(op.name, op.units, op.reads, op.work)
    last = forward[-1]
    network.product("d_" + last.name, last.units, [last.name], 64, backward=True)
    gradient = {last.name: "d_" + last.name}
    summands: dict[str, int] = defaultdict(int)
    for op in reversed(forward):
        for read in op.reads:
            summands[read] += 1
            first = read not in gradient
            name = f"d_{read}" if first else f"d_{read}_{summands[read]}"
            operands = [gradient[op.name], *op.saves]
            network.product(name, units[read], operands, op.work, backward=True)
            if not first:
                total = f"{name}_sum"
                network.product(total, units[read], [gradient[read], name], 16, backward=True)
                name = total
            gradient[read] = name
    network.outputs.append(gradient["x"])
    return network


def transformer(blocks: int) -> Network:
    forward: list[Forward] = []

    def add(name: str, units: int, reads: list[str], saves: list[str], work: int) -> str:
        forward.append(Forward(name, units, tuple(reads), tuple(saves), work))
        return name

    x = "x"
    for b in range(blocks):
        qkv = add(f"qkv{b}", 3, [x], [x], 768)
        probabilities = add(f"probs{b}", 4, [qkv], [f"probs{b}", qkv], 256)
        mixed = add(f"mixed{b}", 1, [probabilities, qkv], [probabilities, qkv], 256)
        sum1 = add(f"attn{b}", 1, [mixed, x], [mixed], 512)
        hidden = add(f"fc1_{b}", 4, [sum1], [sum1], 768)
        active = add(f"gelu{b}", 4, [hidden], [hidden], 16)
        x = add(f"out{b}", 1, [active, sum1], [active], 1024)
    return training(forward, 1)


def unet(depth: int, operators: int) -> Network:
    """Levels of 2^depth units and less, `operators` each on the way down and up; a way up's first
    operator reads the level below and the skip."""
    forward: list[Forward] = []
    x, skips = "x", []
    for level in range(depth + 1):
        for i in range(operators):
            name = f"down{level}_{i}"
            forward.append(Forward(name, 1 << (depth - level), (x,), (x, name), 256))
            x = name
        skips.append(x)
    for level in reversed(range(depth)):
        for i in range(operators):
            name = f"up{level}_{i}"
            reads = (x, skips[level]) if i == 0 else (x,)
            saves = reads if i == 0 else (x, name)
            forward.append(Forward(name, 1 << (depth - level), reads, saves, 256))
            x = name
    return training(forward, 1)
