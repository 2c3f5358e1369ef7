"""Where the memory of a graph or a plan goes: its peak, and what is live there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from magis.report.lifetimes import last_readers, output_tensors
from magis.report.loops import GraphLoops, SplitLoop, read_loops
from magis.report.module_tree import TreeRow, module_tree
from magis.report.modules import grouping, without_layer_number
from magis.report.reserved import Reserved, reserved_memory
from magis.report.text import bytes_text

if TYPE_CHECKING:
    from magis import _core

MOST_ROWS = 15
# Modules are told apart a little more finely than that: what is small is summed up in the last row.
_MOST_MODULES = 20
_MOST_REGIONS = 5

# Kinds of what is live at the peak, in words.
GRADIENT = "parameter gradients"
OUTPUT = "other outputs"
SAVED = "forward activations saved for backward"
RECOMPUTED = "recomputed activations"
BACK = "activations back from the host"
FORWARD = "forward temporaries"
BACKWARD = "backward temporaries"
CONCATENATED = "concatenated results of split regions"
ACCUMULATED = "accumulators of split regions"
WORKSPACE = "workspace of the running operator"

ROUNDING = "rounding by the allocator"

PERSISTENT_KINDS = {
    "param": "parameters",
    "buffer": "buffers",
    "batch": "batch",
    "const": "constants",
    "state": "optimizer state",
    "grad": "gradients present on entry",
}


@dataclass(frozen=True)
class Share:
    """One row of a breakdown: so many tensors of this name hold so many bytes."""

    name: str
    bytes: int
    tensors: int


@dataclass(frozen=True)
class LiveAtPeak:
    """A transient tensor that is live at the peak, and who made it."""

    name: str
    bytes: int
    type: str  # "f32[8,128,256]"
    kind: str
    operator: str
    module: str
    source: str
    parts: int = 1  # in how many it comes, of which this is one


@dataclass(frozen=True)
class LikeTensors:
    """Tensors of one type, made at one place in however many layers, that are live at the peak."""

    names: list[str]
    bytes: int  # of each, or of one of its parts
    type: str
    kind: str
    operator: str
    module: str  # with * for the layer's number if there are several
    source: str
    parts: int = 1


@dataclass(frozen=True)
class Swaps:
    """What a plan keeps on the host for a while."""

    host_bytes: int  # at most
    bytes_to_host: int  # copied in one step
    bytes_to_device: int
    copy_seconds: float  # what these copies take, one after another
    exposed_seconds: float  # of a step, waiting for copies
    tensors: list[LikeTensors]  # that leave, largest first


@dataclass(frozen=True)
class MemoryReport:
    """A graph in program order, or a plan, simulated on the profile `device`."""

    subject: str  # "graph" or "plan"
    device: str
    meta: dict[str, str]
    operators: int  # of the graph
    operators_run: int  # by the program: more if some are recomputed
    seconds: float
    peak_bytes: int
    persistent_bytes: int
    transient_peak_bytes: int
    peak_operator: str
    peak_module: str
    peak_source: str
    peak_loop: str  # "in part of r1 (3 of 8)"; "" outside all loops
    loops: list[SplitLoop]  # of the graph, outer before inner
    persistent: list[Share]  # by kind of input
    by_kind: list[Share]  # transient bytes at the peak, workspace included
    by_module: list[Share]  # transient tensors at the peak
    tree: list[TreeRow]  # the same, modules inside modules
    by_operator: list[Share]  # transient tensors at the peak, by the operator that made them
    biggest: list[LikeTensors]  # by the size of one tensor
    opaque: list[str]  # operators that magis does not know: never recomputed
    regions: list[str]  # that could run in parts, those that save most first; of an unsplit graph
    obstacles: list[str]  # what ends the axis of the batch, in words
    whole: list[str]  # operators that are never split, the opaque ones apart
    swaps: Swaps | None  # none: every tensor stays on the device
    reserved: Reserved | None  # of a CUDA device's memory, predicted; none: another device

    @classmethod
    def of_graph(cls, graph: _core.Graph, *, device: _core.Device) -> MemoryReport:
        """`graph` in program order, as it was captured."""
        from magis import _core

        return cls._build("graph", _core.Plan.program_order(graph), device)

    @classmethod
    def of_plan(cls, plan: _core.Plan, *, device: _core.Device) -> MemoryReport:
        """`plan`, as its program says."""
        return cls._build("plan", plan, device)

    @classmethod
    def _build(cls, subject: str, plan: _core.Plan, device: _core.Device) -> MemoryReport:
        graph = plan.graph
        simulation = plan.simulate(device)
        loops = read_loops(graph.text())
        live = live_at_peak(plan, simulation, loops)
        regions = _regions(graph, device)
        group = grouping((tensor.module for tensor in live), _MOST_MODULES)
        by_kind = _shares(live, lambda tensor: tensor.kind)
        workspace = simulation.transient_peak_bytes - sum(tensor.bytes for tensor in live)
        if workspace:
            by_kind.append(Share(WORKSPACE, workspace, 0))
        return cls(
            subject=subject,
            device=str(device),
            meta=dict(graph.meta),
            operators=graph.operator_count,
            operators_run=plan.operators_run(),
            seconds=simulation.seconds,
            peak_bytes=simulation.peak_bytes,
            persistent_bytes=simulation.persistent_bytes,
            transient_peak_bytes=simulation.transient_peak_bytes,
            peak_operator=simulation.peak_operator,
            peak_module=simulation.peak_module,
            peak_source=simulation.peak_source,
            peak_loop=loops.place(peak_result(simulation)),
            loops=list(loops.loops.values()),
            persistent=persistent_shares(graph, simulation.persistent_bytes),
            by_kind=by_kind,
            by_module=_shortened(_shares(live, lambda tensor: group(tensor.module)), "modules"),
            tree=module_tree(live),
            by_operator=_shortened(_shares(live, lambda tensor: tensor.operator), "operators"),
            biggest=alike(live)[:MOST_ROWS],
            opaque=graph.opaque_operators(),
            regions=_described(regions) if regions is not None else [],
            obstacles=regions.obstacles() if regions is not None else [],
            whole=sorted(set(regions.whole_operators()) - set(graph.opaque_operators()))
            if regions is not None
            else [],
            swaps=_swaps(plan, simulation, loops) if simulation.copies else None,
            reserved=reserved_memory(plan, device),
        )

    def to_json(self) -> dict[str, Any]:
        """Every field by its name; numbers are bytes and seconds."""
        return asdict(self)


def _regions(graph: _core.Graph, device: _core.Device) -> _core.Regions | None:
    from magis import _core

    return None if graph.loop_count else _core.fission_regions(graph, device=device)


def _described(regions: _core.Regions) -> list[str]:
    shown = range(min(len(regions), _MOST_REGIONS))
    return [f"{regions.describe(i)}: saves {bytes_text(regions.saving(i))} in two" for i in shown]


def peak_result(simulation: _core.Simulation) -> str:
    """First result of the operator that reaches the peak first."""
    peak = max(simulation.timeline, key=lambda point: point.live_bytes, default=None)
    return peak.result.partition(".")[0] if peak else ""


def live_at_peak(
    plan: _core.Plan, simulation: _core.Simulation, loops: GraphLoops
) -> list[LiveAtPeak]:
    """Largest first."""
    kind = roles(plan, simulation, loops)
    live = [
        LiveAtPeak(
            name=hotspot.name,
            bytes=hotspot.bytes,
            type=hotspot.tensor.type,
            kind=kind(hotspot),
            operator=hotspot.tensor.operator,
            module=hotspot.tensor.module,
            source=hotspot.tensor.source,
        )
        for hotspot in simulation.hotspots
        if not hotspot.tensor.is_input
    ]
    live = [named_as_result(tensor, loops) for tensor in live]
    return sorted(live, key=lambda tensor: -tensor.bytes)


def _swaps(plan: _core.Plan, simulation: _core.Simulation, loops: GraphLoops) -> Swaps:
    stored = {point.tensor.partition(".")[0] for point in simulation.copies}
    tensors = [
        LiveAtPeak(
            name=tensor.name,
            bytes=tensor.bytes,
            type=tensor.type,
            kind=BACK,
            operator=tensor.operator,
            module=tensor.module,
            source=tensor.source,
            parts=loops.parts(tensor.name),
        )
        for tensor in plan.graph.tensors
        if tensor.name in stored
    ]
    return Swaps(
        host_bytes=simulation.host_peak_bytes,
        bytes_to_host=simulation.bytes_to_host,
        bytes_to_device=simulation.bytes_to_device,
        copy_seconds=simulation.copy_seconds,
        exposed_seconds=simulation.exposed_seconds,
        tensors=alike([named_as_result(tensor, loops) for tensor in tensors])[:MOST_ROWS],
    )


def named_as_result(tensor: LiveAtPeak, loops: GraphLoops) -> LiveAtPeak:
    """A loop's begin only allocates: what counts is whose parts its result holds."""
    result = loops.results.get(tensor.name)
    if result is None:
        return tensor
    word = "concatenated result" if result.concatenated else "accumulator"
    operator = f"{word} of {result.loop}"
    return replace(tensor, operator=operator, module=result.module, source=result.source)


class Held(Protocol):
    """Memory that a tensor, or a copy of one, holds."""

    @property
    def name(self) -> str: ...  # with the copy's number
    @property
    def tensor(self) -> _core.TensorInfo: ...


def roles(
    plan: _core.Plan, simulation: _core.Simulation, loops: GraphLoops
) -> Callable[[Held], str]:
    """What a transient tensor is there for, in words."""
    outputs = output_tensors(plan.graph)
    loaded = {point.tensor for point in simulation.copies if point.kind == "load"}
    stored = {point.tensor for point in simulation.copies if point.kind == "store"}
    readers = last_readers(plan)
    backward = {tensor.name for tensor in plan.graph.tensors if tensor.backward}
    backward |= loops.backward

    def kind(live: Held) -> str:
        tensor = live.tensor
        if tensor.name in outputs and live.name == tensor.name:
            return GRADIENT if outputs[tensor.name] == "grad" else OUTPUT
        if tensor.name in loops.results:
            return CONCATENATED if loops.results[tensor.name].concatenated else ACCUMULATED
        if tensor.backward:
            return BACKWARD
        if live.name in loaded:
            return BACK
        if live.name in stored and live.name == tensor.name:
            return SAVED
        if live.name != tensor.name:
            return RECOMPUTED
        return SAVED if readers.get(live.name, "") in backward else FORWARD

    return kind


def persistent_shares(graph: _core.Graph, total: int) -> list[Share]:
    bytes_of: defaultdict[str, int] = defaultdict(int)
    count: defaultdict[str, int] = defaultdict(int)
    for entry in graph.inputs:
        if entry.kind in PERSISTENT_KINDS:  # scalars own no memory
            bytes_of[entry.kind] += entry.bytes
            count[entry.kind] += 1
    shares = [
        Share(words, bytes_of[kind], count[kind])
        for kind, words in PERSISTENT_KINDS.items()
        if count[kind]
    ]
    rounding = total - sum(bytes_of.values())
    return [*shares, Share(ROUNDING, rounding, 0)] if rounding > 0 else shares


def _shares(tensors: Iterable[LiveAtPeak], name_of: Callable[[LiveAtPeak], str]) -> list[Share]:
    bytes_of: defaultdict[str, int] = defaultdict(int)
    count: defaultdict[str, int] = defaultdict(int)
    for tensor in tensors:
        name = name_of(tensor)
        bytes_of[name] += tensor.bytes
        count[name] += 1
    return sorted(
        (Share(name, bytes_of[name], count[name]) for name in count),
        key=lambda share: (-share.bytes, share.name),
    )


def alike(live: list[LiveAtPeak]) -> list[LikeTensors]:
    groups: defaultdict[tuple[str | int, ...], list[LiveAtPeak]] = defaultdict(list)
    for tensor in live:
        module = without_layer_number(tensor.module)
        key = (tensor.type, tensor.kind, tensor.operator, module, tensor.source, tensor.parts)
        groups[key].append(tensor)
    alike = [
        LikeTensors(
            names=[tensor.name for tensor in group],
            bytes=group[0].bytes,
            type=group[0].type,
            kind=group[0].kind,
            operator=group[0].operator,
            module=_module_of(group),
            source=group[0].source,
            parts=group[0].parts,
        )
        for group in groups.values()
    ]
    return sorted(alike, key=lambda tensors: (-tensors.bytes, -len(tensors.names)))


def _module_of(group: list[LiveAtPeak]) -> str:
    module = group[0].module
    return module if len(group) == 1 else without_layer_number(module)


def _shortened(shares: list[Share], noun: str) -> list[Share]:
    """At most MOST_ROWS rows: the smallest are summed up in the last."""
    if len(shares) <= MOST_ROWS:
        return shares
    kept, rest = shares[: MOST_ROWS - 1], shares[MOST_ROWS - 1 :]
    others = Share(
        f"({len(rest)} other {noun})",
        sum(share.bytes for share in rest),
        sum(share.tensors for share in rest),
    )
    return [*kept, others]
