"""The C++ core. Text goes in, text comes out; a few plain views for reports."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

class UserError(Exception): ...
class InternalError(Exception): ...

class MeasuredTimes:
    """Seconds by call, as `Plan.calls` names calls."""

    @staticmethod
    def of(rows: Sequence[tuple[str, float]]) -> MeasuredTimes: ...
    def find(self, key: str) -> float | None: ...
    def __len__(self) -> int: ...
    @property
    def lookups(self) -> int: ...  # so far, by searches too
    @property
    def misses(self) -> int: ...  # of these, how many found nothing
    @property
    def spelled(self) -> int: ...  # look-ups of calls in graphs that were the first of their kind

class DeviceProfile:
    """What times come from."""

    name: str
    @staticmethod
    def named(name: str) -> DeviceProfile: ...
    @staticmethod
    def of(
        name: str, figures: Mapping[str, float], *, copies_overlap: bool = True
    ) -> DeviceProfile:
        """One that a user describes; magis/timing/user_profile.py lists the figures."""

    # The same device; what makes small operators slow (launches, half empty waves of tiles) costs
    # `factor` times as much.
    def with_small_operators(self, factor: float) -> DeviceProfile: ...
    # Modelled seconds become scale * seconds ** exponent; by operator, "" for all others.
    def with_calibration(self, fits: Mapping[str, tuple[float, float]]) -> DeviceProfile: ...
    # The same device; these times go ahead of its figures.
    def with_times(self, times: MeasuredTimes) -> DeviceProfile: ...

Device: TypeAlias = str | DeviceProfile
"""A profile, or the name of a built-in one."""

class CallCount:
    key: str  # "aten.mm(%0, %1) : f32[8,32] of f32[8,64], f32[64,32]"
    runs: float  # in a step, each iteration of a loop counted
    seconds: float  # of one run
    measured: bool  # or modelled

class Input:
    kind: str  # param buffer batch const state grad scalar
    name: str
    path: str
    dtype: str  # "f32"; "" for scalars
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    bytes: int

class Output:
    kind: str  # loss aux grad buffer param state
    path: str
    name: str

class TensorInfo:
    name: str
    bytes: int
    type: str  # "f32[8,128,256]"
    operator: str  # producer's name, e.g. "aten.mm"; "" for inputs
    module: str
    source: str
    backward: bool
    is_input: bool
    is_output: bool

class Graph:
    @staticmethod
    def parse(text: str, file_name: str = "<text>") -> Graph: ...
    def text(self) -> str: ...
    def fingerprint(self) -> str: ...
    def verify(self) -> None: ...
    def accumulate_gradients(self, paths: Sequence[str]) -> Graph: ...
    @property
    def device(self) -> str: ...
    @property
    def meta(self) -> dict[str, str]: ...
    @property
    def inputs(self) -> list[Input]: ...
    @property
    def outputs(self) -> list[Output]: ...
    @property
    def tensors(self) -> list[TensorInfo]: ...
    @property
    def operator_count(self) -> int: ...
    @property
    def rewrites(self) -> list[tuple[str, int]]: ...  # rules that made it, and how often each
    @property
    def rounds_otherwise(self) -> bool: ...  # than the captured one: sums of parts, rewrites
    @property
    def altered(self) -> bool: ...  # it has loops or rewrites
    @property
    def loop_count(self) -> int: ...  # regions that run in parts
    @property
    def persistent_bytes(self) -> int: ...
    def operator_counts(self) -> dict[str, int]: ...  # by operator name, views left out
    def opaque_operators(self) -> list[str]: ...

class LiveTensor:
    name: str  # with copy: "mm_3.1"
    bytes: int
    tensor: TensorInfo

class TimelinePoint:
    operator: str  # statement's operator, e.g. "aten.mm"
    result: str  # name of its first result, with copy
    start: float
    end: float
    live_bytes: int

class CopyPoint:
    kind: str  # "store": to the host; "load": back
    tensor: str  # with copy: "mm_3.1"; of a load, the copy that it makes
    start: float
    end: float

class Simulation:
    persistent_bytes: int
    transient_peak_bytes: int
    peak_bytes: int
    seconds: float
    exposed_seconds: float  # of these, waiting for copies to the host and back
    copy_seconds: float  # what all copies take, were they made one after another
    host_peak_bytes: int  # the pool that the plan needs on the host
    bytes_to_host: int
    bytes_to_device: int
    peak_operator: str
    peak_module: str
    peak_source: str
    hotspots: list[LiveTensor]
    timeline: list[TimelinePoint]
    copies: list[CopyPoint]  # in program order; of a loop, its first iteration's

class AllocatorSettings:
    """PyTorch's, in bytes: see magis/simulate/caching_allocator.h."""

    def __init__(self) -> None: ...
    device_memory: int
    allowed_memory: int
    garbage_collection_threshold: float
    max_split_size: int
    max_non_split_rounding: int
    large_segment: int
    roundup_power2_divisions: Sequence[int]  # 16
    expandable_segments: bool

class ReservedMemory:
    reserved_bytes: int
    allocated_bytes: int  # of these, when they first were that many
    fragmentation_bytes: int  # the rest of them
    allocated_peak_bytes: int
    cache_flushes: int
    fits: bool  # False: memory ran out

class Statement:
    """Of a plan's program. Names of copies are spelled "mm_3", "mm_3.1"."""

    # "run"; "begin" and "end", which bound a loop; "free", "store", "load", "await"
    kind: str
    copies: list[str]  # a run's results that own memory; what is freed, stored, awaited; a load's
    # Of what runs, else empty.
    operator: str  # "aten.mm"
    name: str  # its first result
    over: str  # the tensor whose memory the first of `copies` takes over; "": none
    module: str
    source: str
    backward: bool
    loop: str  # that it begins or ends
    iterations: int  # of that loop

class Plan:
    """A graph and a program."""

    @staticmethod
    def parse(text: str, file_name: str = "<text>") -> Plan: ...
    @staticmethod
    def of(graph: Graph, program: str, file_name: str = "<program>") -> Plan:
        """Of a program in text, from the word `program` on. Lifetimes end, and operators run in
        place, wherever they can, whatever the text says of that."""

    @staticmethod
    def program_order(graph: Graph) -> Plan: ...
    @property
    def graph(self) -> Graph: ...
    def text(self) -> str: ...
    def source(self, heading: str = "") -> str: ...
    # The line of `source`, from 1, at which each statement's code begins.
    def source_lines(self, heading: str = "") -> list[int]: ...
    @property
    def statements(self) -> list[Statement]: ...  # of the program
    def simulate(self, device: Device) -> Simulation: ...
    def footprint(self, device: Device) -> tuple[int, float, float]:
        """(peak bytes, seconds, exposed seconds) of `simulate`, in a fraction of its time."""

    def reserved(
        self, device: Device, allocator: AllocatorSettings, library_workspace: int = 0
    ) -> ReservedMemory: ...
    def verify(self) -> None: ...
    @property
    def host_bytes(self) -> int: ...  # the pool on the host; 0: nothing is stored
    def operators_run(self) -> int: ...
    def calls(self, device: Device) -> list[CallCount]: ...  # each distinct call once
    # (call, seconds) of each `run`, all iterations together; those that bound loops are left out.
    def run_costs(self, device: Device) -> list[tuple[str, float]]: ...
    def recomputed(self) -> list[TensorInfo]: ...  # one per operator run again, its first result
    # The plan in which these operators (by their first results) run once and these tensors stay on
    # the device; lifetimes end anew.
    def without(self, *, runs: Sequence[str] = (), swaps: Sequence[str] = ()) -> Plan: ...
    # (peak bytes, seconds, exposed seconds) without each of `groups`, pairs of such lists of names.
    def footprints_without(
        self, groups: Sequence[tuple[Sequence[str], Sequence[str]]], *, device: Device
    ) -> list[tuple[int, float, float]]: ...

class Progress:
    best_peak_bytes: int
    best_seconds: float
    met: bool
    states_scored: int
    states_evaluated: int
    elapsed: float
    lower_bound_bytes: int  # no plan of the graph stays below it

class Result:
    source: Graph  # as it was given
    plan: Plan  # its graph has loops where regions run in parts
    regions: int  # how many do
    baseline_peak_bytes: int
    baseline_seconds: float
    peak_bytes: int
    seconds: float
    persistent_bytes: int
    lower_bound_bytes: int
    lower_bound_reason: str  # in words: which operator's working set, or the outputs
    met: bool
    stop_reason: str
    states_scored: int
    states_evaluated: int
    states_repeated: int  # of the paper's search: made, and dropped as seen before
    # Of the paper's search: "transform", "schedule", "simulate", "hash"; of others all 0.
    phase_seconds: dict[str, float]
    wall_seconds: float
    cpu_seconds: float
    history: list[Progress]  # what the search told of itself, at most some hundred times
    recomputed: int
    swapped: int  # uses before which a tensor was on the host
    exposed_seconds: float  # of the time, waiting for copies
    host_bytes: int  # the pool that the plan needs on the host

    # The same with a plan for the same graph, its promise counted anew.
    def with_plan(
        self,
        plan: Plan,
        *,
        device: Device,
        memory_limit: int | None = None,
        latency_limit: float | None = None,
    ) -> Result: ...

class LowerBound:
    bytes: int  # persistent included
    persistent_bytes: int
    reason: str  # in words: which operator's working set, or the outputs

def lower_bound(
    graph: Graph, *, device: Device, fission: bool = True, host_memory: int | None = None
) -> LowerBound: ...
def device_profiles() -> list[str]: ...
def host_memory(device: Device) -> int: ...  # bytes that a profile's host has for swapped tensors
def device_memory(
    device: Device,
) -> int: ...  # bytes of a profile's device; 0: no particular device
def allocation_granularity(device: Device) -> int: ...  # allocations are multiples of so many bytes
def copies_overlap(device: Device) -> bool: ...  # with computing; else the step waits for each
def optimize(
    graph: Graph,
    *,
    device: Device,
    memory_limit: int | None = None,  # bytes, persistent included
    latency_limit: float | None = None,  # seconds
    time_budget: float = 10.0,
    state_budget: int = 0,
    seed: int = 0,
    search_memory: int = 1 << 30,  # bytes, about the most that waiting states take
    threads: int = 1,  # they change how long it takes, and nothing else
    fission: bool = True,  # regions may run in parts of an axis: the plan's graph then has loops
    exact: bool = False,  # no sums that are added up part by part
    batch_parts: int = 0,  # in how many the batch's region runs; 0: as the search decides
    host_memory: int
    | None = None,  # bytes for swapped tensors; None: the profile's; 0: no swapping
    strategy: str = "default",  # or "paper": the search that the MAGIS paper describes
    random_fission: bool = False,  # these three are the paper's ablations, for its strategy alone
    naive_schedule_rules: bool = False,
    max_level: int = 4,  # of the fission tree
    recompute: bool = True,  # operators may run again
    rewrite: bool = True,  # operators may be replaced by others that compute the same
    without_rules: Sequence[str] = (),  # rewrite rules that are left out
    progress: Callable[[Progress], bool]
    | None = None,  # False stops; called without other threads, with the GIL
) -> Result: ...
def find_frontier(
    graph: Graph,
    *,
    device: Device,
    time_budget: float = 30.0,
    state_budget: int = 0,
    seed: int = 0,
    threads: int = 1,
    search_memory: int = 1 << 30,
    fission: bool = True,
    exact: bool = False,
    host_memory: int | None = None,
    recompute: bool = True,
    rewrite: bool = True,
    without_rules: Sequence[str] = (),
    progress: Callable[[Progress], bool] | None = None,
) -> list[Result]:
    """Plans from the fastest to the smallest, each slower and smaller than the one before; at most
    one for every two per cent of the peak."""

Rule: TypeAlias = tuple[str, str, bool, bool]
"""(name, what it says, same bits, not in 16 bits)"""

def rewrite_rules() -> list[Rule]: ...
def check_rules(text: str, file_name: str = "<text>") -> list[Rule]:
    """The rules of a file; UserError says where it is wrong."""

def rule_example(rule: str, *, seed: int) -> tuple[Graph, Graph] | None:
    """The left side of a rule in random shapes, and what the rule makes of it; None for rules that
    are not written in the rule language, and for shapes that do not go."""

def count_matches(graph: Graph) -> list[tuple[str, int]]: ...
def rule_effects(graph: Graph, *, device: Device) -> list[tuple[str, int, int, float, int]]:
    """(rule, places where it matches, where it was applied by itself as that saves time, seconds
    saved, change of the peak in program order)."""

def rewrite(graph: Graph, *, device: Device, merge: bool = False) -> Graph:
    """The graph after all rewrites that save time. Those that raise the peak in program order, or
    merge what is read at different times, are among them only with `merge`."""

def rewrite_at_random(
    graph: Graph, *, count: int, seed: int, only: Sequence[str] = ...
) -> tuple[Graph, list[str]]:
    """The graph after `count` matches taken at random, and which rules they were."""

def in_place_forms() -> list[tuple[str, str, str, list[int]]]:
    """(operator, spelling in place, keyword for the operand or "", positions overwritable)."""

class AxisSignature(TypedDict):
    axes: list[tuple[int, bool]]  # (length, splittable)
    operands: list[list[tuple[int, int]]]  # per tensor argument and dimension: (axis or -1, step)
    results: list[list[tuple[int, int]]]
    dependence: list[list[str]]  # [result][axis]: sliced sum maximum minimum product any all once
    added_once: list[bool]
    contiguous: list[bool]
    lengths: list[tuple[int, str, int, int, int]]  # position or -1, keyword, item or -1, axis, step
    text: str

Labels: TypeAlias = list[tuple[str, int, int]]
"""Of each operator of a region: its first result, the axis that is split, elements of it a unit."""

class Regions:
    """Fission regions of a graph, by number; they name operators of the graph with its losses and
    means opened."""

    def __len__(self) -> int: ...
    def length(self, region: int) -> int: ...  # of the axis, in units
    def saving(self, region: int) -> int: ...  # estimated bytes at the peak, in two parts
    def operators(self, region: int) -> list[str]: ...  # by their first results
    def labels(self, region: int) -> Labels: ...
    def describe(self, region: int) -> str: ...
    def obstacles(self) -> list[str]: ...  # what ends the batch's axis, in words
    def whole_operators(self) -> list[str]: ...  # names of those that fission knows no axes of
    def add(self, labels: Labels, *, length: int) -> str | None:
        """A region by hand, which becomes the last one; or why it cannot be split."""

    def opened(self) -> Graph: ...
    def split(self, choices: list[RegionChoice]) -> Graph:
        """The graph in which the chosen regions are loops; UserError says why they cannot be."""

    def split_batch(self, parts: int) -> Graph:
        """The graph in which the largest region along the batch runs in `parts` parts."""

RegionChoice: TypeAlias = tuple[int, int, list[Any]]
"""(region, units a part, choices inside it)"""

def fission_regions(
    graph: Graph,
    *,
    device: Device,
    least_saving: int | None = None,  # in bytes, estimated; None: those that save something
    limit: int = 256,
) -> Regions:
    """The candidates, best first."""

def axis_signatures(graph: Graph) -> list[tuple[str, AxisSignature | None]]:
    """(operator, how it splits; None: opaque to fission) in program order."""

def split_operators() -> list[str]:
    """Operators whose entries say how they split."""

def operator_purity(name: str) -> str: ...  # pure random mutating view opaque
def known_operators() -> list[str]: ...

class OperatorFacts:
    name: str  # of its first result
    kind: str  # "aten.mm"
    backward: bool
    recomputable: bool
    seconds: float  # all iterations together
    scratch: int
    reads: list[int]  # distinct tensors, by number
    makes: list[int]
    predecessors: list[int]  # operators that must run before
    overwriters: list[int]  # operators before which alone it may run again
    in_place: list[int]  # positions in `reads` that the first result may take over, best first
    loop: str  # the innermost one around it; "": none
    bounds: str  # the loop that it begins or ends; "": none

class TensorFacts:
    name: str
    bytes: int  # as allocated; 0 for inputs
    copy_seconds: float  # to the host or back, all iterations together
    producer: int  # operator; -1 for inputs
    is_input: bool
    is_output: bool
    swappable: bool

class Structure:
    """What is decided about, in program order."""

    operators: list[OperatorFacts]
    tensors: list[TensorFacts]
    persistent_bytes: int
    copies_overlap: bool  # with computing; else the step waits

def structure(graph: Graph, *, device: Device) -> Structure: ...
