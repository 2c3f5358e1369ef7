"""torch.compile(backend="magis"): results as eager's, peaks as promised."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from compile_support import assert_as_eager, compiled, left_by, step
from torch import nn
from torch.nn import functional as F

import magis
from magis import zoo
from magis.measure import measure_peak
from magis.report import Report


class Network(nn.Module):
    """Batch norm, dropout, tied weights, a frozen and an unused parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.norm = nn.BatchNorm1d(8)
        self.hidden = nn.Linear(8, 8)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight
        self.frozen = nn.Linear(8, 8)
        self.frozen.requires_grad_(False)
        self.unused = nn.Linear(3, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.embed(tokens).mean(1))
        # A layout that is not contiguous: dropout draws in the order of memory.
        hidden = self.dropout(torch.tanh(self.hidden(hidden)).t()).t()
        return self.head(hidden + self.frozen(hidden))


def cross_entropy(model: nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens), labels)


def token_batch(size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 11, (size, 5)), torch.randint(0, 11, (size,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dropout_in_sixteen_bits(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Linear(8, 4)).to(dtype)
    assert_as_eager(squares, model, (torch.randn(16, 8, dtype=dtype),), rewrite=False, exact=True)


def test_masks_that_the_code_draws_itself() -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        hidden = model(x).t()  # not contiguous
        return (hidden * torch.empty_like(hidden).bernoulli_(0.5)).square().sum()

    torch.manual_seed(0)
    batch = (torch.randn(16, 8),)
    assert_as_eager(loss, nn.Linear(8, 4), batch, rewrite=False, exact=True)


def test_autocast() -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(x).float().square().mean()

    assert_as_eager(loss, layers(2), (torch.randn(16, 64),), rewrite=False, exact=True)


def layers(depth: int = 6) -> nn.Module:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(depth)]
    return nn.Sequential(*blocks)


def squares(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return (model(x) ** 2).sum()


def test_every_kind_of_state_bit_by_bit() -> None:
    torch.manual_seed(0)
    batches = [token_batch() for _ in range(3)]
    assert_as_eager(cross_entropy, Network(), *batches, rewrite=False, exact=True)


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("resnet50", "unet", "gpt-neo")]


@pytest.mark.parametrize("name", ["bert", *LONG])
def test_models_of_the_zoo_bit_by_bit(name: str) -> None:
    model, loss_fn, batch = zoo.build(name, size="tiny")
    names = list(batch) if isinstance(batch, dict) else None

    def loss(model: nn.Module, *items: Any) -> torch.Tensor:
        found = (
            loss_fn(model, *items)
            if names is None
            else loss_fn(model, **dict(zip(names, items, strict=True)))
        )
        return found[0] if isinstance(found, tuple) else found

    items = tuple(batch.values()) if isinstance(batch, dict) else tuple(batch)
    assert_as_eager(loss, model, items, items, rewrite=False, exact=True)


def test_recomputing_and_splitting_in_float64() -> None:
    model = layers().double()
    reports: list[Report] = []
    batch = (torch.randn(512, 64, dtype=torch.float64),)
    assert_as_eager(
        *(squares, model, batch),
        tolerance=1e-9,
        memory_limit="50%",
        time_budget=2.0,
        on_plan=reports.append,
    )
    assert reports[0].met
    assert reports[0].promised_peak_bytes <= 0.5 * reports[0].baseline_peak_bytes


def test_dropout_in_parts_and_again_in_float64() -> None:
    def noisy(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return (F.dropout(model(F.dropout(x, 0.2)), 0.4) ** 2).sum()

    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.3)) for _ in range(6)]
    batch = (torch.randn(512, 64, dtype=torch.float64),)
    reports: list[Report] = []
    assert_as_eager(
        *(noisy, nn.Sequential(*blocks).double(), batch),
        tolerance=1e-9,
        memory_limit="45%",
        time_budget=2.0,
        on_plan=reports.append,
    )
    assert reports[0].promised_peak_bytes < 0.6 * reports[0].baseline_peak_bytes
    assert reports[0]._plan is not None
    assert reports[0]._plan.graph.loop_count or reports[0].recomputed


@pytest.mark.parametrize("limit", ["100%", "60%", "45%"])
def test_the_peak_is_as_promised(limit: str) -> None:
    model, x = layers(), torch.randn(512, 64)
    reports: list[Report] = []
    ours = compiled(squares, reports, memory_limit=limit, time_budget=1.0)
    step(ours, model, x)
    model.zero_grad()
    found = measure_peak(lambda: step(ours, model, x))
    assert len(reports) == 1
    assert reports[0].met
    assert found.peak_bytes == reports[0].transient_peak_bytes


class Averages(nn.Module):
    """Buffers get new values in each step: counts of batches, and an average that is read again in
    the backward pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
        self.norms = nn.ModuleList(nn.BatchNorm1d(64) for _ in range(3))
        self.average: torch.Tensor
        self.register_buffer("average", torch.ones(512, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(layer(x)).relu()
        with torch.no_grad():
            self.average.mul_(0.9).add_(x, alpha=0.1)
        return x * self.average


@pytest.mark.parametrize("limit", ["100%", "80%"])
def test_new_values_of_buffers_are_gone_after_the_forward_half(limit: str) -> None:
    torch.manual_seed(0)
    model, x = Averages(), torch.randn(512, 64)
    reports: list[Report] = []
    ours = compiled(squares, reports, memory_limit=limit, time_budget=1.0)
    step(ours, model, x)
    model.zero_grad()
    found = measure_peak(lambda: step(ours, model, x))
    assert len(reports) == 1
    assert found.peak_bytes == reports[0].transient_peak_bytes


def test_new_values_of_buffers_that_the_backward_half_reads() -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(512, 64, dtype=torch.float64),) for _ in range(3)]
    model = Averages().double()
    assert_as_eager(squares, model, *batches, memory_limit="80%", time_budget=1.0, tolerance=1e-9)


def test_gradients_that_the_caller_owns_stay_as_they_are() -> None:
    model, x = layers(2), torch.randn(8, 64)
    given = torch.randn(8, 64)
    kept = given.clone()
    theirs = copy.deepcopy(model)
    compiled(model, time_budget=0.5)(x).backward(given)
    theirs(x).backward(kept.clone())
    assert torch.equal(given, kept)
    for name, value in left_by(theirs).items():
        torch.testing.assert_close(left_by(model)[name], value)


def test_the_graph_may_be_used_twice() -> None:
    model, x = layers(), torch.randn(512, 64)
    ours = compiled(model, memory_limit="60%", time_budget=0.5)
    loss = ours(x).square().sum()
    loss.backward(retain_graph=True)
    once = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, once[name]), name


def test_two_forward_passes_before_the_first_backward_pass() -> None:
    model, theirs = layers(), layers()
    xs = [torch.randn(512, 64) for _ in range(2)]
    ours = compiled(model, memory_limit="60%", time_budget=0.5)
    outputs = [ours(x) for x in xs]
    expected = [theirs(x) for x in xs]
    for output, other in zip(reversed(outputs), reversed(expected), strict=True):
        output.square().sum().backward()
        other.square().sum().backward()
    for name, value in left_by(theirs).items():
        torch.testing.assert_close(left_by(model)[name], value, rtol=1e-4, atol=1e-3)


def test_names_and_places_are_those_of_the_model() -> None:
    reports: list[Report] = []
    compiled(Network(), reports)(token_batch()[0]).sum().backward()
    plan = reports[0]._plan
    assert plan is not None
    kinds = {entry.path: entry.kind for entry in plan.graph.inputs}
    assert kinds["hidden.weight"] == "param"
    assert kinds["norm.running_mean"] == "buffer"
    assert kinds["['tokens']"] == "batch"
    places = {(t.module, t.backward) for t in plan.graph.tensors}
    assert {("hidden", False), ("hidden", True), ("norm", True)} <= places
    assert any("test_backend.py:" in t.source for t in plan.graph.tensors)


def test_other_shapes_are_compiled_anew() -> None:
    reports: list[Report] = []
    torch.manual_seed(0)
    batches = [token_batch(n) for n in (6, 9, 12, 6)]
    assert_as_eager(
        *(cross_entropy, Network(), *batches), rewrite=False, exact=True, on_plan=reports.append
    )
    assert len(reports) == 3


def test_numbers_that_vary_are_compiled_anew() -> None:
    def loss(model: nn.Module, x: torch.Tensor, count: int, factor: float) -> torch.Tensor:
        return (model(x).view(count, -1) * factor).square().sum()

    batches = [
        (torch.randn(8, 64), 2, 0.5),
        (torch.randn(8, 64), 4, 0.25),
        (torch.randn(8, 64), 8, 3.5),
    ]
    assert_as_eager(loss, layers(1), *batches, rewrite=False, exact=True)


def test_a_graph_break_makes_two_graphs() -> None:
    def loss(model: Any, x: torch.Tensor) -> torch.Tensor:
        hidden = model[0](x)
        torch._dynamo.graph_break()
        return model[1](hidden).square().sum()

    reports: list[Report] = []
    batch = (torch.randn(8, 64),)
    assert_as_eager(loss, layers(2), batch, rewrite=False, exact=True, on_plan=reports.append)
    assert len(reports) == 2


def test_without_gradients_the_forward_pass_is_planned_alone() -> None:
    model, x = layers(), torch.randn(64, 64)
    reports: list[Report] = []
    ours = compiled(model, reports)
    with torch.no_grad():
        assert torch.equal(ours(x), model(x))
    trained = ours(x)
    assert trained.requires_grad
    assert len(reports) == 2
    assert reports[0].baseline_peak_bytes < reports[1].baseline_peak_bytes
    with torch.inference_mode():
        assert torch.equal(ours(x), model(x))


def test_evaluation_mode_has_a_plan_of_its_own() -> None:
    model = Network()
    tokens, _ = token_batch()
    ours = compiled(model)
    ours(tokens)
    model.eval()
    assert torch.equal(ours(tokens), model(tokens))


@pytest.mark.parametrize(
    "more", [{"measure": 0.5}, {"strategy": "paper"}, {"latency_limit": 1.2, "memory_limit": None}]
)
def test_other_ways_to_plan(more: dict[str, Any]) -> None:
    reports: list[Report] = []
    options = {"memory_limit": "60%", "time_budget": 0.5, "on_plan": reports.append, **more}
    batch = (torch.randn(256, 64, dtype=torch.float64),)
    assert_as_eager(squares, layers(4).double(), batch, tolerance=1e-9, **options)
    assert reports[0].met
    assert reports[0].promised_peak_bytes < reports[0].baseline_peak_bytes


def test_dynamic_shapes_are_those_of_the_example() -> None:
    reports: list[Report] = []
    torch._dynamo.reset()
    options = {"time_budget": 0.05, "on_plan": reports.append, "reuse_plans": False}
    model = layers(1)
    ours = torch.compile(model, backend=magis.backend, dynamic=True, options=options)
    for length in (4, 6, 4):
        x = torch.randn(length, 64)
        assert torch.equal(ours(x), model(x))
    assert len(reports) == 2


def test_a_plan_is_kept_for_the_next_start() -> None:
    reports: list[Report] = []
    for _ in range(2):
        ours = compiled(squares, reports, memory_limit="60%", time_budget=0.5, reuse_plans=True)
        step(ours, layers(), torch.randn(512, 64))
    assert [report.stop_reason == "kept" for report in reports] == [False, True]
    assert reports[0].promised_peak_bytes == reports[1].promised_peak_bytes


def test_what_is_not_understood_is_named() -> None:
    x = torch.randn(2, 64)
    for options, words in [
        ({"memory_limits": 1}, r"did you mean memory_limit\?"),
        ({"optimizer": None}, r"needs magis\.optimize"),
        ({"memory_limit": "lots"}, r"memory limit 'lots' is not understood"),
        ({"memory_limit": 1000, "strict": True}, r"the limit was not met by the plan for a comp"),
        ({"time_budget": -1}, r"time_budget=-1"),
    ]:
        torch._dynamo.reset()
        bad = torch.compile(layers(1), backend=magis.backend, options=options)
        with pytest.raises(Exception, match=words):
            bad(x)
    with pytest.raises(Exception, match=r"says nothing to the backend magis"):
        torch.compile(layers(1), backend=magis.backend, mode="max-autotune")(x)


def test_a_limit_that_a_graph_cannot_keep_is_said() -> None:
    ours = compiled(layers(1), memory_limit=1000)
    with pytest.warns(
        UserWarning, match=r"not met by the plan for a compiled graph of \d+ operators"
    ):
        ours(torch.randn(2, 64))


class Averaging(nn.Module):
    """What reads the average before it is updated is cheap to compute again, and large to keep."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.average: torch.Tensor
        self.register_buffer("average", torch.rand(512, 64) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scales = [self.average * (i + 2) for i in range(len(self.layers))]
        self.average.mul_(0.9).add_(x.detach() * 0.1)
        for layer, scale in zip(self.layers, scales, strict=True):
            x = layer(x) * scale
        return x


def test_what_reads_a_buffer_before_it_is_written_stays_in_the_forward_half() -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(512, 64),) for _ in range(2)]
    reports: list[Report] = []
    assert_as_eager(
        *(squares, Averaging(), *batches),
        tolerance=1e-5,
        memory_limit="1%",
        time_budget=1.0,
        on_plan=reports.append,
    )
    assert reports[0].recomputed
