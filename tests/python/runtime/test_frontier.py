"""The whole frontier from Python: its promises, the choice of a plan, and steps made of it."""

from __future__ import annotations

import json
import warnings
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import magis
from magis import _core
from magis.errors import LimitError, LimitNotMetError, MagisError, PlanError
from magis.report.frontier import PlanFigures, telling_plans
from magis.report.loops import read_loops
from magis.runtime import frontier_search
from magis.runtime.frontier_search import frontier_of, pareto
from magis.runtime.scratch import with_parts_measured
from magis.timing.times import Times
from magis.verify import verify_plan


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 8)
    ).train()


def loss_fn(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x), y)


def batch(rows: int = 1024) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, 64, generator=generator)
    return x, torch.randint(0, 8, (rows,), generator=generator)


@pytest.fixture(scope="module")
def frontier() -> magis.Frontier:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    asked = magis.find_frontier(model(), loss_fn, batch(), time_budget=0.1, threads=1)
    found = frontier_of(plans_of(asked.graph), "cpu", measured=True)
    torch.set_num_threads(threads)
    return found


def plans_of(graph: _core.Graph, *, exact: bool = False) -> list[_core.Result]:
    """The same on every machine, however busy."""
    return _core.find_frontier(
        graph, device="cpu", state_budget=60_000, time_budget=120.0, threads=1, exact=exact
    )


def test_measured_times_are_promised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    options = {"time_budget": 0.2, "threads": 1, "measure": 20.0}
    found = magis.find_frontier(model(), loss_fn, batch(256), **options)  # type: ignore[arg-type]
    assert "measured now" in found.times
    device = Times(torch.device("cpu")).profile("cpu")
    for point in found.points:
        counted = point.plan.simulate(device)
        assert point.seconds == pytest.approx(counted.seconds)
    order = _core.Plan.program_order(found.graph).simulate(device)
    assert found.figures.baseline_seconds == pytest.approx(order.seconds)
    found.save(tmp_path / "plans")
    saved = json.loads((tmp_path / "plans" / "plan-001.json").read_text())
    assert saved["report"]["times"] == found.times
    # A share of the time is one of the measured baseline, not of what the profile says.
    latency = found.points[-1].seconds / found.figures.baseline_seconds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = magis.optimize(
            model(), loss_fn, batch(256), latency_limit=latency * 1.001, frontier=found
        )
    assert step.report.promised_peak_bytes == found.points[-1].peak_bytes


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "optimize", lambda *_, **__: pytest.fail("searched again"))


class TestPromises:
    def test_each_plan_is_smaller_and_slower(self, frontier: magis.Frontier) -> None:
        points = frontier.points
        assert len(points) == len(frontier) > 4
        for before, point in pairwise(points):
            assert point.peak_bytes < before.peak_bytes
            assert point.seconds > before.seconds
        order = _core.Plan.program_order(frontier.graph).simulate("cpu")
        assert points[0].seconds == pytest.approx(order.seconds)
        assert points[0].peak_ratio == points[0].peak_bytes / order.peak_bytes <= 1
        assert points[-1].time_ratio == points[-1].seconds / order.seconds > 1

    def test_every_plan_passes_the_verifier(self, frontier: magis.Frontier) -> None:
        for point in frontier.points:
            facts = verify_plan(point.plan.text(), device="cpu")
            assert facts.peak_bytes == point.peak_bytes >= point.lower_bound_bytes
            assert facts.host_peak_bytes == point.host_bytes == 0

    def test_what_parts_take_for_themselves_was_measured(self, frontier: magis.Frontier) -> None:
        split = [point for point in frontier.points if point.regions]
        assert split
        for point in split:
            assert with_parts_measured(point.plan.text(), "") == point.plan.text()
            loops = read_loops(point.plan.text()).loops.values()
            assert point.figures.parts == [loop.part_count for loop in loops]

    def test_plans_that_measuring_pushes_off_the_frontier_are_dropped(
        self, frontier: magis.Frontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        results = plans_of(frontier.graph)
        split = [result for result in results if result.regions]
        assert split
        # As if every part took as much as the whole step does now.
        wasteful = {id(result): result.peak_bytes * 10 for result in split}

        def measured(result: _core.Result, profile: str) -> Any:
            return SimpleNamespace(peak_bytes=wasteful[id(result)], seconds=result.seconds)

        monkeypatch.setattr(frontier_search, "with_parts_measured", measured)
        found = frontier_of(results, "cpu", measured=True)
        assert [point.peak_bytes for point in found.points] == [
            result.peak_bytes for result in pareto(r for r in results if not r.regions)
        ]

    def test_ctrl_c_while_measuring_keeps_what_is_known(
        self, frontier: magis.Frontier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        results = plans_of(frontier.graph)
        split = [result for result in results if result.regions]
        assert len(split) > 1
        calls = []
        measure = frontier_search.with_parts_measured

        def interrupted(result: _core.Result, profile: str) -> _core.Result:
            calls.append(result)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return measure(result, profile)

        monkeypatch.setattr(frontier_search, "with_parts_measured", interrupted)
        found = frontier_of(results, "cpu", measured=True)
        assert len(calls) == 2
        assert found.figures.stop_reason == "interrupted"
        assert "it was interrupted" in str(found)
        for point in found.points:
            assert with_parts_measured(point.plan.text(), "") == point.plan.text()
            assert verify_plan(point.plan.text(), device="cpu").peak_bytes == point.peak_bytes


class TestChoice:
    def test_within_a_limit(self, frontier: magis.Frontier) -> None:
        for point in frontier.points:
            assert frontier.best(memory_limit=point.peak_bytes) is point
            assert frontier.best(latency_limit=max(1.0, point.time_ratio)) is point
        assert frontier.best() is frontier.best(latency_limit=1.0)
        half = frontier.best(memory_limit="50%")
        assert half.peak_ratio <= 0.5
        faster = [point for point in frontier.points if point.seconds < half.seconds]
        assert all(point.peak_ratio > 0.5 for point in faster)

    def test_no_plan_keeps_the_limit(self, frontier: magis.Frontier) -> None:
        smallest = frontier.points[-1]
        assert smallest.peak_bytes > smallest.lower_bound_bytes
        with pytest.raises(LimitNotMetError, match="no plan of the frontier keeps the limit"):
            frontier.best(memory_limit=smallest.peak_bytes - 1)
        with pytest.raises(LimitError, match="certified lower bound") as raised:
            frontier.best(memory_limit=smallest.lower_bound_bytes - 1)
        assert "Of the frontier, the smallest takes" in str(raised.value)
        with pytest.raises(LimitError, match="out of range"):
            frontier.best(latency_limit=0.5)

    def test_the_table_keeps_both_ends_and_the_corners(self) -> None:
        # A line from (0, 100) to (50, 50), then one to (60, 0): the corner is the plan at 50.
        steep = [(10 * i, 100 - 10 * i) for i in range(6)]
        flat = [(50 + 2 * i, 50 - 10 * i) for i in range(1, 6)]
        plans = [
            PlanFigures(memory, 0, float(seconds), [], 0, 0) for seconds, memory in steep + flat
        ]
        assert telling_plans(plans, 3) == [0, 5, 10]
        assert telling_plans(plans, 2) == [0, 10]
        assert telling_plans(plans[:1], 20) == [0]
        assert telling_plans(plans, 20) == list(range(11))

    def test_in_words(self, frontier: magis.Frontier) -> None:
        lines = str(frontier).splitlines()
        assert lines[0].startswith(f"{len(frontier)} plans, the fastest first; before: ")
        assert sum("lower bound" in line and "%" in line for line in lines) == 1
        assert f"<magis.Frontier of {len(frontier)} plans: " in repr(frontier)


class TestFiles:
    def test_what_is_saved_is_loaded(self, frontier: magis.Frontier, tmp_path) -> None:
        for _ in range(2):  # the second replaces the first
            frontier.save(tmp_path / "frontier")
        loaded = magis.Frontier.load(tmp_path / "frontier")
        assert loaded.figures == frontier.figures
        assert loaded.graph.text() == frontier.graph.text()
        assert [p.plan.text() for p in loaded.points] == [p.plan.text() for p in frontier.points]
        assert [path.name for path in tmp_path.iterdir()] == ["frontier"]

    def test_damage_shows_at_once(self, frontier: magis.Frontier, tmp_path) -> None:
        folder = tmp_path / "frontier"
        frontier.save(folder)
        graph = folder / "graph.magis"
        text = graph.read_text()
        graph.write_text(text[: text.rindex("output ")])
        with pytest.raises(PlanError, match=r"graph\.magis: is not the graph that"):
            magis.Frontier.load(folder)
        graph.unlink()
        with pytest.raises(PlanError, match=r"graph\.magis: the captured graph cannot be read"):
            magis.Frontier.load(folder)
        graph.write_text(text)
        (folder / f"plan-{len(frontier):03d}.json").unlink()
        with pytest.raises(PlanError, match=f"plan-{len(frontier):03d}.json"):
            magis.Frontier.load(folder)

    def test_other_files_stay(self, frontier: magis.Frontier, tmp_path) -> None:
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(PlanError, match="no frontier that could be replaced"):
            frontier.save(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


class TestSteps:
    @pytest.mark.usefixtures("no_search")
    def test_a_step_of_a_point(self, frontier: magis.Frontier) -> None:
        net = model()
        expected = loss_fn(net, *batch())
        expected.backward()  # type: ignore[no-untyped-call]
        wanted = [p.grad for p in net.parameters()]
        for limit in ({"memory_limit": "50%"}, {"latency_limit": 1.1}):
            net.zero_grad()
            step = magis.optimize(net, loss_fn, batch(), frontier=frontier, **limit)
            point = frontier.best(**limit)
            assert step.plan.text() == point.plan.text()
            assert step.report.promised_peak_bytes == point.peak_bytes
            assert step.report.met
            assert step.report.replayed.startswith("on the batch: ")
            torch.testing.assert_close(step(*batch()), expected.detach(), rtol=1e-6, atol=0)
            for parameter, grad in zip(net.parameters(), wanted, strict=True):
                assert parameter.grad is not None
                tolerance = 1e-6 * float(grad.abs().max())
                torch.testing.assert_close(parameter.grad, grad, rtol=0, atol=tolerance)

    @pytest.mark.usefixtures("no_search")
    def test_a_frontier_from_disk(self, frontier: magis.Frontier, tmp_path) -> None:
        frontier.save(tmp_path / "frontier")
        loaded = magis.Frontier.load(tmp_path / "frontier")
        step = magis.optimize(model(), loss_fn, batch(), memory_limit="50%", frontier=loaded)
        assert step.plan.text() == frontier.best(memory_limit="50%").plan.text()

    @pytest.mark.usefixtures("no_search")
    def test_a_limit_that_no_plan_keeps(self, frontier: magis.Frontier) -> None:
        most = frontier.points[-1].peak_bytes - 1
        with pytest.warns(UserWarning, match="the limit was not met"):
            step = magis.optimize(
                model(), loss_fn, batch(), memory_limit=most, frontier=frontier, verify="off"
            )
        assert step.report.promised_peak_bytes == most + 1
        assert not step.report.met
        with pytest.raises(LimitNotMetError):
            magis.optimize(
                model(), loss_fn, batch(), memory_limit=most, frontier=frontier, strict=True
            )

    def test_another_shape_is_searched_for(self, frontier: magis.Frontier) -> None:
        with pytest.warns(UserWarning, match="the frontier is not one of this step"):
            step = magis.optimize(
                model(),
                loss_fn,
                batch(512),
                memory_limit="90%",
                frontier=frontier,
                time_budget=0.05,
            )
        assert step.report.baseline_peak_bytes < frontier.figures.baseline_peak_bytes
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step(*batch())  # planned anew, from the frontier
        assert step.plan.text() == frontier.best(memory_limit="90%").plan.text()

    def test_arguments_that_do_not_fit(self, frontier: magis.Frontier) -> None:
        def refused(match: str, **options: Any) -> None:
            with pytest.raises(MagisError, match=match):
                magis.optimize(model(), loss_fn, batch(), **{"memory_limit": "50%", **options})

        refused("do not go together", frontier=frontier, batch_parts=2)
        refused("those of 'cpu', this step's of 'a100'", frontier=frontier, device="a100")
        refused("needs a frontier that was found with exact=True", frontier=frontier, exact=True)
        refused("takes what magis.find_frontier", frontier="frontier")
        with pytest.raises(MagisError, match="time_budget"):
            magis.find_frontier(model(), loss_fn, batch(), time_budget=-1.0)

    def test_plans_that_keep_too_much_on_the_host_are_passed_over(self) -> None:
        swapping = magis.find_frontier(
            model(), loss_fn, batch(), time_budget=0.5, threads=1, swap=True, device="a100"
        )
        point = max(swapping.points, key=lambda point: point.host_bytes)
        most = point.host_bytes
        assert any(other.host_bytes < most for other in swapping.points)
        assert swapping.nearest(point.peak_bytes, None, most_on_host=most) == point
        found = swapping.nearest(point.peak_bytes, None, most_on_host=most - 1)
        assert found is not None
        assert found.host_bytes < most
        assert found.met == (found.peak_bytes <= point.peak_bytes)
        assert swapping.nearest(None, point.seconds, most_on_host=most) == point


def test_the_search_can_be_ended_and_watched() -> None:
    seen = []

    def watch(progress: _core.Progress) -> bool:
        seen.append(progress.elapsed)
        return len(seen) < 3

    found = magis.find_frontier(
        model(), loss_fn, batch(), time_budget=60.0, threads=1, progress=watch
    )
    assert found.figures.stop_reason == "interrupted"
    assert len(seen) == 3
    assert found.points[0].time_ratio == pytest.approx(1.0)


def test_exact_frontiers_add_up_nothing_part_by_part() -> None:
    net = model()
    asked = magis.find_frontier(net, loss_fn, batch(), time_budget=0.1, threads=1, exact=True)
    assert asked.figures.exact
    results = plans_of(asked.graph, exact=True)
    found = frontier_of(results, "cpu", measured=True, exact=True)
    assert any(point.regions for point in found.points)
    for point in (*asked.points, *found.points):
        assert "_mm_part(" not in point.plan.text()
        assert "magis.add_part(" not in point.plan.text()
    smallest = found.points[-1].peak_bytes
    with warnings.catch_warnings():
        # Where regions do not give the bits of eager here, the step is planned without them.
        warnings.filterwarnings("ignore", message="the limit was not met")
        step = magis.optimize(
            net,
            loss_fn,
            batch(),
            memory_limit=smallest,
            frontier=found,
            exact=True,
            time_budget=0.3,
        )
    expected = loss_fn(net, *batch())
    expected.backward()  # type: ignore[no-untyped-call]
    wanted = [p.grad for p in net.parameters()]
    net.zero_grad()
    assert torch.equal(step(*batch()), expected.detach())
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), wanted, strict=True))
