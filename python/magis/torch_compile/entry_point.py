"""torch.compile(model, backend="magis")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from magis import _torch_dynamo as dynamo
from magis.errors import MagisError
from magis.torch_compile.input_names import input_names
from magis.torch_compile.options import Options
from magis.torch_compile.partition import Planner
from magis.torch_compile.static_shapes import with_static_shapes


def backend(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """What torch.compile calls for each graph that it finds: `torch.compile(model,
    backend="magis", options={"memory_limit": "60%"})`.

    Forward and backward of a graph are planned together under the limit, as one step, and run as
    two functions: what is kept between them is the plan's choice. Guards, graph breaks and
    recompilation are torch.compile's. A graph that nobody differentiates is planned alone. Limits
    hold for each graph by itself; what other graphs and the code between them keep comes on top.

    options: memory_limit, latency_limit, device, time_budget, strict, exact, rewrite, measure,
    strategy, seed, threads, progress and reuse_plans mean what they mean for magis.optimize;
    on_plan is called with the report on each plan.

    Raises LimitError, CaptureError, MagisError and, with `strict`, LimitNotMetError, which
    torch.compile wraps into its BackendCompilerFailed. Without `strict` a graph that cannot keep
    the limit gets the best plan there is, and a warning.
    """
    if mode is not None:
        raise MagisError(
            f"mode={mode!r} says nothing to the backend magis: leave it out, and say what is "
            'wanted in options={"memory_limit": ...}'
        )
    static, examples, kept = with_static_shapes(module, example_inputs)
    planner = Planner(Options.of(options), input_names(static))
    compiled = dynamo.compile_with_autograd(
        static,
        examples,
        partition=planner.partition,
        forward=planner.forward,
        backward=planner.backward,
        inference=planner.inference,
    )
    if len(kept) == len(example_inputs):
        return compiled

    def without_numbers(*args: Any) -> Any:
        return compiled(*(args[position] for position in kept))

    return without_numbers


backend.__name__ = "magis"  # what torch.compile's errors call it
