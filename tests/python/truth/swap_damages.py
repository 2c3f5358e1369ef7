"""Programs that swap, damaged at random in what moves to the host and back."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

Damage = Callable[[list[str], random.Random], None]

_MOVE = re.compile(r"(store|load|await) ")
_COPY = re.compile(r"%(\w+)\.(\d+)")


def damaged(text: str, rng: random.Random) -> tuple[str, str]:
    """`text`, a plan that swaps, with one thing changed that has to do with swapping, and what was
    done, in words. The change may be harmless."""
    graph, _, program = text.partition("\nprogram\n")
    lines = program.splitlines()
    names = re.findall(r"%(\w+)[ ,]", "\n".join(graph.splitlines()[2:]))
    damages: dict[str, Damage] = {
        "a move is left out": _left_out,
        "a move is said twice": _said_twice,
        "a move stands elsewhere": _elsewhere,
        "a free stands elsewhere": _free_elsewhere,
        "two statements change places": _changed_places,
        "another number": _another_number,
        "another number everywhere": _renumbered,
        "another tensor moves": lambda lines, rng: _another_tensor(lines, rng, names),
    }
    what = rng.choice(list(damages))
    damages[what](lines, rng)
    return "\n".join([graph, "program", *lines, ""]), what


def _moves(lines: list[str]) -> list[int]:
    return [i for i, line in enumerate(lines) if _MOVE.match(line)]


def _left_out(lines: list[str], rng: random.Random) -> None:
    del lines[rng.choice(_moves(lines))]


def _said_twice(lines: list[str], rng: random.Random) -> None:
    said = lines[rng.choice(_moves(lines))]
    lines.insert(rng.randrange(len(lines) + 1), said)


def _elsewhere(lines: list[str], rng: random.Random) -> None:
    _shift(lines, rng.choice(_moves(lines)), rng)


def _free_elsewhere(lines: list[str], rng: random.Random) -> None:
    _shift(lines, rng.choice([i for i, line in enumerate(lines) if line.startswith("free")]), rng)


def _shift(lines: list[str], index: int, rng: random.Random) -> None:
    line = lines.pop(index)
    distance = rng.choice((1, 2, 3, 5, 8, len(lines)))
    lines.insert(max(0, index + rng.choice((-1, 1)) * rng.randint(1, distance)), line)


def _changed_places(lines: list[str], rng: random.Random) -> None:
    index = rng.choice([i for i in _moves(lines) if i > 0])
    lines[index - 1], lines[index] = lines[index], lines[index - 1]


def _another_number(lines: list[str], rng: random.Random) -> None:
    """One mention of a copy is of another one."""
    mentions = [
        (i, match)
        for i, line in enumerate(lines)
        for match in re.finditer(r"(?<=[\w%])\.(\d+)| as \.(\d+)|(?<=[a-z] )(%\w+)(?=,|$)", line)
    ]
    index, match = rng.choice(mentions)
    number = f".{rng.randint(1, 3)}"
    if match[3]:
        number = match[3] + number
    elif match[2]:
        number = " as " + number
    lines[index] = lines[index][: match.start()] + number + lines[index][match.end() :]


def _renumbered(lines: list[str], rng: random.Random) -> None:
    """A copy has another number, perhaps one that is taken."""
    copies = [match for line in lines if (match := re.match(r"load %(\w+) as \.(\d+)$", line))]
    name, number = rng.choice(copies).groups()
    other = rng.randint(1, int(number) + 2)
    for i, line in enumerate(lines):
        line = re.sub(rf"%{name}\.{number}\b", f"%{name}.{other}", line)
        lines[i] = line.replace(f"load %{name} as .{number}", f"load %{name} as .{other}")


def _another_tensor(lines: list[str], rng: random.Random, names: list[str]) -> None:
    index = rng.choice(_moves(lines))
    lines[index] = re.sub(r"%\w+", f"%{rng.choice(names)}", lines[index], count=1)
