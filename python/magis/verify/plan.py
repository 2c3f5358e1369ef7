"""The plan verifier: walks a program's statements and holds each to the graph.

Everything is worked out anew from the text and PyTorch's own schemas: what an operator may do, who
reads what and when for the last time, how many bytes are live. Nothing is taken from the simulator,
the lowering or code generation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from magis.errors import PlanError
from magis.verify.document import (
    Await,
    Copy,
    Document,
    Free,
    Load,
    Operation,
    Ref,
    Run,
    Statement,
    Store,
)
from magis.verify.operators import Effects, check_bodies, effects, runs_over, workspace
from magis.verify.plan_host import Transfers
from magis.verify.plan_loops import OpenBodies
from magis.verify.text import parse

_GRANULARITIES = {"cpu": 1, "reference": 1, "reference-h2": 1}  # of an allocation; GPUs: 512 bytes


@dataclass(frozen=True)
class PlanFacts:
    """What the verifier found out by itself."""

    transient_peak_bytes: int  # most that is live beside the inputs, scratch included
    persistent_bytes: int  # the inputs
    # Most that is on the host, each tensor in multiples of 64 bytes; a pool in which every one has
    # a place of its own may be larger.
    host_peak_bytes: int
    statements: int
    recomputed: list[
        str
    ]  # first results of operators that run more than once, in order of the graph
    peak_statement: str  # where the peak is reached first, with its line

    @property
    def peak_bytes(self) -> int:
        return self.persistent_bytes + self.transient_peak_bytes


def verify_plan(text: str, *, device: str = "cpu") -> PlanFacts:
    """Checks that the plan's program is a valid execution of its graph, and counts its bytes.

    device: the profile that the promise was made for; it decides how allocations are rounded.

    Raises PlanError naming the statement if an operator does not run, or runs more often than it
    may; what is read is not live, or an input was written to that should not have been yet; random
    operators leave their order; an operand is overwritten that is read later, has another layout,
    or is an input or an output; something is freed before its last use, later than right after it,
    or never; an output is not there at the end; a loop's body is not run as a whole between begin
    and end, leaves something behind, or takes away or makes anew what was made outside; something
    is moved to the host that has to stay, or twice, is loaded that was not stored, or is used or
    gone before it has arrived.

    Bytes are those of a program without loops: begin allocates the results, an iteration is as
    large as a full part, and a magis.part is a view. A load takes its bytes from there on.
    """
    document = parse(text)
    if document.program is None:
        raise PlanError("the text has no program")
    return _Walk(document, document.program, _GRANULARITIES.get(device, 512)).walk()


def graph_versions(document: Document) -> dict[str, dict[str, int]]:
    """How often each tensor that an operator reads has been written to before it, in the graph's
    order."""
    written: Counter[str] = Counter()
    versions = {}
    for name, operation in document.operators.items():
        versions[name] = {tensor: written[tensor] for tensor in document.read_tensors(operation)}
        written.update(written_tensors(document, operation))
    return versions


def written_tensors(document: Document, operation: Operation) -> list[str]:
    """Owners of the arguments that the operator writes to."""
    positions = effects(operation).writes
    arguments = [operation.args[p] for p in positions if p < len(operation.args)]
    opened = [item for a in arguments for item in (a if isinstance(a, list) else [a])]
    return [document.owner(a.name) for a in opened if isinstance(a, Ref)]


@dataclass
class _Walk:
    document: Document
    program: list[Statement]
    granularity: int
    live: dict[Copy, int] = field(default_factory=dict)  # how often each was written to
    dead: dict[Copy, str] = field(default_factory=dict)  # the statement that ended it
    runs: dict[str, list[Run]] = field(default_factory=dict)  # by operator
    # How often each stored tensor had been written to.
    written_on_host: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    peak: int = 0
    peak_at: str = "nothing runs"

    def walk(self) -> PlanFacts:
        self.inputs = {value.name for value in self.document.inputs}
        self.outputs = {self.document.owner(output.name) for output in self.document.outputs}
        self.effects = {name: effects(op) for name, op in self.document.operators.items()}
        self.in_order = [n for n, found in self.effects.items() if found.keeps_order]
        self.versions = graph_versions(self.document)
        self.last_use = self._last_uses()
        self.live = {Copy(name): 0 for name in self.inputs}
        self.bodies = OpenBodies(self.document)
        self.transfers = Transfers(self.document, self.program)
        check_bodies(self.document)
        previous_use = -1
        for index, statement in enumerate(self.program):
            if isinstance(statement, Free):
                self._free(statement, previous_use)
                continue
            if isinstance(statement, Run):
                self._run(statement, index)
            else:
                self._move(statement)
            previous_use = index
        self._finish()
        return PlanFacts(
            transient_peak_bytes=self.peak,
            persistent_bytes=sum(self._allocated(name) for name in self.inputs),
            host_peak_bytes=self.transfers.peak,
            statements=len(self.program),
            recomputed=[name for name in self.document.operators if len(self.runs[name]) > 1],
            peak_statement=self.peak_at,
        )

    def _last_uses(self) -> dict[Copy, int]:
        """Index of the last statement that reads, makes or moves each copy."""
        last: dict[Copy, int] = {}
        for index, statement in enumerate(self.program):
            used: Iterable[Copy] = _moved(statement)
            if isinstance(statement, Run):
                used = [*self._operands(statement), *self._results(statement)]
            last.update(dict.fromkeys(used, index))
        return last

    def _operation(self, run: Run) -> Operation:
        operation = self.document.operators.get(run.operation)
        if operation is None:
            raise self._error(run, f"%{run.operation} is not the first result of an operator")
        return operation

    def _operands(self, run: Run) -> list[Copy]:
        """The copies it reads, one per tensor."""
        copies = {copy.tensor: copy for copy in run.reading}
        read = self.document.read_tensors(self._operation(run))
        for tensor in copies:
            if tensor not in read or len(copies) != len(run.reading):
                raise self._error(
                    run, f"names %{tensor}, which it does not read, or names it twice"
                )
        return [copies.get(tensor, Copy(tensor)) for tensor in read]

    def _results(self, run: Run) -> list[Copy]:
        operation = self._operation(run)
        defined = [
            n for n, t in zip(operation.results, operation.types, strict=True) if t is not None
        ]
        return [Copy(name, run.copy) for name in defined]

    def _allocated(self, tensor: str) -> int:
        recorded = self.document.types[tensor]
        return 0 if recorded is None else self._rounded(recorded.storage)

    def _rounded(self, size: int) -> int:
        return -(-size // self.granularity) * self.granularity

    def _run(self, run: Run, index: int) -> None:
        operation = self._operation(run)
        self.bodies.run(run, operation, self._operands(run), self._results(run))
        self._check_may_run(run, self.effects[run.operation])
        for copy in self._operands(run):
            self._check_read(run, copy)
        made = self._results(run)
        added = sum(self._allocated(copy.tensor) for copy in made)
        if run.over is not None:
            self._check_over(run, operation, index)
            self.bodies.end(run, run.over)
            self._end(run.over, f"{run} (line {run.line})")
        self.bytes += added  # `over` has taken off what the first result takes over
        self._reach(self.bytes + self._rounded(workspace(operation, self.document)), run)
        for copy in made:
            self.live[copy] = 0
        for tensor in written_tensors(self.document, operation):
            written = next(c for c in self._operands(run) if c.tensor == tensor)
            self.transfers.check_change(run, written)
            self.live[written] += 1
        self.runs.setdefault(run.operation, []).append(run)

    def _reach(self, moment: int, statement: Run | Load) -> None:
        if moment > self.peak:
            self.peak, self.peak_at = moment, f"{statement} (line {statement.line})"

    def _move(self, statement: Store | Load | Await) -> None:
        for copy in _moved(statement):
            self.bodies.move(statement, copy)
            if not isinstance(statement, Load):
                self._check_is_live(statement, copy)
        if isinstance(statement, Store):
            self.transfers.store(statement)
            self.written_on_host[statement.copy.tensor] = self.live[statement.copy]
        elif isinstance(statement, Load):
            tensor = statement.copy.tensor
            runs = self.runs.get(self.document.maker.get(tensor, ""), [])
            self.transfers.load(statement, [run.copy for run in runs])
            self.live[statement.copy] = self.written_on_host[tensor]
            self.bytes += self._allocated(tensor)
            self._reach(self.bytes, statement)
        else:
            self.transfers.arrive(statement)

    def _check_may_run(self, run: Run, found: Effects) -> None:
        self.transfers.check_run(run)
        earlier = self.runs.get(run.operation, [])
        if any(other.copy == run.copy for other in earlier):
            raise self._error(run, f"makes {Copy(run.operation, run.copy)} a second time")
        if not found.pure and (earlier or run.copy != 0):
            raise self._error(run, f"runs again, but it {found.reason}")
        if found.keeps_order:
            started = sum(name in self.runs for name in self.in_order)
            if self.in_order[started] != run.operation:
                raise self._error(
                    run, f"runs before %{self.in_order[started]}, and both draw numbers"
                )

    def _check_read(self, run: Run, copy: Copy) -> None:
        if copy not in self.live:
            ended = self.dead.get(copy)
            why = f"which was gone after {ended}" if ended else "which is not made yet"
            raise self._error(run, f"reads {copy}, {why}")
        self.transfers.check_read(run, copy)
        written, expected = self.live[copy], self.versions[run.operation][copy.tensor]
        if written != expected:
            when = "after it was written to" if written > expected else "before it is written to"
            raise self._error(run, f"reads {copy} {when}")

    def _check_over(self, run: Run, operation: Operation, index: int) -> None:
        over = run.over
        assert over is not None
        if over not in self._operands(run):
            raise self._error(run, f"does not read {over}")
        self._check_may_end(run, over)
        if self.last_use[over] > index:
            raise self._error(run, f"{over} is still read by {self._reader(over)}")
        found = self.effects[run.operation]
        if not (found.pure or found.averages):
            raise self._error(run, f"it {found.reason}")
        refused = runs_over(self.document, operation, over.tensor)
        if refused:
            raise self._error(run, refused)

    def _check_is_live(self, statement: Statement, copy: Copy) -> None:
        if copy not in self.live:
            ended = self.dead.get(copy)
            why = f"it was gone after {ended}" if ended else "it is not made"
            raise self._error(statement, f"{copy} is not live, {why}")

    def _free(self, free: Free, previous_use: int) -> None:
        for copy in free.copies:
            self._check_is_live(free, copy)
            self._check_may_end(free, copy)
            self.bodies.end(free, copy)
            if self.last_use[copy] > previous_use:
                raise self._error(free, f"{copy} is still read by {self._reader(copy)}")
            if self.last_use[copy] < previous_use:
                raise self._error(
                    free, f"{copy} is held too long, {self._reader(copy)} is the last use"
                )
            self._end(copy, f"{free} (line {free.line})")

    def _check_may_end(self, statement: Run | Free, copy: Copy) -> None:
        if copy.tensor in self.inputs:
            raise self._error(statement, f"{copy} is an input")
        if copy.tensor in self.outputs and copy.number == 0:
            raise self._error(statement, f"{copy} is an output")
        self.transfers.check_change(statement, copy)

    def _end(self, copy: Copy, statement: str) -> None:
        del self.live[copy]
        self.dead[copy] = statement
        self.bytes -= self._allocated(copy.tensor)

    def _finish(self) -> None:
        self.bodies.finish()
        for name, operation in self.document.operators.items():
            if all(run.copy != 0 for run in self.runs.get(name, [])):
                raise PlanError(f"line {operation.line}: the program never runs %{name}")
        for output in self.document.outputs:
            if Copy(self.document.owner(output.name)) not in self.live:
                raise PlanError(
                    f"line {output.line}: output %{output.name} is not there at the end"
                )
        self._check_outputs_are_apart()
        kept = {Copy(name) for name in self.inputs | self.outputs}
        for copy in self.live:
            if copy not in kept:
                raise PlanError(f"{copy} is never freed, {self._reader(copy)} is its last use")

    def _check_outputs_are_apart(self) -> None:
        """What becomes part of the model or its gradients has storage of its own."""
        owners = Counter(self.document.owner(output.name) for output in self.document.outputs)
        for output in self.document.outputs:
            owner = self.document.owner(output.name)
            if output.kind in ("loss", "aux"):
                continue
            if owners[owner] > 1:
                message = f"{output.kind} {output.path!r} shares storage with another output"
                raise PlanError(f"line {output.line}: {message}")
            if owner in self.inputs and self.live[Copy(owner)] == 0:
                message = f"{output.kind} {output.path!r} is the input %{owner} as it was"
                raise PlanError(f"line {output.line}: {message}")

    def _reader(self, copy: Copy) -> str:
        statement = self.program[self.last_use[copy]]
        return f"{statement} (line {statement.line})"

    def _error(self, statement: Statement, message: str) -> PlanError:
        return PlanError(f"line {statement.line}: {statement}: {message}")


def _moved(statement: Statement) -> tuple[Copy, ...]:
    """Copies that a statement moves to the host or from it, or waits for."""
    if isinstance(statement, Store | Load):
        return (statement.copy,)
    return statement.copies if isinstance(statement, Await) else ()
