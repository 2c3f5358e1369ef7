"""magis's steps of the same BERT."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from steps import Subject, Way

import magis
from magis import _core
from magis.capture import capture
from magis.report.loops import read_loops
from magis.runtime.frontier_search import frontier_of
from magis.runtime.refinement import refinement_on
from magis.runtime.scratch import with_measured_scratch
from magis.zoo.huggingface import model_loss

BUDGETS = 20


def way_of(name: str, subject: Subject, step: magis.Step) -> Way:
    times = step.report
    return Way(
        name,
        subject,
        lambda: step(**subject.batch),
        times.seconds / times.captured_seconds,
        _words(step),
        times.transient_peak_bytes,
    )


def _words(step: magis.Step) -> str:
    """What the plan does, briefly."""
    loops = read_loops(step.plan.text()).loops.values()
    counts = ", ".join(f"{loop.part_count} parts" for loop in loops)
    return f"{counts or 'whole'}; {step.report.recomputed} operators run again"


def within(limit: int, options: argparse.Namespace) -> Way:
    """The fastest step that magis finds whose peak without parameters is at most `limit` bytes."""
    subject = Subject.fresh(options.dropout)
    step = magis.optimize(
        subject.model,
        model_loss,
        subject.batch,
        memory_limit=subject.persistent_bytes + limit,
        time_budget=options.seconds,
        measure=options.measure,
    )
    return way_of(f"magis, {limit / 1e6:.1f} MB", subject, step)


def without_fission(options: argparse.Namespace) -> Iterator[Way]:
    """Of one search for the whole frontier, the best plan in each of 20 budgets, evenly apart from
    the least that was reached to the most that a plan takes."""
    subject = Subject.fresh(options.dropout)
    text = with_measured_scratch(capture(subject.model, model_loss, subject.batch).text)
    graph = _core.Graph.parse(text)
    refinement = refinement_on(torch.device("cpu"), "cpu", options.measure)
    refinement.learn(_core.Plan.program_order(graph))

    def search(seconds: float) -> list[_core.Result]:
        return _core.find_frontier(
            graph, device=refinement.device, fission=False, time_budget=seconds, host_memory=0
        )

    for result in search(options.seconds / 4):
        refinement.learn(result.plan)
    frontier = frontier_of(search(options.seconds), "cpu", measured=True)
    peaks = [plan.peak_bytes for plan in frontier.figures.plans]
    least, most = min(peaks), max(peaks)
    for number in range(BUDGETS):
        budget = least + (most - least) * number // (BUDGETS - 1)
        step = magis.optimize(
            subject.model,
            model_loss,
            subject.batch,
            memory_limit=budget,
            frontier=frontier,
            verify="off",
        )
        limit = budget - subject.persistent_bytes
        yield way_of(f"magis, {limit / 1e6:.1f} MB", subject, step)
