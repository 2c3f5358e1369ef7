"""Every private PyTorch interface that magis uses, each with what it relies on.

Nothing else in the package touches a private name of PyTorch, but for generated code: it copies and
adds lists of tensors with `torch._foreach_copy_` and `torch._foreach_add_`, as PyTorch's optimizers
do, and relies on the bits of `copy_` and `add_`. tests/python/test_torch_internals.py
holds one test per promise below, so that an upgrade which breaks one says which.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from unittest import mock

import torch
import torch.utils._pytree as pytree
import torch.utils.checkpoint
from torch._decomp import global_decomposition_table
from torch._ops import OpOverload
from torch._subclasses.fake_impls import get_fast_op_impls
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.autograd import (
    ProfilerConfig,
    ProfilerState,
    _disable_profiler_legacy,
    _enable_profiler_legacy,
)
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot, make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = [
    "AllocationRecorder",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "FunctionalTensor",
    "FunctionalTensorMode",
    "OpOverload",
    "RuntimeScalars",
    "TorchDispatchMode",
    "buffers_to_broadcast",
    "count_steps",
    "cuda_memory_history",
    "current_autograd_node",
    "fake_like",
    "foreach_add",
    "forward_sequence_number",
    "functionalises_itself",
    "graph_module",
    "has_data_mutation",
    "has_python_formula",
    "ignored_parameters",
    "in_join",
    "is_written_base",
    "node_sequence_number",
    "note_step",
    "note_sync",
    "optimizer_hooks",
    "optimizer_silenced",
    "plain_checkpoint",
    "post_accumulate_hooks",
    "pretend_compiling",
    "profiled",
    "pytree",
    "reads_answered",
    "recorded",
    "replace_functional",
    "runs_in_onednn",
    "tensor_hooks",
    "to_functional",
    "trace",
    "traced_constant",
    "traced_graph",
    "traced_node",
    "unlike_plain_replicas",
    "unwrap_functional",
    "version",
    "without_modes",
]

T = TypeVar("T")

# torch.utils._pytree: tree_flatten_with_path visits dicts in insertion order, and keystr spells a
# path "['x'][0]".


def fake_like(mode: FakeTensorMode, tensor: torch.Tensor, device: torch.device) -> FakeTensor:
    """A fake tensor of `tensor`'s dtype, shape and strides on `device`, at offset 0 of a storage of
    its own.

    Relies on: FakeTensor(mode, meta tensor, device) makes a fake on any device, meta and CUDA
    included, on a machine without one, and takes no real memory.
    """
    with torch.no_grad():
        meta = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=torch.device("meta")
        )
    return FakeTensor(mode, meta, device)


def trace(function: Callable[..., Any], *args: Any) -> torch.fx.GraphModule:
    """The operators that `function(*args)` runs on fake tensors, as an fx graph.

    Relies on: with tracing_mode "real" fakes are used as they come; each node of a tensor carries
    meta["val"], a fake whose untyped storage says what it aliases; real tensors met on the way
    become get_attr nodes; random operators are kept though nothing reads them.
    """
    tracer = make_fx(function, tracing_mode="real", _allow_non_fake_inputs=True)
    return tracer(*args)


def traced_graph() -> torch.fx.Graph:
    """The graph being recorded. Relies on: the proxy mode can be asked for from within a dispatch
    mode above it.
    """
    mode = get_proxy_mode()
    assert mode is not None, "no trace is in progress"
    graph: torch.fx.Graph = mode.tracer.graph
    return graph


def traced_node(tensor: torch.Tensor) -> torch.fx.Node | None:
    """The node that makes what a traced tensor stands for now; None for other tensors.

    Relies on: the tracer keeps a proxy for each tensor that it has met. Traced are functional
    wrappers, and fakes that operators made of real tensors alone.
    """
    mode = get_proxy_mode()
    if mode is None or not isinstance(tensor, (FunctionalTensor, FakeTensor)):
        return None
    slot = get_proxy_slot(unwrap_functional(tensor), mode.tracer, None)
    node: torch.fx.Node | None = None if slot is None else slot.proxy.node
    return node


def traced_constant(node: torch.fx.Node) -> Any:
    """What a get_attr node of the graph being recorded refers to."""
    mode = get_proxy_mode()
    assert mode is not None, "no trace is in progress"
    return getattr(mode.tracer.root, str(node.target))


def has_python_formula(operator: OpOverload) -> bool:
    """Whether fake results of the operator come from a formula written in Python, which may give
    other strides than the kernels. Relies on: the tables in which PyTorch registers these.
    """
    if operator in get_fast_op_impls():
        return True
    return operator in global_decomposition_table["meta"] or (
        operator in global_decomposition_table["post_autograd"]
    )


def runs_in_onednn(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> bool:
    """Whether the convolution's gradients are computed by oneDNN.

    Relies on: PyTorch chooses among its kernels by shapes, dtypes, devices and settings alone;
    oneDNN's transposed convolution, which has no name in Python, is numbered after the other one.
    """
    backend = torch._C._select_conv_backend(
        x,
        weight,
        bias=None,
        stride=stride,
        padding=padding,
        dilation=dilation,
        transposed=transposed,
        output_padding=output_padding,
        groups=groups,
        bias_sizes=bias_sizes,
    )
    return int(backend) - int(torch._C._ConvBackend.Mkldnn) in (0, 1)


def graph_module(root: torch.nn.Module, graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """Generated code for `graph`, whose get_attr nodes are looked up in `root`."""
    return torch.fx.GraphModule(root, graph)


def without_modes() -> contextlib.AbstractContextManager[Any]:
    """Operators inside run for real: the dispatch modes that are active are set aside."""
    aside: contextlib.AbstractContextManager[Any] = _disable_current_modes()
    return aside


def to_functional(tensor: torch.Tensor) -> torch.Tensor:
    """Wraps a tensor for FunctionalTensorMode. Relies on: in-place operators on the wrapper then
    trace as pure ones.
    """
    wrapped: torch.Tensor = FunctionalTensor.to_functional(tensor)
    return wrapped


@contextlib.contextmanager
def reads_answered(
    methods: Mapping[str, Callable[..., Any]], functions: Mapping[str, Callable[..., Any]]
) -> Iterator[None]:
    """Inside, functional wrappers have these methods, and the functions behind packed sequences are
    these.

    Relies on: methods of a wrapper are looked up in its class before PyTorch's own; `nn.utils.rnn`
    looks its functions up in `torch._VF` when it calls them.
    """
    with contextlib.ExitStack() as stack:
        for name, method in methods.items():
            stack.enter_context(mock.patch.object(FunctionalTensor, name, method))
        for name, function in functions.items():
            stack.enter_context(mock.patch.object(torch._VF, name, function))
        yield


def unwrap_functional(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that a functional wrapper stands for now, pending in-place operators applied."""
    if not isinstance(tensor, FunctionalTensor):
        return tensor
    torch._sync(tensor)
    plain: torch.Tensor = torch._from_functional_tensor(tensor.elem)
    return plain


def has_data_mutation(tensor: torch.Tensor) -> bool:
    """Whether something wrote to the wrapper in place since it was made."""
    return isinstance(tensor, FunctionalTensor) and torch._functionalize_has_data_mutation(
        tensor.elem
    )


def forward_sequence_number() -> int:
    """Sequence number of the autograd node made last on this thread, -1 before the first.

    Relies on: a differentiable operator's node exists, and has its number, before the operator
    reaches dispatch modes.
    """
    number: int = torch._C._autograd._get_sequence_nr()
    return number - 1


def current_autograd_node() -> Any | None:
    """The autograd node whose backward runs on this thread, if any."""
    return torch._C._current_autograd_node()


def node_sequence_number(node: Any) -> int:
    """The number that `forward_sequence_number` gave when the node was made."""
    number: int = node._sequence_nr()
    return number


class RuntimeScalars:
    """Python floats whose value is not known while tracing.

    Relies on: SymFloats of a ShapeEnv pass through make_fx as placeholders, arithmetic on them is
    recorded as calls of `operator` and `torch.sym_*`, and whatever needs their value leaves a guard
    or a replacement in the ShapeEnv.
    """

    def __init__(self) -> None:
        self._env = ShapeEnv()
        self._names: dict[str, str] = {}  # by symbol

    def make(self, name: str, hint: float) -> torch.SymFloat:
        from torch._dynamo.source import ConstantSource  # takes seconds to import, seldom needed

        hint += 0.0117 * len(self._names)  # equal hints would share one symbol
        source = ConstantSource(f"scalar_{len(self._names)}")
        symbol = self._env.create_unspecified_symbol(hint, source=source)
        self._names[str(symbol)] = name
        return self._env.create_symfloatnode(symbol, hint=hint, source=source)

    def fixed(self) -> list[str]:
        """Names of those whose value steered the trace.

        PyTorch asks by itself whether a factor is 1, to skip a multiplication. The graph that
        multiplies computes the same bits, so that this does not count.
        """
        expressions = [
            guard.expr
            for guard in self._env.guards
            if not (type(guard.expr).__name__ == "Unequality" and _asked_by_torch(guard))
        ]
        symbols = {str(s) for expression in expressions for s in expression.free_symbols}
        symbols |= {str(symbol) for symbol in self._env.replacements}
        return [name for symbol, name in self._names.items() if symbol in symbols]


def _asked_by_torch(guard: Any) -> bool:
    asking = str(getattr(guard.sloc.framework_loc, "filename", ""))
    return asking.startswith(os.path.dirname(torch.__file__) + os.sep)


@contextlib.contextmanager
def pretend_compiling() -> Iterator[None]:
    """torch.compiler.is_compiling() is true inside.

    Relies on: the flag torch.compiler._is_compiling_flag, which is what torch.export sets.
    """
    with mock.patch.object(torch.compiler, "_is_compiling_flag", True):
        yield


def is_written_base(tensor: torch.Tensor) -> bool:
    """Whether something wrote in place to the wrapper, which is no view of another one.

    Relies on: the wrapper keeps the strides that it was made with, whatever it stands for now.
    """
    return (
        isinstance(tensor, FunctionalTensor)
        and tensor.is_base_tensor()
        and has_data_mutation(tensor)
    )


def replace_functional(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """From now on the wrapper `tensor` stands for what the wrapper `value` stands for."""
    assert isinstance(tensor, FunctionalTensor)
    tensor.replace_(unwrap_functional(value))
    tensor.commit_update()
    tensor.sync()


def functionalises_itself(operator: OpOverload) -> bool:
    """Whether an operator that writes to its operands says itself what it is without that.

    Relies on: it has a kernel for the dispatch key of functionalisation.
    """
    key = torch._C.DispatchKey.Functionalize
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key))


class _PlainCheckpointFunction:
    @staticmethod
    def apply(function: Callable[..., Any], _preserve_rng_state: bool, *args: Any) -> Any:
        return function(*args)


def _plain_checkpoint_generator(*_args: Any, **_kwargs: Any) -> Generator[None, None, None]:
    yield  # what checkpoint does around the one forward pass


@contextlib.contextmanager
def plain_checkpoint() -> Iterator[None]:
    """torch.utils.checkpoint.checkpoint, under whatever name it was imported, just calls the
    function inside.

    Relies on: both its implementations are looked up in its module when it is called.
    """
    module = torch.utils.checkpoint
    with (
        mock.patch.object(module, "CheckpointFunction", _PlainCheckpointFunction),
        mock.patch.object(
            module, "_checkpoint_without_reentrant_generator", _plain_checkpoint_generator
        ),
    ):
        yield


def tensor_hooks(tensor: torch.Tensor) -> dict[int, Callable[[torch.Tensor], Any]]:
    """What `tensor.register_hook` registered, by number; clearing the dictionary silences the
    hooks.

    Relies on: autograd reads this very dictionary whenever it has a gradient for the tensor.
    """
    hooks = tensor._backward_hooks
    return {} if hooks is None else hooks


def post_accumulate_hooks(tensor: torch.Tensor) -> dict[int, Callable[[torch.Tensor], Any]]:
    """The same for `tensor.register_post_accumulate_grad_hook`."""
    hooks = tensor._post_accumulate_grad_hooks
    return {} if hooks is None else hooks


def optimizer_hooks(
    optimizer: torch.optim.Optimizer,
) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
    """The hooks that `optimizer.step()` runs before and after, in its order.

    Relies on: each is called with the optimizer, its arguments (the optimizer first) and keywords.
    """
    before = [
        *_global_optimizer_pre_hooks.values(),
        *optimizer._optimizer_step_pre_hooks.values(),
    ]
    after = [
        *optimizer._optimizer_step_post_hooks.values(),
        *_global_optimizer_post_hooks.values(),
    ]
    return before, after


@contextlib.contextmanager
def optimizer_silenced(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Inside, `optimizer.step()` runs no hooks, and no scheduler hears of it.

    Relies on: schedulers read `_opt_called`, which their wrapper around `step` sets.
    """
    called = getattr(optimizer, "_opt_called", None)
    tables: list[dict[int, Any]] = [
        _global_optimizer_pre_hooks,
        optimizer._optimizer_step_pre_hooks,
        optimizer._optimizer_step_post_hooks,
        _global_optimizer_post_hooks,
    ]
    saved = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    try:
        yield
    finally:
        for table, hooks in zip(tables, saved, strict=True):
            table.update(hooks)
        if called is not None:
            optimizer._opt_called = called
        elif hasattr(optimizer, "_opt_called"):
            del optimizer._opt_called


def count_steps(steps: list[torch.Tensor]) -> None:
    """Adds one to each, as PyTorch's optimizers do with their counts of steps.

    Relies on: torch._foreach_add_ takes one number for all tensors of a list.
    """
    with torch.no_grad():
        torch._foreach_add_(steps, 1)


def note_step(optimizer: torch.optim.Optimizer) -> None:
    """What a step of the optimizer leaves for schedulers, which warn if none came before theirs.

    Relies on: as optimizer_silenced.
    """
    optimizer._opt_called = True


def unlike_plain_replicas(wrapper: DistributedDataParallel) -> list[tuple[str, str]]:
    """What the wrapper does beyond averaging gradients in float, and how to do without.

    Relies on: `_comm_hooks` lists what register_comm_hook was called with; parameters of
    `delay_all_reduce_named_params` are in `_delay_all_reduce_params`.
    """
    found = []
    if wrapper._comm_hooks:
        found.append(("a communication hook", "leave it out"))
    if wrapper.mixed_precision is not None:
        found.append(("mixed_precision", "leave it out, and plan under torch.autocast"))
    if wrapper._delay_all_reduce_params:
        found.append(("delay_all_reduce_named_params", "leave them out"))
    return found


def in_join(wrapper: DistributedDataParallel) -> bool:
    """Whether a `with wrapper.join():` is around. Relies on: that sets `_join_config.enable`, which
    stays set afterwards.
    """
    return bool(wrapper._join_config.enable)


def ignored_parameters(wrapper: DistributedDataParallel) -> set[str]:
    """Names of parameters whose gradients are not averaged."""
    return set(wrapper.parameters_to_ignore)


def buffers_to_broadcast(wrapper: DistributedDataParallel) -> list[torch.Tensor]:
    """What DistributedDataParallel's forward would broadcast, to be asked for once a forward pass.

    Relies on: buffers are broadcast before a forward pass unless the one before it was under
    `no_sync()`, which `require_forward_param_sync` remembers.
    """
    wrapper._assign_modules_buffers()  # some may have been replaced
    buffers = list(wrapper.modules_buffers) if wrapper._check_sync_bufs_pre_fwd() else []
    wrapper.require_forward_param_sync = wrapper.require_backward_grad_sync
    return buffers


def note_sync(wrapper: DistributedDataParallel, syncs: bool) -> None:
    """Of a step that other processes ran. Relies on: as buffers_to_broadcast."""
    wrapper.require_forward_param_sync = syncs


def version(tensor: torch.Tensor) -> int:
    """How often the tensor has been written to in place."""
    count: int = tensor._version
    return count


class AllocationRecorder:
    """Records what the CPU allocator does on this thread while the block runs, in order.

    Relies on: the first-generation profiler reports each allocation and each release as one event
    of kind "memory_alloc", and `record_function` blocks as "push" and "pop", in the order in which
    they happen. Unlike torch.profiler it starts at once and prints nothing.
    """

    def __init__(self) -> None:
        self.events: list[tuple[str, str, int]] = []  # kind, name, bytes

    def __enter__(self) -> AllocationRecorder:
        experimental = torch._C._profiler._ExperimentalConfig()
        _enable_profiler_legacy(
            ProfilerConfig(ProfilerState.CPU, False, True, False, False, False, experimental)
        )
        return self

    def __exit__(self, *_error: object) -> None:
        for thread in _disable_profiler_legacy():
            self.events.extend((e.kind(), e.name(), e.cpu_memory_usage()) for e in thread)

    def changes(self) -> Iterator[int]:
        """Bytes allocated (positive) or released (negative), one event at a time."""
        return (size for kind, _, size in self.events if kind == "memory_alloc")


def profiled() -> bool:
    """Whether a profiler records this thread, which then has no room for an AllocationRecorder.

    Relies on: `_profiler_enabled` says so for profilers of either generation.
    """
    return bool(torch.autograd._profiler_enabled())


def recorded(function: Callable[[], T]) -> tuple[T, AllocationRecorder]:
    """What the function returns, and what it allocated. Without gradients. Where a profiler records
    this thread the function runs on another one, with as many threads for its kernels.
    """

    def run() -> tuple[T, AllocationRecorder]:
        with torch.no_grad(), AllocationRecorder() as recorder:
            result = function()
        return result, recorder

    if not profiled():
        return run()
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(threads,)) as other:
        return other.submit(run).result()


def foreach_add(results: list[torch.Tensor], parts: list[torch.Tensor]) -> None:
    """Adds each part to its result, as generated code does.

    Relies on: torch._foreach_add_ has the bits and the time of what generated code calls, as it is
    the same function.
    """
    torch._foreach_add_(results, parts)


@contextlib.contextmanager
def cuda_memory_history(device: torch.device, entries: int) -> Iterator[dict[str, Any]]:
    """The allocator's snapshot of the block is in the dictionary once the block is left.

    Relies on: `_snapshot()` gives "segments" and, by device, "device_traces", in the form that
    `torch.cuda._memory_viz` reads; with stacks="python" frames say "filename" and "line" of
    compiled Python, the innermost first.
    """
    history: dict[str, Any] = {}
    memory = torch.cuda.memory
    memory._record_memory_history("all", stacks="python", max_entries=entries, device=device)
    try:
        yield history
        torch.cuda.synchronize(device)
        history.update(memory._snapshot(device))
    finally:
        memory._record_memory_history(None, device=device)
