"""A plan as a Python function, with its inputs and outputs by kind and path."""

from __future__ import annotations

import base64
import contextlib
import linecache
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

import magis.capture.operators  # noqa: F401  plans may use these
from magis.capture.text import DTYPE_WORDS
from magis.errors import PlanError
from magis.functional_forms import find_functional_form
from magis.runtime.final_gradients import TELL, telling_code
from magis.runtime.host_pool import HostPool
from magis.timing.in_step import MARK, PART, Marks, marked_code

if TYPE_CHECKING:
    from magis import _core

DTYPES = {word: dtype for dtype, word in DTYPE_WORDS.items()}

Step = Callable[..., Sequence[torch.Tensor]]
TellFinal = Callable[[str, torch.Tensor], None]


class CompiledPlan:
    """The function that a plan's source defines, ready to be called.

    The source is registered with `linecache`, so a traceback through a step shows its lines; its
    file name is "<magis plan 1a2b3c4d>".

    A plan that stores tensors on the host keeps them in `host`, by default a pool of its own, which
    is made large enough now: HostMemoryError if that cannot be.

    tells_gradients: the code tells of each gradient of a parameter as soon as it is final.
    """

    def __init__(
        self,
        plan: _core.Plan,
        device: torch.device,
        heading: str = "",
        host: HostPool | None = None,
        *,
        tells_gradients: bool = False,
    ) -> None:
        self.plan = plan
        self.source = plan.source(heading)
        self.lines = plan.source_lines(heading)  # at which the program's statements begin
        graph = plan.graph
        self.gradient_order: list[str] = []  # in which the code tells of them
        self._hear: TellFinal | None = None
        if tells_gradients:
            telling = telling_code(self.source, self.lines, graph)
            self.source, self.lines = telling.source, telling.lines
            self.gradient_order = telling.order
        self.inputs = graph.inputs
        self.outputs = graph.outputs
        self.file_name = f"<magis plan {graph.fingerprint()[:8]}-{id(self):x}>"
        self.host_bytes = plan.host_bytes
        self._host = host or HostPool(device)
        self._device = device
        self._names: dict[str, Any] = {TELL: self._tell}
        # All are looked up, so that the code below finds them.
        self.draws_random_numbers = sum(map(is_random, graph.operator_counts())) > 0
        if device.type != "meta":  # there is nothing to run, and perhaps no device to copy from
            self._define()
            if self.host_bytes:
                self._host.at_least(self.host_bytes)
        self.constants = [
            load_constant(entry, device) for entry in self.inputs if entry.kind == "const"
        ]

    def _define(self) -> None:
        lines = self.source.splitlines(keepends=True)
        linecache.cache[self.file_name] = (len(self.source), None, lines, self.file_name)
        weakref.finalize(self, linecache.cache.pop, self.file_name, None)
        self._names["__name__"] = f"magis_plan_{id(self):x}"
        with self._on_device():
            exec(compile(self.source, self.file_name, "exec"), self._names)

    def __call__(self, inputs: Sequence[Any]) -> Sequence[torch.Tensor]:
        """Runs the step under the caller's modes; the result has one tensor per output."""
        host = [self._host.at_least(self.host_bytes)] if self.host_bytes else []
        with self._on_device():
            return self.step(inputs, *host)

    @property
    def step(self) -> Step:
        """The function itself: `step(inputs)`, or `step(inputs, host)` if the plan swaps."""
        step: Step = self._names["step"]
        return step

    @contextlib.contextmanager
    def telling(self, hear: TellFinal) -> Iterator[None]:
        """Inside, a step calls `hear(path, gradient)` as soon as a gradient is final."""
        self._hear = hear
        try:
            yield
        finally:
            self._hear = None

    def _tell(self, path: str, gradient: torch.Tensor) -> None:
        if self._hear is not None:
            self._hear(path, gradient)

    @contextlib.contextmanager
    def instrumented(self, marks: Marks) -> Iterator[None]:
        """Inside, steps tell `marks` of every statement of the plan's program once it is done."""
        names = {**self._names, MARK: marks.mark, PART: marks.part}
        count = len(self.plan.statements)
        exec(marked_code(self.source, self.lines, self.plan.statements, self.file_name), names)
        plain: Step = self._names["step"]
        timed: Step = names["step"]

        def step(*args: Any) -> Sequence[torch.Tensor]:
            marks.start(count)
            return timed(*args)

        self._names["step"] = step
        try:
            yield
        finally:
            self._names["step"] = plain

    def _on_device(self) -> contextlib.AbstractContextManager[object]:
        """The code says "cuda": that is this device, whichever is current elsewhere."""
        on_cuda = self._device.type == "cuda"
        return torch.cuda.device(self._device) if on_cuda else contextlib.nullcontext()

    def settle(self) -> None:
        """After a step that was broken off: waits for its copies to and from the host. Until then
        they write to memory that the step's tensors are about to give back.
        """
        for name in ("to_host", "from_host"):
            if name in self._names:
                with contextlib.suppress(RuntimeError):  # the device has failed: nothing runs there
                    self._names[name].synchronize()


def load_constant(entry: _core.Input, device: torch.device) -> torch.Tensor:
    """The tensor that a `const` input's path spells: base64 of its contiguous bytes."""
    dtype = DTYPES[entry.dtype]
    try:
        data = bytearray(base64.b64decode(entry.path, validate=True))
    except ValueError as error:
        raise PlanError(f"constant %{entry.name}: {error}") from None
    count = 1
    for length in entry.shape:
        count *= length
    if len(data) != count * dtype.itemsize:
        raise PlanError(
            f"constant %{entry.name}: {len(data)} bytes, but its type needs "
            f"{count * dtype.itemsize}"
        )
    tensor = torch.empty_strided(entry.shape, entry.strides, dtype=dtype, device=device)
    if count:
        tensor.copy_(torch.frombuffer(data, dtype=dtype).reshape(entry.shape))
    return tensor


def operator_named(name: str) -> Any:
    """The overload that the text calls `aten.mm` or `aten.add.Tensor`."""
    namespace, operator, *rest = name.split(".")
    overload = rest[0] if rest else "default"
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if packet is None or overload not in packet.overloads():
        form = find_functional_form(namespace, operator, overload)
        if form is not None:
            return form
        raise PlanError(
            f"there is no operator {name} in this process; import the module that registers it"
        )
    return getattr(packet, overload)


def is_random(name: str) -> bool:
    """Whether the operator draws from the generator."""
    if name.startswith("magis."):  # the language's own; PyTorch does not have them all
        return name == "magis.bernoulli"
    tags = operator_named(name).tags
    return torch.Tag.nondeterministic_seeded in tags
