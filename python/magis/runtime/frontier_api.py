"""`magis.find_frontier`: what a user calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from magis import _core
from magis.errors import MagisError
from magis.limits import parse_limit
from magis.runtime.api import check_number
from magis.runtime.batch import Arguments
from magis.runtime.call import outside_inference_mode
from magis.runtime.frontier import Frontier
from magis.runtime.frontier_search import frontier_of
from magis.runtime.host_pool import HostPool
from magis.runtime.offload import choose_offload
from magis.runtime.planner import SearchSettings, baseline_of, choose_profile
from magis.runtime.progress import Callback, listening
from magis.runtime.refinement import refinement_on
from magis.runtime.step import device_of
from magis.runtime.threads import choose_threads
from magis.runtime.workshop import Workshop


def find_frontier(
    model: nn.Module,
    loss_fn: Callable[..., Any] | None,
    batch: Any,
    *,
    device: str | None = None,
    time_budget: float = 30.0,
    exact: bool = False,
    swap: bool | None = None,
    host_memory: int | str | None = None,
    measure: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Callback | None = None,
) -> Frontier:
    """The plans of the training step of `model` for all limits, found in one search.

    `frontier.best(memory_limit="40%")` looks one up; `magis.optimize(model, loss_fn, batch,
    memory_limit="40%", frontier=frontier)` makes a step of it without another search, and compares
    it with eager then. Ctrl-C ends the search and keeps what has been found.

    Args:
        model, loss_fn, batch, device, exact, swap, measure, seed, threads, progress: as for
            `magis.optimize`.
        time_budget: seconds for the search.
        host_memory: the most that may be kept on the host, bytes or "8GiB".

    Raises:
        CaptureError: the step cannot be captured; names the module and the line.
        MagisError: an argument is not understood.
    """
    check_number("time_budget", time_budget, 0)
    if measure is not None:
        check_number("measure", measure, 0)
    arguments = Arguments(batch)
    place = device_of(model, arguments)
    profile = choose_profile(device, place)
    offload = choose_offload(
        swap=swap,
        host_memory=host_memory,
        offload_to="host",
        offload_directory=None,
        profile=profile,
        is_cuda=place.type == "cuda",
    )
    settings = SearchSettings(
        limit=parse_limit(),
        profile=profile,
        time_budget=time_budget,
        strict=False,
        seed=seed,
        threads=choose_threads(threads),
        progress=progress,
        exact=exact,
        host_memory=offload.host_memory,
        refinement=None if measure is None else refinement_on(place, profile, measure),
    )
    workshop = Workshop(
        model,
        loss_fn,
        settings,
        device=place,
        verify="off",
        tolerance=None,
        host=HostPool(place, None),
    )
    try:
        with outside_inference_mode():
            _, graph = workshop.capture(arguments)
            refinement = settings.refinement
            if refinement is None:
                results, times = _search(graph, settings), ""
            else:
                refinement.begin(graph, parts=True)
                results = refinement.refine_frontier(lambda: _search(graph, settings))
                times = refinement.words(*(result.plan for result in results))
            return frontier_of(
                results,
                settings.device,
                measured=place.type == "cpu",
                exact=exact,
                times=times,
            )
    except _core.UserError as error:
        raise MagisError(str(error)) from error


def _search(graph: _core.Graph, settings: SearchSettings) -> list[_core.Result]:
    baseline = baseline_of(graph, settings.device)
    with listening(settings.progress, settings.time_budget, baseline.seconds) as listener:
        return _core.find_frontier(
            graph,
            device=settings.device,
            time_budget=settings.time_budget,
            seed=settings.seed,
            threads=settings.threads,
            exact=settings.exact,
            host_memory=settings.host_memory,
            progress=listener,
        )
