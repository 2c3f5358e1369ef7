"""What cannot be captured is refused with one message that names the place and the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from magis.capture import capture
from magis.capture.checks import REPLICATED, SHARDED
from magis.errors import CaptureError

Function = Callable[[torch.Tensor], torch.Tensor]
X = torch.randn(3, 4)


class Inner(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Model(nn.Module):
    """Runs `function` in the submodule `block.0`, behind a parameter."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.block = nn.Sequential(Inner(function))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(self.linear(x))


def total(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).sum()


def refused(*args: Any, **options: Any) -> str:
    with pytest.raises(CaptureError) as caught:
        capture(*args, **options)
    return str(caught.value)


def item(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()


def as_int(x: torch.Tensor) -> torch.Tensor:
    return x * int(x.sum())


def to_numpy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.from_numpy(x.detach().numpy())


def to_list(x: torch.Tensor) -> torch.Tensor:
    return x * len(x.tolist())


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (item, "return x * x.sum().item()"),
        (as_int, "return x * int(x.sum())"),
        (to_numpy, "return x + torch.from_numpy(x.detach().numpy())"),
        (to_list, "return x * len(x.tolist())"),
    ],
)
def test_reading_data(function: Function, code: str) -> None:
    message = refused(Model(function), total, X)
    line = function.__code__.co_firstlineno + 1
    assert message.startswith(
        f"module 'block.0' (tests/python/capture/test_errors.py:{line}: `{code}`): the code reads"
        " the value of a tensor"
    )
    assert "torch.where" in message


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[x > 0],
        lambda x: x.nonzero().float(),
        lambda x: torch.masked_select(x, x > 0),
        lambda x: x.repeat_interleave((x[:, 0] > 0).long(), 0),
    ],
)
def test_shapes_that_depend_on_data(function: Function) -> None:
    message = refused(Model(function), total, X)
    assert message.startswith("module 'block.0' (tests/python/capture/test_errors.py:")
    assert "the shape of a result depends on the data" in message


def failing(x: torch.Tensor) -> torch.Tensor:
    raise KeyError("no such head")


def test_the_model_fails_by_itself() -> None:
    with pytest.raises(CaptureError) as caught:
        capture(Model(failing), total, X)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "module 'block.0'" in str(caught.value)
    assert "KeyError: 'no such head'" in str(caught.value)


def test_an_operator_refuses_its_operands(caplog: pytest.LogCaptureFixture) -> None:
    message = refused(Model(lambda x: x @ torch.randn(7, 7)), total, X)
    assert "RuntimeError: a and b must have same reduction dim" in message
    assert "failed while attempting to run meta" not in caplog.text


def test_a_failure_in_backward() -> None:
    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g * g.sum().item()

    assert "return g * g.sum().item()" in refused(Model(Backward.apply), total, X)


@pytest.mark.parametrize(
    ("loss_fn", "message"),
    [
        (lambda m, x: m(x), r"the loss has shape \(3, 4\); it must be a scalar"),
        (lambda m, x: m(x).sum().long(), "the loss is torch.int64; it must be floating point"),
        (lambda m, x: m(x).sum().detach(), "does not depend on anything that requires a gradient"),
        (lambda m, x: 1.0, "loss_fn returned a float"),
        (lambda m, x: None, "loss_fn returned a NoneType"),
        (lambda m, x: (), "loss_fn returned a tuple"),
        (lambda m, x: (m(x).sum(), object()), r"returns a object \(result\[1\]\)"),
        (lambda m: m(X).sum(), "TypeError: .* takes 1 positional argument but 2 were given"),
    ],
)
def test_losses(loss_fn: Callable[..., Any], message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        capture(nn.Linear(4, 4), loss_fn, X)


def test_all_parameters_frozen() -> None:
    message = refused(nn.Linear(4, 4).requires_grad_(False), total, X)
    assert "are all parameters frozen" in message


def wrapped(model: nn.Module, name: str) -> nn.Module:
    """A stand-in for a wrapper that needs a process group to be made."""
    kind = type(name, (nn.Module,), {})
    wrapper = kind()
    wrapper.module = model
    return wrapper


@pytest.mark.parametrize("name", ["DistributedDataParallel", "DataParallel"])
def test_replicating_wrappers(name: str) -> None:
    message = refused(wrapped(nn.Linear(4, 4), name), total, X)
    assert f"wrapped in {name}" in message
    assert "model.module" in message
    inside = refused(nn.Sequential(wrapped(nn.Linear(4, 4), name)), total, X)
    assert inside.startswith("module '0' is wrapped")


def test_sharded_parameters(tmp_path: Path) -> None:
    meeting = f"file://{tmp_path}/meeting"
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        second = nn.Sequential(nn.Linear(4, 4))
        fully_shard(second, mesh=mesh)
        message = refused(second, total, X)
        assert message.startswith("the model is sharded by FSDPModule. A planned step needs whole")
        assert "in a DistributedDataParallel" in message
        spread = parallelize_module(nn.Linear(4, 4), mesh, ColwiseParallel())
        message = refused(spread, total, X)
        assert message.startswith("parameter weight is a DTensor, spread over several processes")
        assert "in a DistributedDataParallel" in message
    finally:
        torch.distributed.destroy_process_group()


def test_names_of_wrappers_are_pytorchs() -> None:
    replicated = (nn.parallel.DistributedDataParallel, nn.DataParallel)
    assert {kind.__name__ for kind in replicated} == REPLICATED
    assert {kind.__name__ for kind in (FullyShardedDataParallel, FSDPModule)} == SHARDED


def test_compiled_and_scripted_models() -> None:
    assert "_orig_mod" in refused(torch.compile(nn.Linear(4, 4)), total, X)
    assert "TorchScript" in refused(torch.jit.script(nn.Linear(4, 4)), total, X)


def test_models_of_the_wrong_kind() -> None:
    assert refused("bert", total, X) == "the model is a str, not a torch.nn.Module"
    assert "run the model once" in refused(nn.LazyLinear(4), total, X)


def test_devices() -> None:
    known = "steps can be captured for cpu and cuda"
    assert refused(nn.Linear(4, 4), total, X, device="gpu0") == f"unknown device 'gpu0'; {known}"
    assert refused(nn.Linear(4, 4), total, X, device="mps") == f"unknown device 'mps'; {known}"


def test_several_devices() -> None:
    """The meta device counts as the CPU, so a device that is not here has to be faked."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    with FakeTensorMode() as mode:
        fake = FakeTensor(mode, torch.empty(3, 4, device="meta"), torch.device("cuda:1"))
    message = refused(nn.Linear(4, 4), total, fake)
    assert "parameter weight is on cpu, batch[0] is on cuda:1" in message


def test_sparse_and_quantized_tensors() -> None:
    model = nn.Linear(4, 4)
    model.register_buffer("mask", torch.eye(4).to_sparse())
    assert "buffer mask is torch.sparse_coo; only dense tensors" in refused(model, total, X)
    quantized = torch.quantize_per_tensor(torch.ones(3, 4), 0.1, 0, torch.qint8)
    assert "batch[0] is quantized" in refused(nn.Linear(4, 4), total, quantized)


def test_sparse_gradients() -> None:
    embedding = nn.Embedding(5, 3, sparse=True)
    assert "sparse=False" in refused(embedding, total, torch.tensor([1, 2]))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (3, "the batch is a int"),
        ((X, object()), r"batch\[1\] is a object, which is neither a tensor"),
        ((X, {"a": [np.zeros(3)]}), r"batch\[1\]\['a'\]\[0\] is a numpy.ndarray"),
        ({1: X}, "the batch is a mapping with the key 1"),
        ((nn.Linear(4, 4)(X),), r"batch\[0\] is the result of a differentiable computation"),
    ],
)
def test_batches(batch: Any, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        capture(nn.Linear(4, 4), total, batch)


def test_writing_to_the_batch() -> None:
    message = refused(nn.Linear(4, 4), lambda m, x: m(x.mul_(2)).sum(), X.clone())
    assert "writes in place to batch[0]" in message


OUTSIDE = torch.randn(4, requires_grad=True)
COUNT = torch.zeros(1)
HUGE = torch.zeros((64 << 20) // 4 + 1)


def counting(x: torch.Tensor) -> torch.Tensor:
    COUNT.add_(1)
    return x * COUNT


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x * OUTSIDE, "yet it requires a gradient"),
        (lambda x: F.linear(x, weight=OUTSIDE.reshape(1, 4)), "yet it requires a gradient"),
        (counting, "writes in place to a tensor .* Register it with register_buffer"),
        (lambda x: x + HUGE.sum(), r"has 67108868 bytes.* Register it with register_buffer"),
        (lambda x: x + torch.empty((), device="meta"), "the meta device"),
        (lambda x: x * torch.rand(4, generator=torch.Generator()), "a generator of its own"),
        (
            lambda x: x * torch.empty(4).bernoulli_(0.5, generator=torch.Generator()),
            "a generator of its own",
        ),
    ],
)
def test_what_the_model_closes_over(function: Function, message: str) -> None:
    with pytest.raises(CaptureError, match=message) as caught:
        capture(Model(function), total, X)
    assert str(caught.value).startswith("module 'block.0' (tests/python/capture/test_errors.py:")
    assert not COUNT.any()


def test_buffer_of_another_shape() -> None:
    class Growing(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = torch.cat([self.seen, x])
            return super().forward(x)

    model = Growing(4, 4)
    model.register_buffer("seen", torch.zeros(0, 4))
    assert "a buffer must keep its dtype and shape" in refused(model, total, X)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.count = torch.zeros(())
        self.last = torch.zeros(())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count = self.count + 1
        y: torch.Tensor = self.linear(x) * self.count
        self.last = y
        return y


def test_state_in_an_ordinary_attribute() -> None:
    """What is only written (the last result, for a look at it) does no harm."""
    message = refused(nn.Sequential(Counter()), total, X)
    assert message.startswith("the step reads 0.count, a tensor that is neither")
    assert "register_buffer" in message
    model = Counter()
    model.register_buffer("count", model.__dict__.pop("count"))
    assert 'output buffer "count"' in capture(model, total, X).text


def test_optimizers() -> None:
    message = refused(nn.Linear(4, 4), total, X, optimizer="adamw")
    assert message == "optimizer= takes a torch.optim.Optimizer, not a str"


def test_a_tensor_that_requires_a_gradient_may_be_given_once_only() -> None:
    model = nn.Linear(3, 3)
    x = torch.randn(2, 3, requires_grad=True)

    def loss(m: nn.Module, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (m(a) * b.sum()).sum()

    with pytest.raises(CaptureError, match=r"batch\[0\] and batch\[1\] are the same tensor.*once"):
        capture(model, loss, (x, x))
    with pytest.raises(CaptureError, match=r"batch\[1\] is the model's parameter weight"):
        capture(model, loss, (x, model.weight))
    capture(model, loss, (x, model.weight.detach()))
    y = x.detach()
    capture(model, loss, (y, y))


def test_batch_norm_without_momentum_is_named() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None))

    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return m(x).sum()

    with pytest.raises(CaptureError, match=r"module '1': batch norm with momentum=None.*momentum"):
        capture(model, loss, (X,))
    capture(model.eval(), loss, (X,))


class Overlapping(nn.Module):
    def __init__(self, start: int, writes: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("full", torch.zeros(8))
        self.register_buffer("head", self.full[:4])
        self.register_buffer("part", self.full[start:])
        del self.full
        self.writes = writes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.writes:
            self.head.add_(1)
        return self.linear(x) * self.head + self.part.sum()


def test_a_written_buffer_that_overlaps_another_is_refused() -> None:
    def loss(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return m(x).sum()

    with pytest.raises(CaptureError, match=r"the buffer head, which shares.* the buffer part;"):
        capture(Overlapping(3, writes=True), loss, (X,))
    capture(Overlapping(4, writes=True), loss, (X,))
    capture(Overlapping(3, writes=False), loss, (X,))


class Keeper(nn.Module):
    """Adds to a buffer, in place or by another tensor."""

    def __init__(self, total: torch.Tensor, in_place: bool) -> None:
        super().__init__()
        self.register_buffer("total", total)
        self.in_place = in_place

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.in_place:
            self.total.add_(1)
        else:
            self.total = self.total + 1
        return x + self.total


@pytest.mark.parametrize("first", [True, False])
def test_a_shared_buffer_that_one_module_replaces(first: bool) -> None:
    def model(in_place: bool) -> nn.Module:
        total = torch.zeros(4)
        keepers = [Keeper(total, in_place), Keeper(total, True)]
        return nn.Sequential(nn.Linear(4, 4), *(keepers if first else keepers[::-1]))

    name = "1.total" if first else "2.total"
    message = refused(model(False), total, X)
    assert message.startswith(f"the step replaces the buffer {name}, which is the same tensor as")
    capture(model(True), total, X)
