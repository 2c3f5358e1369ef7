"""One graph of torch.compile from joint graph to two functions."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from magis import _core
from magis import _torch_dynamo as dynamo
from magis.errors import MagisError
from magis.limits import MemoryLimit
from magis.report import Report
from magis.runtime.auto_limit import is_auto, kept_bytes, room_now
from magis.runtime.call import plain_modes
from magis.runtime.compiled import CompiledPlan
from magis.runtime.plan_file import COMPILED
from magis.runtime.planner import (
    Bound,
    baseline_of,
    bound_for,
    search,
    tell_not_met,
)
from magis.runtime.scratch import with_measured_scratch
from magis.torch_compile.halves import cut
from magis.torch_compile.joint import InputName, Joint, joint_graph
from magis.torch_compile.options import Options
from magis.torch_compile.shells import Shells, results_of, with_literals

if TYPE_CHECKING:
    from magis.report.found import Found
    from magis.runtime.planner import SearchSettings

logger = logging.getLogger("magis")

_numbers = itertools.count()


class Planner:
    """Plans one graph: what torch.compile's autograd layer calls to split it and to make functions
    of the two halves.
    """

    def __init__(self, options: Options, names: Sequence[InputName]) -> None:
        self._options = options
        self._names = names
        self._forward: dynamo.Boxed | None = None
        self._backward: dynamo.Boxed | None = None

    def partition(
        self,
        joint: torch.fx.GraphModule,
        inputs: tuple[Sequence[Any], Sequence[Any]],
        *,
        num_fwd_outputs: int,
        **_: Any,
    ) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
        """The joint graph's halves as the autograd layer needs them: only what they take and return
        counts. Raises as `backend` does.
        """
        with dynamo.outside_compilation():
            device = _device(joint)
            graph = self._captured(joint, len(inputs[0]), num_fwd_outputs, device)
            found = self._planned(graph.text, device)
            halves = cut(found.plan, device, _heading(found))
        shells = Shells(joint, graph, halves, num_fwd_outputs)
        number = next(_numbers)
        self._forward = shells.forward_function(f"<magis forward half {number}>", device)
        self._backward = shells.backward_function(f"<magis backward half {number}>", device)
        return shells.forward(), shells.backward()

    def forward(self, _module: torch.fx.GraphModule, _inputs: Sequence[Any]) -> dynamo.Boxed:
        assert self._forward is not None
        return self._forward

    def backward(self, _module: torch.fx.GraphModule, _inputs: Sequence[Any]) -> dynamo.Boxed:
        assert self._backward is not None
        return self._backward

    def inference(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> dynamo.Boxed:
        """A graph that nobody differentiates, planned alone."""
        with dynamo.outside_compilation():
            device = _device(module)
            count = len(results_of(module))
            graph = self._captured(module, len(inputs), count, device)
            found = self._planned(graph.text, device)
            plan = CompiledPlan(found.plan, device, _heading(found))
        literals = results_of(module)

        def run(inputs: list[Any]) -> list[Any]:
            given = iter(inputs)
            constants = iter(plan.constants)
            filled = [
                next(constants) if entry.kind == "const" else next(given) for entry in plan.inputs
            ]
            inputs.clear()
            with plain_modes(device.type):
                return with_literals(literals, graph.forward, plan(filled))

        return dynamo.boxed(run)

    def _captured(
        self, module: torch.fx.GraphModule, count: int, forward_count: int, device: torch.device
    ) -> Joint:
        names = self._names
        if len(names) != count:  # inputs that share memory came apart, or together
            names = [InputName("batch", f"[{i}]") for i in range(count)]
        return joint_graph(module, names, forward_count, device, {COMPILED: "torch.compile"})

    def _planned(self, text: str, device: torch.device) -> Found:
        if device.type == "cpu":
            text = with_measured_scratch(text)
        graph = _core.Graph.parse(text, "compiled graph")
        settings = self._settings(graph, device)
        if settings.refinement is not None:
            settings.refinement.begin(graph, parts=True)
        bound = bound_for(settings.limit, baseline_of(graph, settings.device))
        # What one graph of several cannot keep is no error: there is no other limit for it alone.
        which = f"the plan for a compiled graph of {graph.operator_count} operators"
        found = search(graph, settings, bound, measured_on=device, which=which)
        tell_not_met(found, settings, bound, 2, which)
        self._options.on_plan(_report(found, settings, bound))
        return found

    def _settings(self, graph: _core.Graph, device: torch.device) -> SearchSettings:
        settings = self._options.settings(device)
        if is_auto(settings.limit):
            assert isinstance(settings.limit, MemoryLimit)
            room = room_now(device, settings.profile) + kept_bytes(graph)
            settings = replace(settings, limit=settings.limit.known(room))
        return settings


def _report(found: Found, settings: SearchSettings, bound: Bound) -> Report:
    return Report.build(
        found,
        device=settings.device,
        limit_text=str(settings.limit),
        limit_bytes=bound.memory_bytes,
        replayed="not replayed: torch.compile's graph is not compared with eager",
        times="" if settings.refinement is None else settings.refinement.words(found.plan),
    )


def _heading(found: Found) -> str:
    return (
        "A graph of torch.compile, planned by magis.\n\n"
        f"Promised peak {found.peak_bytes:,} bytes, {found.persistent_bytes:,} of them inputs; the "
        f"captured order takes {found.baseline_peak_bytes:,}.\n"
    )


def _device(module: torch.fx.GraphModule) -> torch.device:
    """The one device of the graph. Raises MagisError if there are several."""
    devices: dict[torch.device, None] = {}
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            devices.setdefault(value.device)
    if len(devices) > 1:
        raise MagisError(
            f"a graph must be on one device to be planned, and this one is on "
            f"{', '.join(map(str, devices))}: move everything there"
        )
    return next(iter(devices), torch.device("cpu"))
