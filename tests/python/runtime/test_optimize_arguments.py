"""What `magis.optimize` takes and refuses, and what it says about the result."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings

import pytest
import torch
from runtime_support import Line, Network, cross_entropy, plan, squares, token_batch
from torch import nn

import magis
from magis import _core
from magis.errors import (
    CaptureError,
    LimitError,
    LimitNotMetError,
    MagisError,
    MissingExtraError,
)
from magis.runtime import planner

X = torch.ones(2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_limit": "8 GB ish"}, "memory limit '8 GB ish' is not understood"),
        ({"latency_limit": 0.5}, "latency limit 0.5 is out of range"),
        ({"memory_limit": 0.5, "latency_limit": 1.1}, "both a memory limit and a latency limit"),
        ({"device": "rtx9090"}, "unknown device 'rtx9090'; choose one of .*reference"),
        (
            {"on_new_shape": "ignore"},
            "on_new_shape='ignore' is not understood; choose one of replan",
        ),
        ({"verify": "maybe"}, "verify='maybe' is not understood"),
        (
            {"strategy": "random"},
            "strategy='random' is not understood; choose one of default, paper",
        ),
        ({"strategy": "paper", "batch_parts": 2}, "leave batch_parts out"),
        ({"time_bound": True}, "time_bound=True is on the time within a memory_limit: give that"),
        ({"time_budget": -1}, "time_budget=-1 must be a number that is at least 0"),
        ({"time_budget": "10s"}, "time_budget='10s' must be a number"),
        ({"plan_cache": 0}, "plan_cache=0 must be a number that is at least 1"),
        ({"verify_every": True}, "verify_every=True must be a number"),
        ({"tolerance": -1e-6}, "tolerance=-1e-06 must be"),
    ],
)
def test_arguments_that_are_not_understood(options, message):
    with pytest.raises(MagisError, match=message):
        magis.optimize(Line(), squares, (X,), **options)


def test_a_wrapped_model_and_a_loss_that_is_no_scalar_are_refused_and_nothing_has_changed():
    model = Line()
    with pytest.raises(CaptureError, match="DataParallel"):
        magis.optimize(nn.DataParallel(model), squares, (X,))
    with pytest.raises(CaptureError, match="scalar"):
        magis.optimize(model, lambda m, x: m(x), (X,))
    assert model.w.grad is None


def test_a_limit_below_the_lower_bound_quotes_it_and_what_dominates():
    model, batch = Network(), token_batch(64)
    bound = plan(model, cross_entropy, batch).report
    with pytest.raises(LimitError) as caught:
        plan(model, cross_entropy, batch, memory_limit=bound.lower_bound_bytes - 1)
    message = str(caught.value)
    assert f"{bound.lower_bound_bytes:,} bytes" in message
    assert bound.lower_bound_reason in message
    assert "Give a higher limit, or a smaller batch" in message


def test_the_bound_on_time_is_in_the_report(monkeypatch):
    model, batch = Network(), token_batch(64)
    step = plan(model, cross_entropy, batch, memory_limit=0.8, time_bound=True)
    bound = step.report.time_bound
    assert 0 < bound.seconds <= step.report.seconds
    assert bound.gap == pytest.approx(step.report.seconds / bound.seconds - 1)
    assert bound.rows()[0] in str(step.report)
    assert plan(model, cross_entropy, batch, memory_limit=0.8).report.time_bound is None
    monkeypatch.setattr("magis.bounds.programme.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="HiGHS"):
        plan(model, cross_entropy, batch, memory_limit=0.8, time_bound=True)


def never_met(monkeypatch):
    """The search finds nothing but program order, whatever is asked for."""
    optimize = _core.optimize

    class Unmet:
        met = False

        def __init__(self, result):
            self._result = result

        def __getattr__(self, name):
            return getattr(self._result, name)

    def found(graph, **options):
        order = {**options, "memory_limit": 1 << 50, "latency_limit": None, "state_budget": 1}
        return Unmet(optimize(graph, **{**order, "time_budget": 0.0}))

    monkeypatch.setattr(planner._core, "optimize", found)


def test_a_limit_that_is_not_met_is_warned_about_and_reported(monkeypatch):
    never_met(monkeypatch)
    with pytest.warns(UserWarning, match=r"the limit was not met \(memory at most 90 %.*asked for"):
        step = plan(Network(), cross_entropy, token_batch(64), memory_limit=0.9)
    assert step.report.met is False
    assert step(*token_batch(64)).isfinite()


def test_strict_raises_instead(monkeypatch):
    never_met(monkeypatch)
    with pytest.raises(LimitNotMetError, match="the limit was not met"):
        plan(Network(), cross_entropy, token_batch(64), memory_limit=0.9, strict=True)


def test_of_two_plans_the_one_is_named_that_the_message_is_about(monkeypatch):
    never_met(monkeypatch)
    with pytest.warns(UserWarning, match="the limit was not met") as seen:
        plan(Network(), cross_entropy, token_batch(64), memory_limit=0.9, accumulate=2)
    words = [str(w.message) for w in seen if "not met" in str(w.message)]
    assert len(words) == 2
    assert words[0].startswith("the limit was not met by the plan for the first call (")
    assert words[1].startswith("the limit was not met by the plan for calls that add into")


def test_nothing_gained_is_said_loudly_where_the_user_called():
    with pytest.warns(
        UserWarning, match="magis gained nothing.*the limit holds without any change"
    ) as seen:
        step = magis.optimize(Line(), squares, (X,), memory_limit="1GB", verify="off")
    gained = [w for w in seen if "gained nothing" in str(w.message)]
    assert [w.filename for w in gained] == [__file__]
    assert "NOTHING WAS GAINED" in str(step.report)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(X)  # not said again


def test_ratios_are_of_eagers_measured_peak(monkeypatch):
    asked = []
    optimize = _core.optimize

    def recorded(graph, **options):
        asked.append(options["memory_limit"])
        return optimize(graph, **options)

    monkeypatch.setattr(planner._core, "optimize", recorded)
    step = plan(Network(), cross_entropy, token_batch(512), memory_limit="90%")
    assert step.report.baseline_source == "eager, measured"
    assert set(asked) == {int(0.9 * step.report.baseline_peak_bytes)}
    assert step.report.limit == "memory at most 90 % of the baseline's peak"


def deep_network():
    layers = [nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(12)]
    return nn.Sequential(*layers), (torch.randn(64, 16),)


def test_progress_is_called_and_ends_the_search_if_it_says_so():
    model, batch = deep_network()
    seen = []
    step = plan(model, squares, batch, progress=seen.append, memory_limit=0.5)
    assert len(seen) > 1
    assert seen[-1].best_peak_bytes >= step.report.promised_peak_bytes
    step = plan(
        model, squares, batch, progress=lambda progress: False, memory_limit=0.5, verify="off"
    )
    assert step.report.stop_reason == "interrupted"


def test_what_progress_raises_comes_through():
    model, batch = deep_network()

    def interrupted(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan(model, squares, batch, progress=interrupted, memory_limit=0.5)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_a_bar_on_stderr_and_nothing_else_does(monkeypatch, capsys):
    model, batch = deep_network()
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    plan(model, squares, batch, memory_limit=0.5, verify="off")
    assert "states" in terminal.getvalue()
    monkeypatch.undo()
    capsys.readouterr()
    plan(model, squares, batch, memory_limit=0.5, verify="off")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_planning_under_no_grad_and_inference_mode():
    for mode in (torch.no_grad, torch.inference_mode):
        model = Line()
        with mode():
            step = plan(model, squares, (X,))
        step(X)
        assert model.w.grad.tolist() == [6.0, 8.0]


def test_a_model_without_anything_to_train_is_refused():
    model = Line()
    model.requires_grad_(False)
    with pytest.raises(CaptureError, match="gradient"):
        plan(model, squares, (X,))


def test_what_a_step_says_about_itself():
    step = plan(Line(), squares, (X,))
    assert repr(step).startswith("<magis.Step of Line: peak ")
    assert step.source == step.plan.source(step.source.split('"""')[1])
    assert "def step(inputs):" in step.source
    assert step.report.promised_peak_bytes == step.plan.simulate("cpu").peak_bytes


def test_a_mapping_that_is_no_dict_is_a_batch_of_keyword_arguments():
    from collections import UserDict

    step = plan(Line(), squares, UserDict(x=X))
    assert step(**UserDict(x=X)).item() == 25.0


def test_importing_magis_does_not_import_torch():
    code = "import sys, magis; magis.errors.MagisError; print('torch' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"


def test_another_version_of_torch_is_named(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.12.1")
    with pytest.warns(UserWarning, match=r"made for torch 2\.13, this is torch 2\.12\.1"):
        magis._check_torch()
