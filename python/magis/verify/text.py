"""A small parser of graph and plan text for the verifiers, which share nothing with the core.

ARCHITECTURE.md describes the language. One line is one declaration or statement; a line is cut into
tokens and read by recursive descent. Errors are PlanError("line 12: ..."); the core's own parser
gives users the better messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

from magis.errors import PlanError

T = TypeVar("T")

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
}  # fmt: skip

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


Arg: TypeAlias = "Ref | Symbol | DeviceWord | bool | int | float | str | list[Arg] | None"


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

    def reads(self) -> list[str]:
        """Names of the values it takes, in argument order, each once."""
        found: dict[str, None] = {}

        def visit(arg: Arg) -> None:
            if isinstance(arg, Ref):
                found[arg.name] = None
            elif isinstance(arg, list):
                for item in arg:
                    visit(item)

        for arg in [*self.args, *self.kwargs.values()]:
            visit(arg)
        return list(found)


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


@dataclass
class Document:
    """A graph, and the program if the text is a plan's."""

    device: str = "cpu"
    meta: dict[str, str] = field(default_factory=dict)
    sites: dict[int, tuple[str, str]] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)  # views among them
    outputs: list[Output] = field(default_factory=list)
    program: list[Run | Free] | None = None

    @cached_property
    def operators(self) -> dict[str, Operation]:
        """Operators without views, by first result, in program order."""
        return {op.results[0]: op for op in self.operations if not op.is_view}

    @cached_property
    def views(self) -> dict[str, Operation]:
        return {op.results[0]: op for op in self.operations if op.is_view}

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


_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>\#.*)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<ref>%[A-Za-z_]\w*(?:\.\d+)?)
    | (?P<number>-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|inf\b|nan\b))
    | (?P<word>[A-Za-z_][\w.-]*)
    | (?P<mark>[()\[\]{}=:,+/@.]))""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class _Line:
    """The tokens of one line and the place reached in them."""

    def __init__(self, text: str, number: int) -> None:
        self.number = number
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.error(f"cannot read {text[position:].strip()[:20]!r}")
            if match.lastgroup != "comment":
                self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            position = match.end()

    def error(self, message: str) -> PlanError:
        return PlanError(f"line {self.number}: {message}")

    @property
    def done(self) -> bool:
        return self.at == len(self.tokens)

    def peek(self) -> str:
        return "" if self.done else self.tokens[self.at][1]

    def accept(self, text: str) -> bool:
        if self.peek() != text or self.tokens[self.at][0] == "string":
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.peek() or 'the end'!r}")

    def take(self, kind: str) -> str:
        if self.done or self.tokens[self.at][0] != kind:
            raise self.error(f"expected a {kind}, found {self.peek() or 'the end'!r}")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def integer(self) -> int:
        try:
            return int(self.take("number"))
        except ValueError:
            raise self.error("expected an integer") from None

    def string(self) -> str:
        quoted = self.take("string")[1:-1]
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), quoted)

    def name(self) -> str:
        name = self.take("ref")[1:]
        if "." in name:
            raise self.error(f"%{name} names a copy, which only a program may do")
        return name

    def copy(self) -> Copy:
        name, _, number = self.take("ref")[1:].partition(".")
        return Copy(name, int(number or 0))

    def some(self, item: Callable[[], T]) -> list[T]:
        """One or more, with commas between them."""
        items = [item()]
        while self.accept(","):
            items.append(item())
        return items

    def listed(self, item: Callable[[], T], close: str) -> list[T]:
        """None or more with commas between them, and what closes the list."""
        items = [] if self.peek() == close else self.some(item)
        self.expect(close)
        return items

    def type(self) -> Type | None:
        if self.accept("none"):
            return None
        dtype = self.take("word")
        if dtype not in ITEM_SIZES:
            raise self.error(f"{dtype} is not a dtype")
        self.expect("[")
        shape = tuple(self.listed(self.integer, "]"))
        strides = contiguous_strides(shape)
        if self.accept("{"):
            strides = tuple(self.listed(self.integer, "}"))
            if len(strides) != len(shape):
                raise self.error(f"{len(shape)} lengths but {len(strides)} strides")
        offset = self.integer() if self.accept("+") else 0
        minimal = Type.minimal_storage(dtype, shape, strides, offset)
        storage = self.integer() if self.accept("/") else minimal
        if storage < minimal:
            raise self.error(f"a storage of {storage} bytes cannot hold {minimal}")
        return Type(dtype, shape, strides, offset, storage)

    def argument(self) -> Arg:
        kind, text = ("end", "") if self.done else self.tokens[self.at]
        if kind == "ref":
            return Ref(self.name())
        if kind == "string":
            return self.string()
        if self.accept("["):
            return self.listed(self.argument, "]")
        self.at += 1
        if kind == "number":
            return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        if text in ("true", "false", "none"):
            return {"true": True, "false": False, "none": None}[text]
        if text in ("inf", "nan"):
            return float(text)
        if text == "device":
            self.expect("(")
            name = self.string()
            self.expect(")")
            return DeviceWord(name)
        if kind == "word" and text.startswith("torch."):
            return Symbol(text.removeprefix("torch."))
        raise self.error(f"{text or 'the end'!r} is not an argument")


def parse(text: str) -> Document:
    """Reads graph or plan text.

    Raises PlanError with the line of what is malformed, defined twice or not at all.
    """
    document = Document()
    lines = [_Line(line, number) for number, line in enumerate(text.splitlines(), 1)]
    lines = [line for line in lines if line.tokens]
    if not lines or [token for _, token in lines[0].tokens] != ["magis", "1"]:
        raise PlanError("line 1: expected 'magis 1'")
    defined: set[str] = set()
    for line in lines[1:]:
        if document.program is not None:
            document.program.append(_program_statement(line))
        elif line.accept("program"):
            document.program = []
        else:
            _declaration(line, document, defined)
        if not line.done:
            raise line.error(f"{line.peek()!r} is left over")
    return document


def _declaration(line: _Line, document: Document, defined: set[str]) -> None:
    def define(name: str) -> str:
        if name in defined:
            raise line.error(f"%{name} is defined twice")
        defined.add(name)
        return name

    def known(name: str) -> str:
        if name not in defined:
            raise line.error(f"%{name} is not defined")
        return name

    if line.tokens[0][0] == "ref":
        operation = _operation(line)
        for name in operation.reads():
            known(name)
        for name in operation.results:
            define(name)
        document.operations.append(operation)
        return
    word = line.take("word")
    if word == "device":
        document.device = line.take("word")
    elif word == "meta":
        document.meta[line.take("word")] = line.string()
    elif word == "site":
        line.expect("@")
        document.sites[line.integer()] = (line.string(), line.string())
    elif word in INPUT_KINDS:
        name, path = define(line.name()), line.string()
        type_ = line.type() if line.accept(":") else None
        if (type_ is None) != (word == "scalar"):
            raise line.error(f"a {word} has {'no' if word == 'scalar' else 'a'} type")
        document.inputs.append(Input(word, name, path, type_, line.number))
    elif word == "output":
        kind, path = line.take("word"), line.string()
        if kind not in OUTPUT_KINDS:
            raise line.error(f"{kind} is not a kind of output")
        document.outputs.append(Output(kind, path, known(line.name()), line.number))
    else:
        raise line.error(f"{word!r} begins no line")


def _operation(line: _Line) -> Operation:
    results = tuple(line.some(line.name))
    line.expect("=")
    operator = line.take("word")
    if operator.count(".") not in (1, 2):
        raise line.error(f"{operator} is not <namespace>.<operator>[.<overload>]")
    args: list[Arg] = []
    kwargs: dict[str, Arg] = {}
    line.expect("(")
    while not line.accept(")"):
        if line.done:
            raise line.error("the argument list does not end")
        following = line.tokens[line.at + 1][1] if line.at + 1 < len(line.tokens) else ""
        if line.tokens[line.at][0] == "word" and following == "=":
            keyword = line.take("word")
            line.expect("=")
            kwargs[keyword] = line.argument()
        else:
            args.append(line.argument())
        if line.peek() != ")":
            line.expect(",")
    line.expect(":")
    types = tuple(line.some(line.type))
    if len(types) != len(results):
        raise line.error(f"{len(results)} results but {len(types)} types")
    site = line.integer() if line.accept("@") else None
    backward = line.accept("backward")
    scratch = line.integer() if line.accept("scratch") else 0
    return Operation(operator, results, types, args, kwargs, line.number, site, backward, scratch)


def _program_statement(line: _Line) -> Run | Free:
    if line.accept("free"):
        return Free(tuple(line.some(line.copy)), line.number)
    line.expect("run")
    operation = line.name()
    copy = 0
    if line.accept("as"):
        line.expect(".")
        copy = line.integer()
    reading = tuple(line.some(line.copy)) if line.accept("reading") else ()
    over = line.copy() if line.accept("over") else None
    return Run(operation, line.number, copy, reading, over)
