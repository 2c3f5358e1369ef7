"""Random valid plans of a graph, made without the core: any order, any recomputation, any in-place
run.

They show the verifier, the simulator, the code generator and the allocator plans that the optimizer
would not make.
"""

import random
from collections import defaultdict

from magis.verify.document import Copy, Document, Operation
from magis.verify.operators import effects, runs_over
from magis.verify.plan import written_tensors
from magis.verify.text import parse

Forms = dict[str, list[int]]  # operator -> positions of the arguments that it may run over


class _Planner:
    def __init__(self, document: Document, forms: Forms, seed: int, forget: float) -> None:
        self.document = document
        self.forms = forms
        self.random = random.Random(seed)
        self.forget = forget
        self.reads = {n: document.read_tensors(op) for n, op in document.operators.items()}
        self.producer = {r: n for n, op in document.operators.items() for r in op.results}
        self.written = {
            tensor for op in document.operators.values() for tensor in written_tensors(document, op)
        }
        self.inputs = {value.name for value in document.inputs}
        losses = [document.owner(o.name) for o in document.outputs if o.kind == "loss"]
        self.loss = self.producer.get(losses[0], "") if losses else ""
        self.outputs = {document.owner(output.name) for output in document.outputs}
        self.runs: list[tuple[str, int, list[Copy]]] = []  # operator, copy, operands
        self.count: dict[str, int] = defaultdict(int)
        self.held = {name: Copy(name) for name in self.inputs}

    def order(self) -> list[str]:
        """A random topological order of the operators."""
        before: dict[str, set[str]] = {name: set() for name in self.reads}
        readers: dict[str, list[str]] = defaultdict(list)
        writers: dict[str, str] = {}
        previous = None
        loss: set[str] = set()  # its operator, once it has come
        for name, operation in self.document.operators.items():
            for tensor in self.reads[name]:
                before[name] |= {p for p in (self.producer.get(tensor), writers.get(tensor)) if p}
                readers[tensor].append(name)
            if effects(operation).keeps_order:
                before[name] |= {previous} if previous else set()
                previous = name
            for tensor in written_tensors(self.document, operation):
                before[name] |= {reader for reader in readers[tensor] if reader != name}
                writers[tensor] = name
                if operation.backward and tensor in self.inputs:
                    before[name] |= loss  # updates wait for it
            if name == self.loss:
                loss = {name}
        done: list[str] = []
        waiting = list(before)
        while waiting:
            # Among the first few that are ready: far from program order, yet not all forwards
            # first.
            ready = [name for name in waiting[:40] if before[name] <= set(done)]
            done.append(self.random.choice(ready[:6]))
            waiting.remove(done[-1])
        return done

    def run(self, name: str) -> None:
        operands = []
        for tensor in self.reads[name]:
            if tensor not in self.held:
                self.run(self.producer[tensor])
            operands.append(self.held[tensor])
        copy = self.count[name]
        self.count[name] += 1
        self.runs.append((name, copy, operands))
        for result in self.document.operators[name].results:
            self.held.setdefault(result, Copy(result, copy))

    def forget_some(self) -> None:
        for tensor in list(self.held):
            if tensor in self.inputs or tensor in self.outputs:
                continue
            producer = self.producer[tensor]
            again = effects(self.document.operators[producer]).pure
            again = again and not self.written.intersection(self.reads[producer])
            if again and self.random.random() < self.forget:
                del self.held[tensor]

    def statements(self) -> list[str]:
        last: dict[Copy, int] = {}
        made: list[list[Copy]] = []
        for index, (name, number, operands) in enumerate(self.runs):
            operation = self.document.operators[name]
            results = [r for r in operation.results if self.document.types[r] is not None]
            made.append([Copy(result, number) for result in results])
            for copy in [*operands, *made[-1]]:
                last[copy] = index
        lines = []
        for index, (name, number, operands) in enumerate(self.runs):
            dying = [c for c in dict.fromkeys([*operands, *made[index]]) if last[c] == index]
            dying = [c for c in dying if c.tensor not in self.inputs]
            dying = [c for c in dying if c.tensor not in self.outputs or c.number != 0]
            over = self._over(self.document.operators[name], [c for c in dying if c in operands])
            line = f"run %{name}" + (f" as .{number}" if number else "")
            copies = [str(copy) for copy in operands if copy.number]
            line += f" reading {', '.join(copies)}" if copies else ""
            lines.append(line + (f" over {over}" if over else ""))
            dying = [copy for copy in dying if copy != over]
            if dying:
                lines.append(f"free {', '.join(map(str, dying))}")
        return lines

    def _over(self, operation: Operation, dying: list[Copy]) -> Copy | None:
        """One of the dying operands that PyTorch can overwrite; outputs' copies are left alone."""
        allowed = []
        for copy in dying:
            readers = [n for n in operation.reads() if self.document.owner(n) == copy.tensor]
            positions = [p for p, arg in enumerate(operation.args) if arg == (readers[0],)]
            swapped = bool(positions) and positions[0] != 0 and bool(operation.kwargs)
            if copy.tensor in self.outputs or swapped:
                continue
            in_table = set(positions) & set(self.forms.get(operation.operator, []))
            if in_table and not runs_over(self.document, operation, copy.tensor):
                allowed.append(copy)
        return self.random.choice(allowed) if allowed and self.random.random() < 0.8 else None


def random_plan(text: str, forms: Forms, seed: int, *, forget: float = 0.05) -> str:
    """Plan text: `text`'s graph and a random program of it.

    forms: what the code generator can run in place. forget: how likely each held tensor is dropped
    after an operator, to be recomputed when somebody asks for it.
    """
    planner = _Planner(parse(text), forms, seed, forget)
    for name in planner.order():
        if planner.count[name] == 0:
            planner.run(name)
            planner.forget_some()
    return "\n".join([text.rstrip(), "", "program", *planner.statements(), ""])
