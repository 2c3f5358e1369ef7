"""Plans that the search finds for requests of every kind, executed under the allocator hook; runs
in the worker of `hooked`."""

from __future__ import annotations

import copy
import gc
import random
from dataclasses import dataclass
from typing import Any

import torch
from fission_promise import SEED, Subject

from magis import _core, zoo
from magis.capture import capture
from magis.verify import FissionCheck, inputs_from, verify_plan

BATCHES = (2, 5, 8)
PROFILES = ("cpu", "reference", "a100")  # no copies beside computing; copies; rounded bytes, too
STATES = (100, 400, 1_500)


@dataclass
class Step:
    """A captured zoo model, values for its inputs, and what is expected of plans for it."""

    subject: Subject
    graph: _core.Graph
    truth: FissionCheck
    eager: list[str]  # what eager leaves in other bits than the captured graph


def step_of(name: str, batch: int) -> Step:
    torch.manual_seed(1)
    model, loss_fn, inputs = zoo.build(name, size="tiny", batch=batch)
    text = capture(model, loss_fn, inputs).text
    subject = Subject(text, inputs_from(text, model, inputs))
    outputs = subject.document.outputs
    left = {(o.kind, o.path): v for o, v in zip(outputs, subject.source.outputs, strict=True)}
    trained = copy.deepcopy(model)  # the subject's values are the model's own
    torch.manual_seed(SEED)
    loss = loss_fn(trained, **inputs)
    loss.backward()
    eager = {("loss", ""): loss.detach()}
    eager |= {("grad", path): weight.grad for path, weight in trained.named_parameters()}
    eager |= {("buffer", path): buffer for path, buffer in trained.named_buffers()}
    differs = [" ".join(key) for key, value in left.items() if not torch.equal(value, eager[key])]
    if not torch.equal(torch.get_rng_state(), subject.generator):
        differs.append("generator")
    truth = FissionCheck(text, subject.values, seed=SEED)
    return Step(subject, _core.Graph.parse(text), truth, differs)


def request(rng: random.Random, graph: _core.Graph) -> dict[str, Any]:
    """Options of a short search."""
    profile = rng.choice(PROFILES)
    order = _core.Plan.program_order(graph).simulate(profile)
    options: dict[str, Any] = {
        "device": profile,
        "seed": rng.randrange(1 << 30),
        "state_budget": rng.choice(STATES),
        "time_budget": 60.0,  # states end it
        "fission": rng.random() < 0.8,
        "exact": rng.random() < 0.15,
        "threads": rng.choice((1, 1, 2)),
        "strategy": rng.choice(("default",) * 6 + ("paper",)),
    }
    if rng.random() < 0.75:
        share = rng.choice((0.0, 0.15, 0.3, 0.5, 0.8))
        options["memory_limit"] = (
            order.persistent_bytes + int(share * order.transient_peak_bytes) + 1
        )
    else:
        options["latency_limit"] = order.seconds * rng.choice((1.0, 1.03, 1.2, 2.0))
    kept_there = rng.choice((None, None, 0, order.transient_peak_bytes // 4))
    if kept_there is not None:
        options["host_memory"] = kept_there
    return options


def account(step: Step, options: dict[str, Any]) -> dict[str, Any]:
    """Of the plan that is found: all that `fission_promise` counts; `found` and `counted`, bytes as
    the search and as the plan verifier say on the device asked for; what the plan makes use of."""
    result = _core.optimize(step.graph, **options)
    plan = result.plan
    step.truth.check(plan.text())
    seen = vars(step.subject.account(plan, result.regions, scratch=False))
    return {
        **seen,
        "options": options,
        "met": result.met,
        "rewritten": bool(plan.graph.rewrites),
        "rounds_otherwise": plan.graph.rounds_otherwise,
        "recomputed": result.recomputed,
        "swapped": result.swapped,
        "found": result.peak_bytes,
        "counted": verify_plan(plan.text(), device=options["device"]).peak_bytes,
    }


def accounts(name: str, *, plans: int, seed: int) -> dict[str, Any]:
    """`eager`: what the captured graph computes otherwise; `plans`."""
    rng = random.Random(f"{name} {seed}")
    steps = [step_of(name, batch) for batch in BATCHES]
    gc.freeze()  # each measurement collects garbage first
    chosen = [steps[i % len(steps)] for i in range(plans)]
    return {
        "eager": [what for step in steps for what in step.eager],
        "plans": [account(step, request(rng, step.graph)) for step in chosen],
    }
