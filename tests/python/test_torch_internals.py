"""What magis relies on beyond PyTorch's public interface: one test per promise of
magis._torch_internals.
"""

from __future__ import annotations

import inspect
import resource
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
import torch.utils.checkpoint
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from magis import _torch_internals as internals


def fake_mode() -> internals.FakeTensorMode:
    return internals.FakeTensorMode(allow_non_fake_inputs=True)


def test_fake_like_keeps_the_layout_and_takes_no_memory() -> None:
    with torch.device("meta"):
        huge = torch.empty(1 << 20, 1 << 20)[:, ::2].t()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for device in ("cpu", "cuda:0", "meta"):
        fake = internals.fake_like(fake_mode(), huge, torch.device(device))
        assert fake.device == torch.device(device)
        assert fake.shape == huge.shape
        assert fake.stride() == huge.stride()
        assert fake.storage_offset() == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_lists_of_tensors_are_copied_and_added_in_place() -> None:
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(shape, generator=generator) for shape in ((3, 5), (7,), ())]
    sums = [torch.full_like(part, torch.nan) for part in parts]
    storages = [total.data_ptr() for total in sums]
    torch._foreach_copy_(sums, parts)
    assert all(map(torch.equal, sums, parts))
    torch._foreach_add_(sums, [*parts[:2], torch.tensor(1e-3)])
    wanted = [part.clone().add_(part) for part in parts[:2]] + [parts[2].clone().add_(1e-3)]
    assert all(map(torch.equal, sums, wanted))
    assert [total.data_ptr() for total in sums] == storages


def test_trace_says_what_aliases_what() -> None:
    with fake_mode() as mode:
        x = internals.fake_like(mode, torch.empty(4, 6), torch.device("cpu"))
        module = internals.trace(lambda t: t.view(2, 12)[0].exp(), x)
    values = {node.name: node.meta.get("val") for node in module.graph.nodes}
    storages = {name: v.untyped_storage() for name, v in values.items() if v is not None}
    x_storage = storages.pop(next(iter(storages)))
    exp = storages.pop("exp")
    assert all(s._cdata == x_storage._cdata for s in storages.values())
    assert exp._cdata != x_storage._cdata
    assert (x_storage.nbytes(), exp.nbytes()) == (96, 48)


def test_trace_keeps_random_operators_and_real_tensors() -> None:
    table = torch.tensor([1.0, 2.0])

    def function(x: torch.Tensor) -> torch.Tensor:
        torch.rand(3)
        return x * table

    with fake_mode() as mode:
        x = internals.fake_like(mode, torch.empty(2), torch.device("cpu"))
        module = internals.trace(function, x)
    nodes = list(module.graph.nodes)
    assert [n for n in nodes if n.target is torch.ops.aten.rand.default]
    (constant,) = [n for n in nodes if n.op == "get_attr"]
    assert torch.equal(getattr(module, constant.target), table)


class Watcher(internals.TorchDispatchMode):  # type: ignore[misc]
    """Notes what `look` says after each operator."""

    def __init__(self, look: Any) -> None:
        super().__init__()
        self.look = look
        self.seen: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.seen.append((str(func), self.look()))
        return result


def test_graph_can_be_read_while_it_grows() -> None:
    watcher = Watcher(lambda: len(internals.traced_graph().nodes))

    def function(x: torch.Tensor) -> torch.Tensor:
        with internals.FunctionalTensorMode(), watcher:
            y = internals.to_functional(x)
            return internals.unwrap_functional(y.exp().neg())

    with fake_mode() as mode:
        internals.trace(function, internals.fake_like(mode, torch.empty(2), torch.device("cpu")))
    counts = dict(watcher.seen)
    assert counts["aten.exp.default"] == 2  # the placeholder is the first
    assert counts["aten.neg.default"] == 3


def test_nodes_of_traced_tensors() -> None:
    table = torch.tensor([1.0, 2.0])

    def function(x: torch.Tensor) -> torch.Tensor:
        with internals.FunctionalTensorMode():
            y = internals.to_functional(x) * table
            y.add_(1)
            node = internals.traced_node(y)
            assert node is not None
            assert node.target is torch.ops.aten.add.Tensor
            product = node.all_input_nodes[0]
            assert product.target is torch.ops.aten.mul.Tensor
            constant = product.all_input_nodes[1]
            assert torch.equal(internals.traced_constant(constant), table)
            assert internals.traced_node(table) is None
            return internals.unwrap_functional(y)

    with fake_mode() as mode:
        internals.trace(function, internals.fake_like(mode, torch.empty(2), torch.device("cpu")))


def test_modes_can_be_set_aside() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with internals.FunctionalTensorMode():
            with internals.without_modes():
                assert type(torch.ones(2)) is torch.Tensor
                assert torch.ones(2).sum().item() == 2
            assert isinstance(torch.ones(2), internals.FunctionalTensor)
        return x.exp()

    with fake_mode() as mode:
        x = internals.fake_like(mode, torch.empty(2), torch.device("cpu"))
        module = internals.trace(function, x)
    names = [n.target for n in module.graph.nodes if n.op == "call_function"]
    assert torch.ops.aten.sum.default not in names


def test_functional_tensors() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with internals.FunctionalTensorMode():
            y = internals.to_functional(x)
            z = internals.to_functional(x)
            assert not internals.has_data_mutation(y)
            y[0].add_(1)
            z.exp()
            assert internals.has_data_mutation(y)
            assert not internals.has_data_mutation(z)
            return internals.unwrap_functional(y)

    with fake_mode() as mode:
        x = internals.fake_like(mode, torch.empty(2), torch.device("cpu"))
        module = internals.trace(function, x)
    operators = [n.target for n in module.graph.nodes if n.op == "call_function"]
    assert not any(op._schema.is_mutable for op in operators)
    assert torch.equal(module(torch.zeros(2)), torch.tensor([1.0, 0.0]))


def test_wrappers_keep_their_strides_and_stand_for_what_they_are_given() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with internals.FunctionalTensorMode():
            piece = internals.to_functional(x).unsafe_chunk(2, 1)[0]
            assert not internals.is_written_base(piece)
            piece.add_(1)
            assert internals.is_written_base(piece)
            assert not internals.is_written_base(piece[0])
            assert piece.stride() == (4, 1)
            assert internals.unwrap_functional(piece).stride() == (2, 1)
            internals.replace_functional(piece, torch.nn.functional.pad(piece, (0, 2))[:, :2])
            assert internals.unwrap_functional(piece).stride() == (4, 1)
            return internals.unwrap_functional(piece.exp())

    with fake_mode() as mode:
        x = internals.fake_like(mode, torch.empty(3, 4), torch.device("cpu"))
        module = internals.trace(function, x)
    assert torch.equal(module(torch.zeros(3, 4)), torch.ones(3, 2).exp())


def test_operators_with_a_functional_form_of_their_own_are_known() -> None:
    assert internals.functionalises_itself(torch.ops.aten.add_.Tensor)
    library = torch.library.Library("magis_internals", "DEF")
    library.define("write(Tensor(a!) x) -> ()")
    assert not internals.functionalises_itself(torch.ops.magis_internals.write.default)


@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_say_whether_they_run_in_onednn(transposed: bool) -> None:
    for dtype, expected in (
        (torch.float32, torch.backends.mkldnn.is_available()),
        (torch.double, 0),
    ):
        x, weight = torch.zeros(2, 3, 6, 6, dtype=dtype), torch.zeros(3, 3, 2, 2, dtype=dtype)
        how = ([3], [1, 1], [0, 0], [1, 1], transposed, [0, 0], 1)
        assert internals.runs_in_onednn(x, weight, *how) == bool(expected)


def test_backward_knows_its_forward_operator() -> None:
    """The number of the node being run is the one that was last when its operator ran."""

    def look() -> tuple[int, int | None]:
        node = internals.current_autograd_node()
        return (
            internals.forward_sequence_number(),
            None if node is None else internals.node_sequence_number(node),
        )

    x = torch.ones(2, requires_grad=True)
    with Watcher(look) as watcher, torch.autograd.set_multithreading_enabled(False):
        x.exp().tanh().sum().backward()
    forward = {name: last for name, (last, running) in watcher.seen if running is None}
    backward = {name: running for name, (_, running) in watcher.seen if running is not None}
    assert backward["aten.tanh_backward.default"] == forward["aten.tanh.default"]
    assert backward["aten.mul.Tensor"] == forward["aten.exp.default"]
    assert forward["aten.exp.default"] + 1 == forward["aten.tanh.default"]


def test_runtime_scalars() -> None:
    def traced(function: Any) -> tuple[list[str], list[str]]:
        scalars = internals.RuntimeScalars()
        with fake_mode() as mode:
            x = internals.fake_like(mode, torch.empty(2), torch.device("cpu"))
            module = internals.trace(function, [x, scalars.make("a", 0.7), scalars.make("b", 0.7)])
        calls = [n for n in module.graph.nodes if n.op == "call_function"]
        return [getattr(n.target, "__name__", str(n.target)) for n in calls], scalars.fixed()

    assert traced(lambda v: v[0] * (1 - v[1])) == (["sub", "mul.Tensor"], [])
    assert traced(lambda v: v[0] * (v[1] + v[2])) == (["add", "mul.Tensor"], [])
    assert traced(lambda v: v[0] * torch.sym_sqrt(v[1]))[1] == []
    assert traced(lambda v: v[0] if v[1] > 0.5 else -v[0])[1] == ["a"]
    assert traced(lambda v: v[0] * float(v[2]))[1] == ["b"]
    assert traced(lambda v: v[0] if v[1] != 1 else -v[0])[1] == ["a"]


def test_factor_of_one_is_not_a_decision() -> None:
    scalars = internals.RuntimeScalars()

    def function(v: Any) -> torch.Tensor:
        x = v[0].detach().requires_grad_()
        y = torch.add(x, x, alpha=v[1]).sum()  # its derivative asks whether alpha is 1
        return torch.autograd.grad(y, x)[0]

    with fake_mode() as mode:
        x = internals.fake_like(mode, torch.empty(2), torch.device("cpu"))
        internals.trace(function, [x, scalars.make("a", 0.7)])
    assert scalars.fixed() == []


def test_pretend_compiling() -> None:
    assert not torch.compiler.is_compiling()
    with internals.pretend_compiling():
        assert torch.compiler.is_compiling()
    assert not torch.compiler.is_compiling()


@pytest.mark.parametrize("reentrant", [True, False])
def test_plain_checkpoint(reentrant: bool) -> None:
    calls = []

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x.exp()

    x = torch.ones(2, requires_grad=True)
    with internals.plain_checkpoint():
        y = checkpoint(function, x, use_reentrant=reentrant)
    y.sum().backward()
    assert len(calls) == 1
    checkpoint(function, x, use_reentrant=reentrant).sum().backward()
    assert len(calls) == 3


def test_pytree_paths() -> None:
    tree = ({"b": 1, "a": [2, None]}, 3)
    leaves, spec = internals.pytree.tree_flatten_with_path(tree)
    paths = [internals.pytree.keystr(path) for path, _ in leaves]
    assert paths == ["[0]['b']", "[0]['a'][0]", "[0]['a'][1]", "[1]"]
    assert internals.pytree.tree_unflatten([v for _, v in leaves], spec) == tree


def test_data_dependence_has_its_own_exceptions() -> None:
    with fake_mode() as mode:
        x = internals.fake_like(mode, torch.empty(2), torch.device("cpu"))
        with pytest.raises(internals.DataDependentOutputException):
            x.sum().item()
        with pytest.raises(internals.DynamicOutputShapeException):
            x.nonzero()


def test_optimizers_tell_hooks_and_schedulers() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.ones(2)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    heard: list[tuple[str, int]] = []
    optimizer.register_step_pre_hook(lambda _, args, __: heard.append(("before", len(args))))
    optimizer.register_step_post_hook(lambda _, args, __: heard.append(("after", len(args))))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    with internals.optimizer_silenced(optimizer):
        optimizer.step()
    assert heard == []
    optimizer.step()
    assert heard == [("before", 1), ("after", 1)]
    before, after = internals.optimizer_hooks(optimizer)
    assert len(before) == len(after) == 1

    optimizer = torch.optim.SGD([weight], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    with internals.optimizer_silenced(optimizer):
        optimizer.step()
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    internals.note_step(optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


def test_steps_are_counted() -> None:
    steps = [torch.tensor(float(n)) for n in range(3)]
    internals.count_steps(steps)
    assert [float(step) for step in steps] == [1.0, 2.0, 3.0]


def test_distributed_wrappers(tmp_path: Path) -> None:
    meeting = f"file://{tmp_path}/meeting"
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    try:
        wrapper = DistributedDataParallel(torch.nn.BatchNorm1d(4))
        assert internals.unlike_plain_replicas(wrapper) == []
        assert internals.ignored_parameters(wrapper) == set()
        assert len(internals.buffers_to_broadcast(wrapper)) == 3
        with wrapper.no_sync():
            assert len(internals.buffers_to_broadcast(wrapper)) == 3  # not so the step before
            assert internals.buffers_to_broadcast(wrapper) == []
        assert internals.buffers_to_broadcast(wrapper) == []
        assert len(internals.buffers_to_broadcast(wrapper)) == 3
        wrapper.register_comm_hook(None, lambda _, bucket: bucket)
        assert [what for what, _ in internals.unlike_plain_replicas(wrapper)] == [
            "a communication hook"
        ]
        assert not internals.in_join(wrapper)
        with wrapper.join():
            assert internals.in_join(wrapper)
            wrapper(torch.randn(2, 4))
        plain = torch.nn.Linear(2, 2)
        late = DistributedDataParallel(
            plain,
            delay_all_reduce_named_params=[("bias", plain.bias)],
            param_to_hook_all_reduce=plain.weight,
        )
        assert [what for what, _ in internals.unlike_plain_replicas(late)] == [
            "delay_all_reduce_named_params"
        ]
    finally:
        torch.distributed.destroy_process_group()


def test_lists_are_added_in_place() -> None:
    results = [torch.ones(2), torch.ones(3)]
    internals.foreach_add(results, [torch.ones(2), 2 * torch.ones(3)])
    assert [result.tolist() for result in results] == [[2.0, 2.0], [3.0, 3.0, 3.0]]


def test_traced_nodes_of_wrappers_and_of_fakes_made_of_real_tensors() -> None:
    found = {}

    def function(x: torch.Tensor) -> torch.Tensor:
        with internals.FunctionalTensorMode():
            wrapped = internals.to_functional(x)
            found["wrapper"] = internals.traced_node(wrapped)
            found["fake"] = internals.traced_node(real[0])
            found["real"] = internals.traced_node(real)
            return internals.unwrap_functional(wrapped + 1)

    real = torch.arange(3)
    with fake_mode() as mode:
        x = internals.fake_like(mode, torch.empty(4), torch.device("cpu"))
        internals.trace(function, x)
    assert found["wrapper"].op == "placeholder"
    assert found["fake"].target is torch.ops.aten.select.int
    assert found["real"] is None


def test_whole_reads_of_wrappers_are_answered() -> None:
    answers = {"tolist": lambda t: "list", "numpy": lambda t: "array", "__bool__": lambda t: True}
    packed = {"_pack_padded_sequence": lambda *_: (torch.zeros(1), torch.ones(1))}
    before = torch._VF._pack_padded_sequence
    with internals.reads_answered(answers, packed), fake_mode() as mode:
        x = internals.fake_like(mode, torch.empty(4), torch.device("cpu"))
        with internals.FunctionalTensorMode():
            wrapped = internals.to_functional(x)
            assert (wrapped.tolist(), wrapped.numpy(), bool(wrapped)) == ("list", "array", True)
        assert torch._VF._pack_padded_sequence()[1].item
    assert torch._VF._pack_padded_sequence == before


def test_formulas_in_python_are_known() -> None:
    aten = torch.ops.aten
    known = [aten.softplus_backward.default, aten.add.Tensor, aten._unique2.default]
    assert [internals.has_python_formula(op) for op in known] == [True, True, False]


def test_a_graph_becomes_code() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.ops.aten.neg.default, (x,)),))
    module = internals.graph_module(torch.nn.Module(), graph)
    assert module.forward(torch.tensor(2.0))[0].item() == -2.0


def test_a_history_of_cuda_memory_is_asked_for_as_pytorch_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a GPU: the arguments, and that recording ends; test_recording.py has the rest."""
    memory = torch.cuda.memory
    asked: list[dict[str, Any]] = []

    def recorded(*args: Any, **options: Any) -> None:
        bound = inspect.signature(memory._record_memory_history_impl).bind(*args, **options)
        asked.append(bound.arguments)

    monkeypatch.setattr(memory, "_record_memory_history", recorded)
    monkeypatch.setattr(memory, "_snapshot", lambda device: {"segments": [], "device_traces": [[]]})
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    device = torch.device("cuda:0")
    with internals.cuda_memory_history(device, 100) as history:
        assert history == {}
    assert history == {"segments": [], "device_traces": [[]]}
    begun, ended = asked
    assert begun == {"enabled": "all", "stacks": "python", "max_entries": 100, "device": device}
    assert ended["enabled"] is None
