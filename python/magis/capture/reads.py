"""Values that the step's Python code reads from tensors, and shapes that depend on data.

Where a value comes from decides what is done with it:

- literals and shapes alone: it is the same at every run, and is folded;
- the batch, buffers and frozen parameters: it is specialised on the example, and a guard computes
  it again before each call;
- trained parameters, activations or chance: a truth value is speculated on. The step computes it as
  one more output, and a call in which it comes out otherwise is abandoned before it has left
  anything. Numbers, lists and shapes are refused.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from magis import _torch_internals as internals
from magis._torch_internals import OpOverload
from magis.capture.ir import Site
from magis.capture.prefix import Computation, PrefixProgram, ancestors, is_computable, is_random

_aten = torch.ops.aten

# A step would notice longer programs; larger values are no examples to hold on to.
_MOST_NODES = 500
_MOST_ELEMENTS = 1 << 22
# Outcomes of random draws multiply: so many give 2^n plans.
MOST_DRAWS = 4


class Why(enum.Enum):
    """Why a value cannot be read."""

    no_data = enum.auto()  # weights or batch on the meta device
    activation = enum.auto()
    activation_shape = enum.auto()
    chance = enum.auto()
    too_large = enum.auto()


class UnreadableError(Exception):
    """The step needs a value that a plan cannot know; `explain` puts it into words."""

    def __init__(self, why: Why, function: str, node: torch.fx.Node | None = None) -> None:
        super().__init__(f"{why.name}: {function}")
        self.why = why
        self.function = function


class Measure(enum.Enum):
    """What of a tensor was read."""

    value = "value"
    count = "number of true elements"
    total = "sum"
    shape = "shape"

    def of(self, tensor: torch.Tensor) -> Any:
        match self:
            case Measure.value:
                return tensor.tolist()
            case Measure.count:
                return int(torch.count_nonzero(tensor))
            case Measure.total:
                return int(tensor.sum())
            case Measure.shape:
                return tuple(tensor.shape)


@dataclass(frozen=True)
class Read:
    """A value that a capture holds on to: where it is read, and what it was."""

    site: Site
    measure: Measure
    expected: Any
    inputs: tuple[tuple[str, str], ...]  # that it is made from, by kind and path


@dataclass(frozen=True)
class Check:
    """A truth value that a capture speculates on: an output of the graph."""

    site: Site
    expected: bool
    chance: bool  # a random draw decides; else an activation or a parameter
    path: str  # of the output, whose kind is "aux"


@dataclass(frozen=True)
class Guards:
    """What has to be computed from a call's inputs before a plan may be used.

    `program` takes the inputs, by kind and path, and gives one tensor for each read.
    """

    inputs: tuple[tuple[str, str], ...]
    reads: tuple[Read, ...]
    program: Callable[..., Any]


@dataclass
class _Origin:
    """What a value is made from."""

    nodes: list[torch.fx.Node]
    kinds: set[str] = field(default_factory=set)  # of inputs
    chance: bool = False
    computable: bool = True

    @property
    def drawn(self) -> bool:
        """Made from chance alone; an activation behind dropout is an activation."""
        return self.chance and not self.kinds

    @property
    def constant(self) -> bool:
        return not self.kinds and not self.chance

    @property
    def guarded(self) -> bool:
        return self.kinds <= {"buffer", "batch", "frozen"} and not self.chance


class Reader:
    """Answers the reads of one try at tracing.

    `inputs` are the graph's inputs in order, as (kind, path, real value); a trained parameter is of
    kind "param", one that is not trained of kind "frozen".
    """

    def __init__(
        self,
        inputs: Sequence[tuple[str, str, Any]],
        device: torch.device,
        generator: torch.Tensor,
    ) -> None:
        self._inputs = inputs
        self._device = device
        self._generator = generator
        self._by_name: dict[str, tuple[str, str, Any]] = {}
        self._computation: Computation | None = None
        self._program = PrefixProgram(device)
        self._guarded: dict[tuple[torch.fx.Node, Measure], Any] = {}
        self._outcomes: dict[torch.fx.Node, torch.Tensor] = {}  # that are speculated on
        self.reads: list[Read] = []
        self.checks: list[Check] = []
        self.speculated: list[torch.Tensor] = []  # one for each check
        self.folded: list[Site] = []

    # ---- what the code asks for

    def number(self, tensor: torch.Tensor, site: Site) -> Any:
        """The one element of a traced tensor. Raises UnreadableError."""
        data = self.value(tensor, site)
        with internals.without_modes():
            return data.item()

    def value(self, tensor: torch.Tensor, site: Site) -> torch.Tensor:
        """The data of a traced tensor, in full. Raises UnreadableError."""
        if not _is_traced(tensor):
            return tensor  # neither an input nor made from one
        node, origin = self._origin(tensor)
        self._check_size(node, origin)
        if origin.guarded:
            return self._guard(node, origin, Measure.value, site)
        if tensor.dtype is not torch.bool or tensor.numel() != 1:
            why = Why.chance if origin.drawn else Why.activation
            raise UnreadableError(why, "")
        return self._speculate(tensor, node, origin, site)

    def shapes(
        self, function: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], site: Site
    ) -> list[torch.Tensor]:
        """Real results, of the right shapes, of an operator whose shapes depend on data."""
        measure, positions = _SHAPED_BY.get(function, (Measure.shape, (0,)))
        deciding = [args[i] for i in positions if isinstance(args[i], torch.Tensor)]
        for tensor in filter(_is_traced, deciding):
            node, origin = self._origin(tensor)
            if not origin.guarded:
                raise UnreadableError(Why.activation_shape, str(function).removesuffix(".default"))
            if measure is not Measure.shape:
                self._guard(node, origin, measure, site)

        def real(arg: Any) -> Any:
            if isinstance(arg, (list, tuple)):
                return [real(item) for item in arg]
            if not isinstance(arg, torch.Tensor):
                return arg
            if not _is_traced(arg):
                return arg
            if any(arg is tensor for tensor in deciding):
                return self._data(*self._origin(arg))
            with internals.without_modes():
                return torch.zeros((), dtype=arg.dtype).expand(arg.shape)

        real_args = [real(arg) for arg in args]
        with internals.without_modes(), torch.no_grad():
            results = function(*real_args, **kwargs)
        return list(results) if isinstance(results, (tuple, list)) else [results]

    def guard_shape(self, tensor: torch.Tensor, site: Site) -> None:
        """The result of an operator whose shape depends on data keeps its shape."""
        node, origin = self._origin(tensor)
        if origin.guarded and _SHAPED_BY.get(node.target) is None:  # else its operands are guarded
            self._guard(node, origin, Measure.shape, site)

    def guards(self) -> Guards | None:
        if not self.reads:
            return None
        program = self._program.compile()
        inputs = tuple(map(self._place, self._program.inputs))
        return Guards(inputs, tuple(self.reads), program)

    def _place(self, placeholder: str) -> tuple[str, str]:
        kind, path, _ = self._by_name[placeholder]
        return "param" if kind == "frozen" else kind, path

    # ---- how it is answered

    def _origin(self, tensor: torch.Tensor) -> tuple[torch.fx.Node, _Origin]:
        node = internals.traced_node(tensor)
        if node is None:
            raise UnreadableError(Why.no_data, "")
        if not self._by_name:
            placeholders = [n for n in node.graph.nodes if n.op == "placeholder"]
            self._by_name = {
                n.name: known for n, known in zip(placeholders, self._inputs, strict=True)
            }
        origin = _Origin(ancestors(node, {}))
        for ancestor in origin.nodes:
            if ancestor.op == "placeholder":
                origin.kinds.add(self._by_name[ancestor.name][0])
            origin.chance = origin.chance or is_random(ancestor)
            origin.computable = origin.computable and is_computable(ancestor)
        if not origin.computable:
            raise UnreadableError(Why.no_data, "")
        return node, origin

    def _check_size(self, node: torch.fx.Node, origin: _Origin) -> None:
        value = node.meta.get("val")
        large = isinstance(value, torch.Tensor) and value.numel() > _MOST_ELEMENTS
        if large or (origin.guarded and len(origin.nodes) > _MOST_NODES):
            raise UnreadableError(Why.too_large, "")

    def _data(self, node: torch.fx.Node, origin: _Origin) -> Any:
        if self._computation is None:
            given = {name: value for name, (_, _, value) in self._by_name.items()}
            self._computation = Computation(given, self._device, self._generator)
        for ancestor in origin.nodes:
            if ancestor.op == "placeholder":
                value = self._by_name[ancestor.name][2]
                if value is None or (isinstance(value, torch.Tensor) and value.is_meta):
                    raise UnreadableError(Why.no_data, "")
        return self._computation.value(node)

    def _guard(
        self, node: torch.fx.Node, origin: _Origin, measure: Measure, site: Site
    ) -> torch.Tensor:
        key = node, measure
        if key not in self._guarded:
            data = self._guarded[key] = self._data(node, origin)
            if origin.constant:
                self.folded.append(site)
            else:
                self._program.add(node)
                with internals.without_modes():
                    expected = measure.of(data)
                sources = tuple(self._place(n.name) for n in origin.nodes if n.op == "placeholder")
                self.reads.append(Read(site, measure, expected, sources))
        result: torch.Tensor = self._guarded[key]
        return result

    def _speculate(
        self, tensor: torch.Tensor, node: torch.fx.Node, origin: _Origin, site: Site
    ) -> torch.Tensor:
        if node in self._outcomes:
            return self._outcomes[node]
        if origin.drawn and sum(check.chance for check in self.checks) >= MOST_DRAWS:
            raise UnreadableError(Why.chance, "")
        data: torch.Tensor = self._data(node, origin)
        # A copy: the step may write to the tensor later on.
        self.speculated.append(_aten.clone.default(tensor))
        self._outcomes[node] = data
        path = f"speculated[{len(self.checks)}]"
        with internals.without_modes():
            self.checks.append(Check(site, bool(data), origin.drawn, path))
        return data


def _is_traced(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, (internals.FunctionalTensor, internals.FakeTensor))


_INDEXING = (_aten.index.Tensor, _aten._unsafe_index.Tensor)
_MASKS = (torch.bool, torch.uint8)
# What decides on the shapes: how it is guarded, and which arguments. Without an entry: the first
# argument, guarded by the shape of the result.
_SHAPED_BY: Mapping[OpOverload, tuple[Measure, tuple[int, ...]]] = {
    _aten.masked_select.default: (Measure.count, (1,)),
    _aten.nonzero.default: (Measure.count, (0,)),
    _aten.repeat_interleave.Tensor: (Measure.total, (0,)),
    _aten._ctc_loss.Tensor: (Measure.value, (2, 3)),
}


def is_mask(index: torch.Tensor | None) -> bool:
    """Whether an index says which elements to take, rather than where they are."""
    return index is not None and index.dtype in _MASKS


def shaped_by_data(function: OpOverload, kwargs: Mapping[str, Any]) -> bool:
    """Whether the shape of the operator's result depends on what its operands hold.

    Of indexing that is so with masks alone, and these have become positions before.
    """
    if function in _INDEXING:
        return False
    if kwargs.get("output_size") is not None:
        return False
    return function in _SHAPED_BY or torch.Tag.dynamic_output_shape in function.tags


def same_value(expected: Any, found: Any) -> bool:
    """Equal, where a nan equals a nan."""
    if isinstance(expected, float) and isinstance(found, float):
        return expected == found or (math.isnan(expected) and math.isnan(found))
    if isinstance(expected, (list, tuple)) and isinstance(found, (list, tuple)):
        return len(expected) == len(found) and all(map(same_value, expected, found))
    return bool(expected == found)
