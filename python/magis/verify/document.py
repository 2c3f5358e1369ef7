"""What graph and plan text says, as plain values: inputs, operations and loops, outputs,
statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import NamedTuple, TypeAlias

from magis.errors import PlanError

ITEM_SIZES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3fn": 1, "f8e5m2": 1, "c64": 8, "c128": 16,
    "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1,
}  # fmt: skip

VIEW_OPERATORS = {
    "aten." + name
    for name in (
        "view", "expand", "permute", "unsqueeze", "squeeze.dim", "squeeze.dims", "slice.Tensor",
        "select.int", "as_strided", "diagonal", "unfold", "view.dtype", "view_as_real",
        "view_as_complex",
    )
} | {"magis.part"}  # fmt: skip

INPUT_KINDS = ("param", "buffer", "batch", "const", "state", "grad", "scalar")
OUTPUT_KINDS = ("loss", "aux", "grad", "buffer", "param", "state")


class Ref(NamedTuple):
    """%name in an argument."""

    name: str


class Symbol(NamedTuple):
    """torch.<word>"""

    word: str


class DeviceWord(NamedTuple):
    """device("<name>")"""

    name: str


class PartLength(NamedTuple):
    """3*r1 or 128*r1*r2: so many times the units that the current iterations of the loops walk."""

    coefficient: int
    loops: tuple[str, ...]  # outer before inner

    def __str__(self) -> str:
        return "*".join([str(self.coefficient), *self.loops])


Arg: TypeAlias = (
    "Ref | Symbol | DeviceWord | PartLength | bool | int | float | str | list[Arg] | None"
)


class Copy(NamedTuple):
    """One incarnation of a tensor: 0 is the original, %a.1 is ("a", 1)."""

    tensor: str
    number: int = 0

    def __str__(self) -> str:
        return f"%{self.tensor}" + (f".{self.number}" if self.number else "")


@dataclass(frozen=True)
class Type:
    """Strides and offset in elements; `storage` is the bytes of the storage behind it."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: int

    @staticmethod
    def minimal_storage(
        dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
    ) -> int:
        """Bytes of the smallest storage that holds such a tensor; 0 if it has no elements."""
        if 0 in shape:
            return 0
        last = offset + sum((d - 1) * s for d, s in zip(shape, strides, strict=True))
        return (last + 1) * ITEM_SIZES[dtype]

    def __str__(self) -> str:
        text = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        if self.strides != contiguous_strides(self.shape):
            text += "{" + ",".join(map(str, self.strides)) + "}"
        text += f"+{self.offset}" if self.offset else ""
        minimal = Type.minimal_storage(self.dtype, self.shape, self.strides, self.offset)
        return text + (f"/{self.storage}" if self.storage != minimal else "")


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements, a length of 0 counted as 1."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Input:
    kind: str
    name: str
    path: str
    type: Type | None  # None for scalars
    line: int


@dataclass(frozen=True)
class Operation:
    """A statement of the graph: an operator's call or a view."""

    operator: str
    results: tuple[str, ...]
    types: tuple[Type | None, ...]  # None: undefined
    args: list[Arg]
    kwargs: dict[str, Arg]
    line: int
    site: int | None = None
    backward: bool = False
    scratch: int = 0

    @property
    def is_view(self) -> bool:
        return self.operator in VIEW_OPERATORS

    def leaves(self) -> Iterator[Arg]:
        """What its arguments hold, lists opened, in order."""

        def visit(arg: Arg) -> Iterator[Arg]:
            if isinstance(arg, list):
                for item in arg:
                    yield from visit(item)
            else:
                yield arg

        for arg in [*self.args, *self.kwargs.values()]:
            yield from visit(arg)

    def reads(self) -> list[str]:
        """Names of the values it takes, in argument order, each once."""
        return list(dict.fromkeys(leaf.name for leaf in self.leaves() if isinstance(leaf, Ref)))


@dataclass
class Loop:
    """A fission region that is split: what stands between its begin and its end runs once a part.
    Parts and lengths are in units of the region's axis."""

    name: str
    begin: Operation
    part: int  # of each iteration; the last one may be shorter
    length: int | PartLength  # of the axis
    parent: Loop | None  # the loop around it
    end: Operation = field(init=False)  # once it is read
    writers: dict[str, Operation] = field(default_factory=dict)  # result of begin -> who writes it

    @property
    def results(self) -> list[str]:
        """What `begin` allocates: concatenated results and accumulators."""
        pairs = zip(self.begin.results, self.begin.types, strict=True)
        return [name for name, type_ in pairs if type_ is not None]

    def around(self) -> list[str]:
        """Names of this loop and of those around it, outer before inner."""
        return [*(self.parent.around() if self.parent else []), self.name]


@dataclass(frozen=True)
class Output:
    kind: str
    path: str
    name: str
    line: int


@dataclass(frozen=True)
class Run:
    """`run %a as .1 reading %b.1 over %c`"""

    operation: str  # name of the operator's first result
    line: int
    copy: int = 0
    reading: tuple[Copy, ...] = ()
    over: Copy | None = None

    def __str__(self) -> str:
        text = f"run %{self.operation}" + (f" as .{self.copy}" if self.copy else "")
        text += f" reading {', '.join(map(str, self.reading))}" if self.reading else ""
        return text + (f" over {self.over}" if self.over else "")


@dataclass(frozen=True)
class Free:
    """`free %a, %b.1`"""

    copies: tuple[Copy, ...]
    line: int

    def __str__(self) -> str:
        return f"free {', '.join(map(str, self.copies))}"


@dataclass(frozen=True)
class Store:
    """`store %a`: copying that copy to the host begins."""

    copy: Copy
    line: int

    def __str__(self) -> str:
        return f"store {self.copy}"


@dataclass(frozen=True)
class Load:
    """`load %a as .2`: a new copy, on its way from the host."""

    copy: Copy  # the one that it makes
    line: int

    def __str__(self) -> str:
        return f"load %{self.copy.tensor} as .{self.copy.number}"


@dataclass(frozen=True)
class Await:
    """`await %a, %b.2`: what is on its way from or to these copies arrives."""

    copies: tuple[Copy, ...]
    line: int

    def __str__(self) -> str:
        return f"await {', '.join(map(str, self.copies))}"


Statement: TypeAlias = "Run | Free | Store | Load | Await"


@dataclass
class Document:
    """A graph, and the program if the text is a plan's."""

    device: str = "cpu"
    meta: dict[str, str] = field(default_factory=dict)
    sites: dict[int, tuple[str, str]] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)  # views among them
    outputs: list[Output] = field(default_factory=list)
    program: list[Statement] | None = None
    loops: dict[str, Loop] = field(default_factory=dict)
    # The innermost loop in whose body each operation stands, by first result; None: in no body.
    loop_of: dict[str, Loop | None] = field(default_factory=dict)

    @cached_property
    def operators(self) -> dict[str, Operation]:
        """Operators without views, by first result, in program order."""
        return {op.results[0]: op for op in self.operations if not op.is_view}

    @cached_property
    def views(self) -> dict[str, Operation]:
        return {op.results[0]: op for op in self.operations if op.is_view}

    @cached_property
    def maker(self) -> dict[str, str]:
        """First result of the operator that makes each tensor or undefined result."""
        return {name: first for first, op in self.operators.items() for name in op.results}

    @cached_property
    def types(self) -> dict[str, Type | None]:
        """Every value's type; None for scalars and undefined results."""
        types = {value.name: value.type for value in self.inputs}
        for op in self.operations:
            types.update(zip(op.results, op.types, strict=True))
        return types

    def owner(self, name: str) -> str:
        """The value whose storage `name` reads: itself, or what it is a view of."""
        while name in self.views:
            name = base_of(self.views[name])
        return name

    def loops_around(self, operation: str) -> list[str]:
        """Loops in whose bodies the operation stands, by its first result; outer before inner."""
        loop = self.loop_of.get(operation)
        return loop.around() if loop else []

    def full(self, length: int | PartLength) -> int:
        """A length in iterations that walk full parts: what types are written for."""
        if isinstance(length, int):
            return length
        return length.coefficient * prod(self.loops[name].part for name in length.loops)

    def read_tensors(self, op: Operation) -> list[str]:
        """Owners of what `op` reads, each once; scalars and undefined values left out."""
        owners = dict.fromkeys(self.owner(name) for name in op.reads())
        return [name for name in owners if self.types[name] is not None]


def base_of(view: Operation) -> str:
    """What a view is a view of: its first argument."""
    base = view.args[0] if view.args else None
    if not isinstance(base, Ref):
        raise PlanError(f"line {view.line}: the view %{view.results[0]} has no base")
    return base.name
