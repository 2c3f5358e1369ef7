"""A small parser of graph and plan text for the verifiers, which share nothing with the core.

ARCHITECTURE.md describes the language. One line is one declaration or statement; a line is cut into
tokens and read by recursive descent. Errors are PlanError("line 12: ..."); the core's own parser
gives users the better messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeVar

from magis.errors import PlanError
from magis.verify.document import (
    INPUT_KINDS,
    ITEM_SIZES,
    OUTPUT_KINDS,
    Arg,
    Await,
    Copy,
    DeviceWord,
    Document,
    Free,
    Input,
    Load,
    Operation,
    Output,
    PartLength,
    Ref,
    Run,
    Statement,
    Store,
    Symbol,
    Type,
    contiguous_strides,
)
from magis.verify.loops import find_loops

T = TypeVar("T")

_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>\#.*)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<ref>%[A-Za-z_]\w*(?:\.\d+)?)
    | (?P<part>-?\d+(?:\*[A-Za-z_]\w*)+)
    | (?P<number>-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|inf\b|nan\b))
    | (?P<word>[A-Za-z_][\w.-]*)
    | (?P<mark>[()\[\]{}=:,+/@.]))""",
    re.VERBOSE | re.ASCII,
)


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
        try:
            return str(json.loads(self.take("string"), strict=False))
        except ValueError as error:
            raise self.error(f"a string that cannot be read: {error}") from None

    def name(self) -> str:
        name = self.take("ref")[1:]
        if "." in name:
            raise self.error(f"%{name} names a copy, which only a program may do")
        return name

    def copy(self) -> Copy:
        name, _, number = self.take("ref")[1:].partition(".")
        return Copy(name, int(number or 0))

    def copy_number(self) -> int:
        """`.1`, as in `run %a as .1`"""
        self.expect(".")
        number = self.integer()
        if number < 1:
            raise self.error("copies are numbered from 1")
        return number

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
        if kind == "part":
            coefficient, *loops = text.split("*")
            return PartLength(int(coefficient), tuple(loops))
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

    Raises PlanError with the line of what is malformed, defined twice or not at all, or stands on
    the wrong side of a loop's begin or end.
    """
    document = Document()
    lines = [_Line(line, number) for number, line in enumerate(text.split("\n"), 1)]
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
    find_loops(document)
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
        key = line.take("word")
        document.meta[key] = line.string()
    elif word == "site":
        line.expect("@")
        number = line.integer()
        document.sites[number] = (line.string(), line.string())
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
        following = line.tokens[line.at + 1][1] if line.at + 1 < len(line.tokens) else ""
        if following == "=":
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


def _program_statement(line: _Line) -> Statement:
    if line.accept("free"):
        return Free(tuple(line.some(line.copy)), line.number)
    if line.accept("await"):
        return Await(tuple(line.some(line.copy)), line.number)
    if line.accept("store"):
        return Store(line.copy(), line.number)
    if line.accept("load"):
        tensor = line.name()
        line.expect("as")
        return Load(Copy(tensor, line.copy_number()), line.number)
    line.expect("run")
    operation = line.name()
    copy = line.copy_number() if line.accept("as") else 0
    reading = tuple(line.some(line.copy)) if line.accept("reading") else ()
    over = line.copy() if line.accept("over") else None
    return Run(operation, line.number, copy, reading, over)
