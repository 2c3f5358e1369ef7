"""The optimized step that a user calls in place of the loss function and `backward()`."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import warnings
from typing import Any, Literal

import torch
from torch import nn
from torch.distributed.algorithms import Join

from magis import _core
from magis.capture import differentiated_twice, differentiated_twice_words
from magis.errors import GuardError, MagisError, ReplicaError, TornStep
from magis.report import Report
from magis.report.text import bytes_text
from magis.runtime.batch import Arguments
from magis.runtime.call import outside_inference_mode
from magis.runtime.guards import Globals, Key, describe_leaf, difference
from magis.runtime.model_view import ModelView
from magis.runtime.plan_file import captured_fingerprint, write_plan
from magis.runtime.replay import run_eager
from magis.runtime.replicas import Replicas
from magis.runtime.scaling import GRAD_SCALE, with_scale
from magis.runtime.speculation import SpeculationFailed
from magis.runtime.variants import MOST_VARIANTS, Miss, PlanCache
from magis.runtime.workshop import Planned, Workshop

OnNewShape = Literal["replan", "eager", "error"]

logger = logging.getLogger("magis")

# So many new plans are hardly the last batch of an epoch and a switch to eval mode.
_MANY_REPLANS = 8
# So many runs say how often a speculation fails.
_ENOUGH_RUNS = 8


class Step:
    """A training step with a promised peak. Call it with a batch of the form of the example batch.

    Afterwards gradients, buffers and the random generator are as `loss_fn(model,
    *batch).backward()` would have left them; what the loss function returns comes back detached.
    The step owns nothing of the model: eager training, evaluation and `state_dict()` stay possible
    at any time.

    Calls are checked against what was frozen at capture; a new shape is planned anew, run eagerly
    or refused, as `on_new_shape` says; so are other values where the step reads some in Python. A
    call in which a condition comes out otherwise than the plan supposes is abandoned before it has
    left anything, and runs by another plan or eagerly. `eager_calls` and `abandoned_calls` count
    such calls. One call runs at a time; other threads wait.

    Raises GuardError, ReplayError (on a new capture, or every `verify_every` calls),
    LimitNotMetError (with strict), HostMemoryError (a new plan needs more on the host than can be
    had), ReplicaError (of several processes another failed) and TornStep; what an operator raises
    comes through unchanged.
    """

    def __init__(
        self,
        workshop: Workshop,
        example: Arguments,
        *,
        on_new_shape: OnNewShape,
        verify_every: int,
        plan_cache: int,
        takes_scale: bool = False,
        order: list[str],
    ) -> None:
        """order: gets the parameters with gradients, as their averaging may begin."""
        self._workshop = workshop
        self._takes_scale = takes_scale
        # Losses before the function's own result.
        self._scaled_losses = int(takes_scale) + int(workshop.accumulates)
        self._on_new_shape = on_new_shape
        self._verify_every = verify_every
        self._plan_cache = plan_cache
        self._lock = threading.RLock()
        self._calls = 0
        self._replans = 0
        self._told: set[str] = set()
        self._form = example.form
        self._paths = example.paths
        self._plans = PlanCache(plan_cache)
        self._view = ModelView(workshop.model)
        self._key = self._key_of(example)
        self._current = workshop.make(example, self._view, first=True)
        self._key = self._key_of(example)  # with the state that the optimizer has by now
        self._plans.add(self._key, self._current)
        if workshop.accumulates:
            self._current.step.plan_ahead(self._view)
            # Until it runs, the step is what it takes at most.
            peaks = {plan: r.promised_peak_bytes for plan, r in self._current.reports.items()}
            self._current.step.last = max(peaks, key=lambda plan: peaks[plan])
        order += self._current.step.averaging_order
        self.eager_calls = 0  # that ran without a plan, for whatever reason
        self.abandoned_calls = 0  # of these: because a condition came out otherwise

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the step on a batch and returns what the loss function returns, detached."""
        # Planning, hooks and what a step leaves behind must not see the caller's inference mode.
        with self._lock, outside_inference_mode():
            if not self._workshop.runs_here:
                raise MagisError(
                    "the model's weights are on the meta device, which holds no values: this step "
                    "can be inspected and "
                    "saved, not run"
                )
            if self._workshop.replicas is None:
                result = self._run(self._arguments(args, kwargs))
            else:
                result = self._run_together(self._workshop.replicas, args, kwargs)
            for _ in range(self._scaled_losses):
                result = result[1]
            return result

    def _arguments(self, args: Any, kwargs: Any) -> Arguments:
        if self._takes_scale:
            by_keywords = self._form.keywords is not None
            args, kwargs = with_scale(args, kwargs, by_keywords, self._workshop.device)
        elif GRAD_SCALE in kwargs and GRAD_SCALE not in (self._form.keywords or ()):
            raise GuardError(
                f"this step takes no {GRAD_SCALE}: "
                f"plan it with magis.optimize(..., {GRAD_SCALE}=True)"
            )
        return self._form.arguments(args, kwargs)

    def _run_together(self, replicas: Replicas, args: Any, kwargs: Any) -> Any:
        """A step of several processes, which end it together."""
        updates = self._workshop.optimizer is not None
        done = False
        try:
            with replicas.step(updates=updates):
                result = self._run(self._arguments(args, kwargs))
                done = True
            return result
        except ReplicaError as error:
            if not updates or not done:
                raise
            updated = self._current.step.updated
            raise TornStep(
                f"{error}. The optimizer in the step has updated {len(updated)} parameters with "
                "them by now: go back to a checkpoint.",
                updated,
            ) from error

    def _run(self, arguments: Arguments) -> Any:
        optimizer = self._workshop.optimizer
        if optimizer is not None:
            optimizer.begin()
        planned = self._plan_for(arguments)
        replicas = self._workshop.replicas
        averaging = None if replicas is None else replicas.averaging
        if planned is not None and replicas is not None and optimizer is not None:
            replicas.check_order(planned.step.averaging_order)
        self._calls += 1
        tried: list[Planned] = []
        while planned is not None:
            try:
                if self._verify_every and self._calls % self._verify_every == 0:
                    self._workshop.compare_with_eager(planned.step, arguments, self._view)
                planned.runs += 1
                return planned.step.run(self._view, arguments.leaves, averaging)
            except SpeculationFailed as failed:
                tried.append(planned)
                planned = self._after_failure(planned, failed, arguments, tried)
        self.eager_calls += 1
        model, loss_fn = self._workshop.model, self._workshop.loss_fn
        with contextlib.nullcontext() if optimizer is None else optimizer.silenced():
            result = run_eager(model, loss_fn, arguments.for_autograd(), optimizer, averaging)
        if optimizer is not None:
            optimizer.finish()
        return result

    @property
    def report(self) -> Report:
        """On the plan that ran last; before the first call, on the plan for the example batch (with
        `accumulate`, on that of its two that takes more memory).
        """
        return self._current.reports[self._current.step.last]

    @property
    def plan(self) -> _core.Plan:
        """The plan that `report` is about."""
        return self._current.step.last.plan

    @property
    def source(self) -> str:
        """The same plan as plain PyTorch code: `step(inputs)`, with `del` after last use."""
        return self._current.step.last.source

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan that `report` is about as a plan file. Raises PlanError if `path` cannot
        be written.
        """
        captured = self.report.captured
        name = "" if captured is None else captured_fingerprint(captured)
        write_plan(path, self.plan, self.report, name)

    def join(self) -> Join:
        """Around a loop in which some of several processes have fewer batches: `with step.join():`
        in place of DistributedDataParallel's. A process that has no more sends zeros, and in the
        end gets the model of the last one. Raises MagisError where there are no other processes, or
        with the optimizer in the step, whose state would not come along.
        """
        if self._workshop.replicas is None:
            raise MagisError("join() is for the processes of a DistributedDataParallel")
        if self._workshop.optimizer is not None:
            raise MagisError(
                "with the optimizer in the step a process without batches would miss its updates: "
                "leave optimizer= out, or give all processes equally many batches"
            )
        return self._workshop.replicas.join()

    def __repr__(self) -> str:
        report = self.report
        return (
            f"<magis.Step of {type(self._workshop.model).__name__}: peak "
            f"{bytes_text(report.promised_peak_bytes)}, "
            f"before {bytes_text(report.baseline_peak_bytes)}; {len(self._plans)} of "
            f"{self._plan_cache} plans kept>"
        )

    def __reduce_ex__(self, _protocol: Any) -> Any:
        """What copy, deepcopy and pickle ask for."""
        raise MagisError(
            "a step cannot be copied or pickled: it holds compiled plans of one model, whose "
            "weights it reads where they are. Copy or save the model, and call magis.optimize on "
            "the copy (plans are kept: it takes moments); step.save(path) writes the plan to a "
            "file"
        )

    def _key_of(self, arguments: Arguments) -> Key:
        if not self._view.is_current():
            self._view = ModelView(self._workshop.model)
        return Key(
            arguments.spec,
            tuple(describe_leaf(leaf) for leaf in arguments.leaves),
            self._view.facts(),
            Globals.now(self._workshop.device.type),
            None if self._workshop.optimizer is None else self._workshop.optimizer.form(self._view),
        )

    def _plan_for(self, arguments: Arguments) -> Planned | None:
        """The plan for this batch, made if need be; None if the call is to run eagerly."""
        key = self._key_of(arguments)
        twice = differentiated_twice(self._view.parameters, arguments.leaves)
        if twice is not None:
            if self._on_new_shape == "eager":
                return None
            raise GuardError(differentiated_twice_words(arguments.paths, twice))
        variants = self._plans.get(key)
        planned = None if variants is None else variants.fitting(self._view, arguments.leaves)
        if isinstance(planned, Miss) or planned is None:
            reason = str(planned) if planned else difference(self._key, key, self._paths)
            if self._on_new_shape == "error":
                raise GuardError(
                    f'{reason}. on_new_shape="replan" would make a new plan, "eager" run this call '
                    "without one"
                )
            if self._on_new_shape == "eager":
                logger.info("running eagerly: %s", reason)
                return None
            if variants is not None and variants.made >= MOST_VARIANTS:
                advice = f". {planned.advice}" if planned else ""
                self._tell_once(
                    "variants",
                    f"{variants.made} plans differ in values that the step reads, the last because"
                    f" of {reason}; calls that need another one run eagerly from now on{advice}",
                )
                return None
            planned = self._plan_anew(arguments, reason)
            key = self._key_of(arguments)  # the optimizer may have more state now
        self._plans.used(key, planned)
        self._current = planned
        if planned.runs >= _ENOUGH_RUNS and planned.abandoned > planned.runs // 2:
            self._tell_once(
                "speculation",
                f"a condition in the step came out otherwise in {planned.abandoned} of"
                f" {planned.runs} calls; calls run eagerly from now on",
            )
            return None
        return planned

    def _after_failure(
        self, failed: Planned, why: SpeculationFailed, arguments: Arguments, tried: list[Planned]
    ) -> Planned | None:
        """What runs instead of a plan that was abandoned: another plan, or eager (None).

        The generator stands where it stood before the call, so that a new capture sees the draws
        that this call makes.
        """
        failed.abandoned += 1
        self.abandoned_calls += 1
        logger.info("abandoning the step: %s", why)
        self._tell_once(
            "abandoned",
            f"{why}; the step was abandoned before it had left anything, and ran eagerly (or by"
            " another plan). `Step.abandoned_calls` counts such calls; further ones are logged",
        )
        key = self._key_of(arguments)
        variants = self._plans.get(key)
        if not why.check.chance or variants is None or self._on_new_shape != "replan":
            return None
        outcomes = [*(c.expected for c in failed.step.capture.checks[: why.position])]
        outcomes.append(not why.check.expected)
        for planned in variants.plans:
            checks = planned.step.capture.checks
            if planned in tried or [c.expected for c in checks[: len(outcomes)]] != outcomes:
                continue
            if planned.guards.miss(self._view, arguments.leaves) is None:
                self._plans.used(key, planned)
                self._current = planned
                return planned
        if variants.made >= MOST_VARIANTS:
            return None
        self._current = self._plan_anew(arguments, str(why))
        return self._current

    def _tell_once(self, topic: str, words: str) -> None:
        if topic not in self._told:
            self._told.add(topic)
            warnings.warn(words, stacklevel=5)

    def _plan_anew(self, arguments: Arguments, reason: str) -> Planned:
        device = device_of(self._workshop.model, arguments)
        if device != self._workshop.device:
            raise GuardError(
                f"the model was on {self._workshop.device} and is now on {device}; call "
                "magis.optimize again"
            )
        logger.info("planning anew: %s", reason)
        planned = self._workshop.make(arguments, self._view, first=False)
        if self._plans.add(self._key_of(arguments), planned):
            logger.info("dropping the plan used longest ago; %d are kept", self._plan_cache)
        self._replans += 1
        if self._replans == _MANY_REPLANS:
            warnings.warn(
                f"{self._replans} plans were made after the first one, the last because of "
                f"{reason}; each costs a search. Pad batches to a few shapes, pass numbers that "
                'vary as floats or tensors, or use on_new_shape="eager".',
                stacklevel=5,
            )
        return planned


def device_of(model: nn.Module, arguments: Arguments) -> torch.device:
    """Where the step runs: the device of the first parameter, else buffer, else batch tensor."""
    tensors = [*model.parameters(), *model.buffers()]
    tensors = tensors or [leaf for leaf in arguments.leaves if isinstance(leaf, torch.Tensor)]
    return next((tensor.device for tensor in tensors), torch.device("cpu"))
