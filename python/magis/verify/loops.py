"""The loops of a graph (ARCHITECTURE.md, "Fission"): found from their begins and ends, and held to
what a loop may read, write and let out."""

from __future__ import annotations

import re
from dataclasses import replace

from magis.errors import PlanError
from magis.verify.document import Arg, Document, Loop, Operation, PartLength, Ref, Type

BEGIN, END, PART = "magis.begin", "magis.end", "magis.part"

# Operators that write an iteration's part into a result of their loop, by the number of parts that
# they read.
WRITE_PART = "magis.write_part"
ADD_PARTS = "magis.add_parts"  # several sums at once
WRITERS = {
    WRITE_PART: 1,
    "magis.add_part": 1,
    ADD_PARTS: 1,
    "magis.max_part": 1,
    "magis.min_part": 1,
    "magis.mul_part": 1,
    "magis.any_part": 1,
    "magis.all_part": 1,
    "magis.keep_part": 1,
    "magis.add_mm_part": 2,
    "magis.add_bmm_part": 2,
}
LOOP_OPERATORS = {BEGIN, END, PART, *WRITERS}


def find_loops(document: Document) -> None:
    """Fills in the document's loops. Raises PlanError with the line if begins and ends do not nest,
    a part length has no meaning where it stands, or a value crosses a loop's border other than
    through the results of its begin."""
    _Nesting(document).find()
    if document.loops:
        _Borders(document).check()


def sliced_dimension(operation: Operation) -> tuple[int, PartLength]:
    """Of magis.part and magis.write_part: the dimension and the length of the slice in it."""
    match operation.args[1:3]:
        case [int(dimension), PartLength() as length]:
            return dimension, length
    raise _error(operation, "takes a dimension and a part length after the tensor")


def single_writes(operation: Operation) -> list[Operation]:
    """A writer, as one operation for each result of the loop that it writes to.

    Raises PlanError if magis.add_parts does not give a part for each of its sums.
    """
    if operation.operator != ADD_PARTS:
        return [operation]
    match operation.args:
        case [list(sums), list(parts)] if sums and len(sums) == len(parts):
            pairs = zip(sums, parts, strict=True)
        case _:
            raise _error(operation, "takes a list of sums and a list of as many parts")
    return [replace(operation, operator="magis.add_part", args=[*pair]) for pair in pairs]


def _error(operation: Operation, message: str) -> PlanError:
    return PlanError(f"line {operation.line}: {operation.operator}: {message}")


class _Nesting:
    """Reads begins and ends as brackets."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.open: Loop | None = None

    def find(self) -> None:
        for operation in self.document.operations:
            if operation.operator == END:
                self._end(operation)
            self.document.loop_of[operation.results[0]] = self.open
            self._check_lengths(operation)
            if operation.operator == BEGIN:
                self._begin(operation)
        if self.open is not None:
            raise _error(self.open.begin, f"{self.open.name} has no end")

    def _begin(self, operation: Operation) -> None:
        match operation.args:
            case [str(name), int(part), int() | PartLength() as length, list(reads), *rest]:
                self._check_shapes(operation, rest)
            case _:
                raise _error(operation, "takes a name, a part, a length and a list of tensors")
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or operation.kwargs:
            raise _error(operation, f"{name!r} is not a name, or a keyword is given")
        if name in self.document.loops:
            first = self.document.loops[name].begin.line
            raise _error(operation, f"there is already a loop {name}, in line {first}")
        full = self.document.full(length)
        if not 1 <= part <= full:
            raise _error(operation, f"a part of {name} is {part}, not within 1 and {full}")
        if not all(isinstance(read, Ref) for read in reads):
            raise _error(operation, "takes a name, a part, a length and a list of tensors")
        self.open = Loop(name, operation, part, length, self.open)
        self.document.loops[name] = self.open
        if not self.open.results:
            raise _error(operation, f"{name} has no result")

    def _check_shapes(self, operation: Operation, rest: list[Arg]) -> None:
        """Of the results, where some follow the part of an outer loop."""
        if not rest:
            return
        match rest:
            case [list(shapes)] if len(shapes) == len(operation.types):
                pairs = zip(shapes, operation.types, strict=True)
            case _:
                raise _error(operation, "gives a shape for each result, or none at all")
        for shape, type_ in pairs:
            lengths = shape if isinstance(shape, list) else []
            full = [self.document.full(n) for n in lengths if isinstance(n, int | PartLength)]
            if type_ is None or tuple(full) != type_.shape or len(full) != len(lengths):
                raise _error(operation, "gives shapes that are not those of its results")

    def _end(self, operation: Operation) -> None:
        match operation.args:
            case [str(name), list(), list()]:
                pass
            case _:
                raise _error(operation, "takes a name, a list of results and a list of tensors")
        loop = self.open
        if loop is None or loop.name != name:
            inside = f"{loop.name} is the innermost one" if loop else "none is"
            raise _error(operation, f"the loop {name} is not open here, {inside}")
        loop.end = operation
        self.open = loop.parent

    def _check_lengths(self, operation: Operation) -> None:
        around = self.open.around() if self.open else []
        for leaf in operation.leaves():
            if not isinstance(leaf, PartLength):
                continue
            for name in leaf.loops:
                if name not in self.document.loops:
                    raise _error(operation, f"{leaf} names no loop before it: {name}")
                if name not in around:
                    raise _error(operation, f"{leaf} stands outside the loop {name}")
            if [name for name in around if name in leaf.loops] != list(leaf.loops):
                raise _error(operation, f"{leaf} names its loops twice or inner before outer")
            if leaf.coefficient < 1:
                raise _error(operation, f"{leaf} is no length")


class _Borders:
    """What goes in and out of each loop."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.made_by = {name: op for op in document.operations for name in op.results}
        self.loop_of_result = {
            name: loop for loop in document.loops.values() for name in loop.results
        }

    def check(self) -> None:
        for operation in self.document.operations:
            self._check_reads(operation)
            if operation.operator == PART:
                base = self.document.types[operation.reads()[0]] if operation.reads() else None
                self._check_slice(operation, base, operation.types[0])
            elif operation.operator in WRITERS:
                for write in single_writes(operation):
                    self._check_writer(write)
        for loop in self.document.loops.values():
            self._check_written(loop)
            self._check_lists(loop)
        for output in self.document.outputs:
            around = self._needs(output.name)
            if around:
                message = f"output %{output.name} is made inside the loop {around[-1]}"
                raise PlanError(f"line {output.line}: {message}")

    def _needs(self, value: str) -> list[str]:
        """Loops inside which alone the value has a meaning; outer before inner."""
        around: list[str] = []
        while (operation := self.made_by.get(value)) is not None:
            if not operation.is_view:
                return max(around, self.document.loops_around(operation.results[0]), key=len)
            for leaf in operation.leaves():
                if isinstance(leaf, PartLength):
                    around = max(around, self.document.loops[leaf.loops[-1]].around(), key=len)
            value = operation.reads()[0]
        return around

    def _check_reads(self, operation: Operation) -> None:
        around = self.document.loops_around(operation.results[0])
        for value in operation.reads():
            needed = self._needs(value)
            if around[: len(needed)] != needed:
                raise _error(operation, f"reads %{value} outside the loop {needed[-1]}")
        if operation.is_view:  # who reads through it is looked at instead
            return
        arguments = operation.args[1:] if operation.operator in WRITERS else operation.args
        parts = Operation("", (), (), list(arguments), operation.kwargs, operation.line)
        for owner in map(self.document.owner, parts.reads()):
            loop = self.loop_of_result.get(owner)
            if loop is not None and loop.name in around:
                raise _error(
                    operation, f"reads %{owner} inside the loop {loop.name}, whose result it is"
                )

    def _check_writer(self, operation: Operation) -> None:
        loop = self.document.loop_of[operation.results[0]]
        target = operation.args[0] if operation.args else None
        if loop is None:
            raise _error(operation, "stands in no loop")
        if not isinstance(target, Ref) or target.name not in loop.results:
            written = f"%{target.name}" if isinstance(target, Ref) else "its first argument"
            raise _error(operation, f"{written} is no result of the begin of {loop.name}")
        if target.name in loop.writers:
            first = loop.writers[target.name].line
            raise _error(operation, f"%{target.name} is written in line {first} already")
        loop.writers[target.name] = operation
        parts = operation.args[3:] if operation.operator == WRITE_PART else operation.args[1:]
        if len(parts) != WRITERS[operation.operator] or operation.types != (None,):
            raise _error(operation, "has other operands or results than it should")
        types = [self.document.types[part.name] for part in parts if isinstance(part, Ref)]
        if None in types or len(types) != len(parts):
            raise _error(operation, "writes what is no tensor")
        if operation.operator == WRITE_PART:
            _, length = sliced_dimension(operation)
            if length.loops[-1] != loop.name:
                raise _error(operation, f"{length} is no part of {loop.name}, in which it stands")
            self._check_slice(operation, self.document.types[target.name], types[0])
        elif len(parts) == 1:
            result = self.document.types[target.name]
            if result is None or types[0] is None or types[0].shape != result.shape:
                raise _error(operation, f"writes {types[0]} to %{target.name}, which is {result}")

    def _check_slice(self, operation: Operation, whole: Type | None, part: Type | None) -> None:
        """`part` is a slice of `whole`, and the loop's iterations walk all of it."""
        dimension, length = sliced_dimension(operation)
        if whole is None or part is None or not 0 <= dimension < len(whole.shape):
            raise _error(operation, f"there is no dimension {dimension} in {whole}")
        loop = self.document.loops[length.loops[-1]]
        walked = self.document.full(length) // loop.part * self.document.full(loop.length)
        if walked != whole.shape[dimension]:
            message = f"{length} walks {walked} of {whole.shape[dimension]} in dimension"
            raise _error(operation, f"{message} {dimension} of {whole}")
        shape = list(whole.shape)
        shape[dimension] = self.document.full(length)
        if part.shape != tuple(shape) or part.dtype != whole.dtype:
            raise _error(
                operation, f"{part} is no slice {length} in dimension {dimension} of {whole}"
            )

    def _check_written(self, loop: Loop) -> None:
        for name in loop.results:
            if name not in loop.writers:
                raise _error(loop.begin, f"nothing in {loop.name} writes its result %{name}")

    def _check_lists(self, loop: Loop) -> None:
        """begin and end list what is read inside, and end lists the results."""
        needed = self._read_inside(loop)
        results, ends_reads = loop.end.args[1:3]
        if results != [Ref(name) for name in loop.results]:
            wanted = ", ".join(f"%{name}" for name in loop.results)
            raise _error(loop.end, f"the results of {loop.name} are [{wanted}]")
        for operation, listed in ((loop.begin, loop.begin.args[3]), (loop.end, ends_reads)):
            assert isinstance(listed, list)
            owners = [self.document.owner(ref.name) for ref in listed if isinstance(ref, Ref)]
            for tensor, reader in needed.items():
                if tensor not in owners:
                    message = f"does not list %{tensor}, which line {reader.line} reads inside"
                    raise _error(operation, f"{message} {loop.name}")
            for tensor in owners:
                if tensor not in needed:
                    raise _error(
                        operation,
                        f"lists %{tensor}, which is an input or not read inside {loop.name}",
                    )

    def _read_inside(self, loop: Loop) -> dict[str, Operation]:
        """Tensors made outside, inputs apart, that the body reads, with the first that does."""
        inputs = {value.name for value in self.document.inputs}
        found: dict[str, Operation] = {}
        for name, operation in self.document.operators.items():
            if loop.name not in self.document.loops_around(name):
                continue
            for tensor in self.document.read_tensors(operation):
                if tensor in inputs or tensor in loop.results:
                    continue
                if loop.name not in self.document.loops_around(self.made_by[tensor].results[0]):
                    found.setdefault(tensor, operation)
        return found
