"""`magis.optimize`: what a user calls."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from magis import _core
from magis.bounds.programme import require_solver
from magis.errors import MagisError
from magis.limits import MemoryLimit, parse_limit
from magis.runtime.batch import Arguments
from magis.runtime.call import outside_inference_mode
from magis.runtime.frontier import Frontier
from magis.runtime.host_pool import HostPool
from magis.runtime.in_step import InStepOptimizer
from magis.runtime.offload import OffloadTo, choose_offload
from magis.runtime.plan_store import PlanStore
from magis.runtime.planner import SearchSettings, Strategy, choose_profile
from magis.runtime.progress import Callback
from magis.runtime.refinement import refinement_on
from magis.runtime.replay_check import Verify
from magis.runtime.replicas import planning_together, unwrapped
from magis.runtime.scaling import ACCUMULATE, GRAD_SCALE, scaled, shared
from magis.runtime.step import OnNewShape, Step, device_of
from magis.runtime.threads import choose_threads
from magis.runtime.workshop import Workshop


def optimize(
    model: nn.Module,
    loss_fn: Callable[..., Any] | None,
    batch: Any,
    *,
    memory_limit: int | float | str | None = None,
    latency_limit: float | str | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    clip_grad_norm: float | None = None,
    grad_scale: bool = False,
    accumulate: int = 1,
    device: str | None = None,
    time_budget: float = 10.0,
    strict: bool = False,
    verify: Verify = "auto",
    exact: bool = False,
    batch_parts: int = 0,
    rewrite: bool = True,
    swap: bool | None = None,
    host_memory: int | str | None = None,
    offload_to: OffloadTo = "host",
    offload_directory: str | os.PathLike[str] | None = None,
    measure: float | None = None,
    validate: int = 0,
    time_bound: bool = False,
    tolerance: float | None = None,
    on_new_shape: OnNewShape = "replan",
    verify_every: int = 0,
    plan_cache: int = 8,
    strategy: Strategy = "default",
    seed: int = 0,
    threads: int | None = None,
    progress: Callback | None = None,
    frontier: Frontier | None = None,
    reuse_plans: bool = True,
) -> Step:
    """Plans the training step of `model` so that it keeps a limit, and returns it as a callable.

    Args:
        model: any module; it is neither changed nor copied. Of a DistributedDataParallel the module
            inside is planned; all processes call this together, and share one plan where their
            graphs are equal.
        loss_fn: `loss_fn(model, *batch)`, or `loss_fn(model, **batch)` if the batch is a dict.
            Returns a scalar, or a tuple
            whose first item is one; the rest comes back detached. None: the forward pass alone,
            `model(*batch)`.
        batch: an example batch, any pytree. Floats in it are runtime scalars, other values than
            tensors are fixed.
        memory_limit: the most that persistent and transient bytes may come to: bytes, "8GiB", "40%"
            or 0.4 of the baseline, or "auto": what the device has free when a plan is made, and
            what the step keeps there already, less a margin (magis/runtime/auto_limit.py says how
            much). An optimizer's state that is made later is not foreseen.
        latency_limit: the longest that the step may take: 1.1 times the baseline, or "10%" slower.
            Give one limit; with
            neither the plan is the one of least memory that takes no more time than the baseline.
        optimizer: SGD, Adam or AdamW over parameters of the model: its update becomes part of the
            step, in place of `optimizer.step()` and `zero_grad()`, so that each gradient dies where
            it is used. Its state stays in the optimizer, where it is looked up at each call, as are
            learning rates, betas and weight decays: checkpoints and schedulers work as ever.
        clip_grad_norm: with an optimizer, the norm to which all gradients of the model together
            are scaled down before the update, as torch.nn.utils.clip_grad_norm_ does.
        grad_scale: the step takes `grad_scale=scaler` (a torch.amp.GradScaler, or a number) at each
            call, and leaves gradients so much larger, as `scaler.scale(loss).backward()` does;
            `scaler.step(optimizer)` and `scaler.update()` follow outside. What it returns is not
            scaled.
        accumulate: so many calls in a row, of batches of one size, make up one larger batch: each
            leaves a share of the gradients of the mean loss (what it returns is the loss itself).
            The plan for calls that add into gradients is made at once too, under the same limit (a
            share refers to what such a call takes in eager mode, gradients included);
            `optimizer.step()` and `zero_grad()` follow after the last one.
        device: name of the profile that times come from; by default the one that fits the model's
            device.
        time_budget: seconds for the search, per plan.
        strict: raise LimitNotMetError where otherwise the best plan comes with a warning.
        verify: "auto" runs each new capture once against eager, on the batch or, if eager does not
            fit, on a smaller one;
            "off" does not.
        exact: regions that run in parts, and rewrites, must give the very bits of eager too; where
            a replay on this machine shows that they do not, the step is planned without them.
        batch_parts: run what can be split along the axis of the batch in so many parts, instead of
            leaving that to the search; the last part is shorter where the number does not divide.
        rewrite: whether operators may be replaced by others that compute the same up to rounding
            (`magis inspect --rules` lists the rules), where that saves time.
        swap: whether tensors may leave the device for a while. None: in plans for a GPU, wherever
            they run, and where `host_memory` or `offload_to` says so; True also in plans for a CPU,
            which is its own host.
        host_memory: the most that may be kept on the host at a time, bytes or "8GiB"; by default
            what the device profile says, on a CPU half of what is free, on a disk half of its room.
        offload_to: "host", memory (pinned on CUDA), or "disk", a file in `offload_directory`, which
            is gone when the step is.
        offload_directory: a folder on a local disk.
        measure: seconds that go into measuring how long operators take on the model's device, where
            that is not known yet; the search uses these times, and runs again when they have
            changed it. 0: only what was measured before is used. None: times come from the device
            profile alone. Times are kept for later runs (MAGIS_CACHE_DIR says where).
        validate: search from so many seeds, run what was found on the batch, and take the plan that
            keeps the limit and is best as measured; `step.report.promised_times` sets its times
            beside the promised ones. For a step's first plan. 0: plans are not run.
        time_bound: with a memory limit, `step.report.time_bound` says how fast a plan can be:
            none of the same operators in the same order, without swapping, is faster within it.
            For graphs of up to 200 operators; takes seconds, and the package highspy.
        tolerance: largest difference that the comparison allows, relative to the larger of 1 and a
            tensor's largest value;
            None asks for equal bits, but for the rounding of sums that are added up part by part
            and of rewritten operators.
        on_new_shape: what to do when something that was fixed at capture has changed: "replan", run
            the call "eager", or
            "error".
        verify_every: compare with eager on every so many calls; 0 never.
        plan_cache: how many plans for different shapes and modes are kept.
        strategy: "default", or "paper", the search that the MAGIS paper describes, for comparison.
        seed: of the search.
        threads: that the search runs on; they change how long it takes, and nothing else. None: as
            many as there are processors, at most 4.
        progress: called now and then with what the search has found: `best_peak_bytes`,
            `best_seconds`, `met` (whether that keeps the limit), `lower_bound_bytes` (no plan stays
            below), `states_scored`, `states_evaluated`, and `elapsed` seconds. Returning False ends
            the search, Ctrl-C too: the best plan so far is what comes back. None: a bar on a
            terminal, nothing elsewhere.
        frontier: of this step on this batch, from `magis.find_frontier`: its best plan is taken, at
            once; shares in limits refer to its baseline. Other shapes are searched for as always.
        reuse_plans: plans are kept on disk (MAGIS_CACHE_DIR; `magis plans` looks after them), and
            taken again where the same graph is planned under the same settings and limit, in place
            of a search. They are verified and compared with eager all the same.

    Raises:
        CaptureError: the step cannot be captured; names the module and the line.
        LimitError: the limit is not understood, or lies below the certified lower bound.
        LimitNotMetError: with `strict`.
        HostMemoryError: what the plan keeps on the host cannot be had; says why.
        MissingExtraError: with `time_bound`, highspy is not installed.
        ReplayError: the captured step does not reproduce eager; names the first tensor.
        MagisError: an argument is not understood.
    """
    model, replicas = unwrapped(model, averages=loss_fn is not None)
    # From here on what fails in one of several processes fails in all.
    with planning_together(replicas, updates=optimizer is not None) as order, _user_errors():
        limit = parse_limit(memory_limit, latency_limit)
        _check_choice("on_new_shape", on_new_shape, ("replan", "eager", "error"))
        _check_choice("verify", verify, ("auto", "off"))
        _check_choice("strategy", strategy, ("default", "paper"))
        check_number("time_budget", time_budget, 0)
        check_number("verify_every", verify_every, 0)
        check_number("plan_cache", plan_cache, 1)
        if isinstance(batch_parts, bool) or not isinstance(batch_parts, int) or batch_parts < 0:
            raise MagisError(
                f"batch_parts={batch_parts!r} must be a whole number of parts; 0: none"
            )
        if batch_parts and strategy == "paper":
            raise MagisError('strategy="paper" chooses the parts itself: leave batch_parts out')
        batch_parts = min(batch_parts, 2**62)  # the axis is shorter anyway
        if tolerance is not None:
            check_number("tolerance", tolerance, 0)
        if measure is not None:
            check_number("measure", measure, 0)
        if isinstance(validate, bool) or not isinstance(validate, int) or validate < 0:
            raise MagisError(
                f"validate={validate!r} must be a whole number of plans; 0: none is run"
            )
        if validate and frontier is not None:
            raise MagisError("validate= runs what a search finds: leave it out with a frontier")
        if time_bound:
            if not isinstance(limit, MemoryLimit):
                raise MagisError("time_bound=True is on the time within a memory_limit: give that")
            require_solver()
        averaged = frozenset() if replicas is None else replicas.averaged
        in_step = _in_step(optimizer, clip_grad_norm, loss_fn, averaged)
        meta: dict[str, str] = {}
        if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
            raise MagisError(
                f"accumulate={accumulate!r} must be a whole number of calls; 1: each alone"
            )
        if accumulate > 1:
            if in_step is not None:
                raise MagisError(
                    "an optimizer in the step uses gradients up in each call, so that none add up: "
                    "leave optimizer= out, and call optimizer.step() after the last of the calls"
                )
            loss_fn = shared(loss_fn, accumulate)
            meta[ACCUMULATE] = str(accumulate)
        if grad_scale:
            if in_step is not None:
                raise MagisError(
                    "a GradScaler may skip an update, which an optimizer in the step cannot: "
                    "leave optimizer= out, and call scaler.step(optimizer) yourself"
                )
            loss_fn, batch = scaled(loss_fn, batch)
            meta[GRAD_SCALE] = "yes"
        if replicas is not None and validate:
            raise MagisError(
                "several processes have to choose the same plan, and each would measure other "
                "times: leave validate= out"
            )
        arguments = Arguments(batch)
        place = device_of(model, arguments)
        profile = choose_profile(device, place)
        _check_frontier(frontier, profile, exact, batch_parts)
        offload = choose_offload(
            swap=swap,
            host_memory=host_memory,
            offload_to=offload_to,
            offload_directory=offload_directory,
            profile=profile,
            is_cuda=place.type == "cuda",
        )
        settings = SearchSettings(
            limit=limit,
            profile=profile,
            time_budget=time_budget,
            strict=strict,
            seed=seed,
            threads=choose_threads(threads),
            progress=progress,
            exact=exact,
            batch_parts=batch_parts,
            rewrite=rewrite,
            host_memory=offload.host_memory,
            frontier=frontier,
            strategy=strategy,
            refinement=None if measure is None else refinement_on(place, profile, measure),
            store=PlanStore() if reuse_plans else None,
            validate=validate,
            time_bound=time_bound,
        )
        workshop = Workshop(
            model,
            loss_fn,
            settings,
            device=place,
            verify=verify,
            tolerance=tolerance,
            host=HostPool(place, offload.directory),
            optimizer=in_step,
            replicas=replicas,
            meta=meta,
        )
        with outside_inference_mode():
            return Step(
                workshop,
                arguments,
                on_new_shape=on_new_shape,
                verify_every=verify_every,
                plan_cache=plan_cache,
                takes_scale=grad_scale,
                order=order,
            )


@contextlib.contextmanager
def _user_errors() -> Iterator[None]:
    try:
        yield
    except _core.UserError as error:
        raise MagisError(str(error)) from error


def _in_step(
    optimizer: torch.optim.Optimizer | None,
    clip_grad_norm: float | None,
    loss_fn: Callable[..., Any] | None,
    averaged: frozenset[str],
) -> InStepOptimizer | None:
    if optimizer is None:
        if clip_grad_norm is not None:
            raise MagisError(
                "clip_grad_norm needs an optimizer in the step; with one outside, call "
                "torch.nn.utils.clip_grad_norm_ between the two"
            )
        return None
    if loss_fn is None:
        raise MagisError("without a loss there are no gradients: optimizer= needs a loss_fn")
    return InStepOptimizer(optimizer, clip_grad_norm, averaged)


def _check_frontier(frontier: Frontier | None, profile: str, exact: bool, batch_parts: int) -> None:
    if frontier is None:
        return
    if not isinstance(frontier, Frontier):
        raise MagisError("frontier= takes what magis.find_frontier or magis.Frontier.load returns")
    if batch_parts:
        raise MagisError("batch_parts and a frontier do not go together: give one of them")
    if frontier.figures.device != profile:
        raise MagisError(
            f"the frontier's times are those of {frontier.figures.device!r}, this step's of "
            f"{profile!r}: pass device={frontier.figures.device!r}, or find the frontier again"
        )
    if exact and not frontier.figures.exact:
        raise MagisError("exact=True needs a frontier that was found with exact=True")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise MagisError(f"{name}={value!r} is not understood; choose one of {', '.join(choices)}")


def check_number(name: str, value: float, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
        raise MagisError(f"{name}={value!r} must be a number that is at least {least}")
