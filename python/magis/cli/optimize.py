"""`magis optimize`: a graph and a limit in, a plan and its Python code out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from magis.cli import status
from magis.cli.files import check_distinct, check_writable
from magis.cli.frontier import (
    Chosen,
    check_folder,
    check_outside,
    choose_from,
    find,
    frontier_outcome,
    refuse_limits,
    refuse_search_options,
)
from magis.cli.measuring import measured_times
from magis.cli.options import (
    Explain,
    GraphOrFrontier,
    Json,
    Measure,
    OffloadDirectory,
    OffloadTo,
    Profile,
    device_profile,
    one_of,
)
from magis.cli.outcome import Outcome
from magis.cli.rules import ALL_KINDS, SWAP, choose_rules, kinds_of
from magis.cli.search import Budget, Method, Target, resolve, search
from magis.cli.search_options import (
    AskTimeBound,
    BatchParts,
    CodeOutput,
    FindFrontier,
    Fission,
    HostMemory,
    LatencyLimit,
    LeftOutRules,
    MaxLevel,
    MemoryLimit,
    ModelForValidation,
    NaiveScheduleRules,
    PlanOutput,
    RandomFission,
    RuleKinds,
    SearchMemory,
    StateBudget,
    StrategyName,
    Swap,
    Threads,
    TimeBudget,
    Validate,
)
from magis.cli.status import UsageError
from magis.cli.subject import read_graph
from magis.cli.validating import best_of
from magis.files import write_text
from magis.limits import Limit, parse_limit, parse_search_memory
from magis.report import Explanation, Report
from magis.report.time_bound import TimeBound
from magis.runtime.offload import choose_offload
from magis.runtime.parts import what_stays_whole
from magis.runtime.plan_file import captured_fingerprint, envelope
from magis.runtime.threads import choose_threads

if TYPE_CHECKING:
    from magis import _core


def optimize(
    context: typer.Context,
    file: GraphOrFrontier,
    memory_limit: MemoryLimit = None,
    latency_limit: LatencyLimit = None,
    device: Profile = None,
    frontier: FindFrontier = False,
    time_budget: TimeBudget = None,
    state_budget: StateBudget = 0,
    seed: Annotated[int, typer.Option(help="Same seed and state budget, same plan.")] = 0,
    threads: Threads = None,
    search_memory: SearchMemory = "1GiB",
    fission: Fission = True,
    batch_parts: BatchParts = 0,
    swap: Swap = None,
    host_memory: HostMemory = None,
    offload_to: OffloadTo = "host",
    offload_directory: OffloadDirectory = None,
    kinds: RuleKinds = ALL_KINDS,
    no_rule: LeftOutRules = None,
    measure: Measure = None,
    validate: Validate = 0,
    model: ModelForValidation = None,
    time_bound: AskTimeBound = False,
    strategy: StrategyName = "default",
    random_fission: RandomFission = False,
    naive_schedule_rules: NaiveScheduleRules = False,
    max_level: MaxLevel = 4,
    output: PlanOutput = None,
    emit: CodeOutput = None,
    explain: Explain = False,
    json: Json = False,
) -> Outcome:
    """Find a plan that keeps a limit on memory or on time, or the plans for all limits.

    Given a folder that --frontier -o wrote, choose from its plans at once, without a search.

    Ctrl-C ends the search early and keeps the best plan found so far.

    Exit status: 0 done; 2 something is wrong with the input; 3 the limit was not reached, the best
    plan was written.
    """
    if file.is_dir():
        refuse_search_options(context, file)
        limit = _limit(memory_limit, latency_limit)
        _check_outputs(file, output, emit)
        check_outside(file, {"--output": output, "--emit": emit})
        return _finish(file, choose_from(file, limit), output, emit, json)
    if frontier:
        refuse_limits(context)
        check_folder(output)
    else:
        limit = _limit(memory_limit, latency_limit)
        _check_outputs(file, output, emit)
    budget = _budget(
        time_budget, 30.0 if frontier else 10.0, state_budget, seed, threads, search_memory
    )
    if time_bound:
        _check_time_bound(memory_limit)
    one_of("--strategy", strategy, ("default", "paper"))
    method = Method(strategy, random_fission, naive_schedule_rules, max_level)
    _check_method(method, batch_parts)
    rules = choose_rules(kinds, no_rule or [], fission=fission)
    if SWAP not in kinds_of(kinds):
        if swap or host_memory is not None:
            raise UsageError("--rules leaves swapping out: leave out --swap and --host-memory too")
        swap = False
    graph = read_graph(file)
    profile = device_profile(device, graph.device)
    offload = choose_offload(
        swap=swap,
        host_memory=host_memory,
        offload_to=offload_to,
        offload_directory=offload_directory,
        profile=profile,
    )
    if frontier and validate:
        raise UsageError("--validate does not go with --frontier: give a limit")
    if model is not None and not validate:
        raise UsageError("--model is for --validate, which runs plans")
    if frontier and not isinstance(profile, str):
        raise UsageError("--frontier takes a built-in --device: its plans are looked up by name")
    if frontier and isinstance(profile, str):
        found = find(
            graph,
            profile,
            budget,
            rules=rules,
            host_memory=offload.host_memory,
            refinement=measured_times(measure, graph, profile),
        )
        return frontier_outcome(found, output, json)
    refinement = measured_times(measure, graph, profile)
    if refinement is not None:
        refinement.begin(graph, parts=rules.fission)
    target = resolve(
        graph,
        limit,
        profile if refinement is None else refinement.device,
        fission=rules.fission,
        host_memory=offload.host_memory,
        host_on_disk=offload.directory is not None,
    )

    def search_from(seed: int) -> _core.Result:
        return search(
            graph,
            target,
            profile,
            replace(budget, seed=seed),
            rules=rules,
            batch_parts=batch_parts,
            host_memory=offload.host_memory,
            method=method,
            refinement=refinement,
        )

    known = profile if refinement is None else refinement.device
    limit_seconds = target.keywords.get("latency_limit")
    result, validated = best_of(validate, search_from, seed, model, limit_seconds, known)
    times = [] if refinement is None else [refinement.words(result.plan)]
    if validated is not None:
        times.append(validated.words)
    limit_bytes = target.keywords.get("memory_limit")
    report = Report.build(
        result,
        device=known,
        times="; ".join(times),
        promised_times=None if validated is None else validated.times,
        limit_text=target.text,
        limit_bytes=limit_bytes,
        time_bound=_time_bound(result.plan, known, limit_bytes) if time_bound else None,
        replayed=graph.meta.get("replay", "not recorded"),
    )
    obstacles = what_stays_whole(graph, profile) if batch_parts and rules.fission else ""
    warnings = [obstacles] if obstacles else []
    if not report.met:
        limit_text = f"the limit was not met ({report.limit}); the best plan found was kept"
        warnings.insert(0, limit_text)
    chosen = Chosen(result.plan, report, target, warnings, captured_fingerprint(graph))
    explanation = report.explain() if explain else None
    return _finish(file, chosen, output, emit, json, explanation)


def _finish(
    file: Path,
    chosen: Chosen,
    output: Path | None,
    emit: Path | None,
    as_json: bool,
    explanation: Explanation | None = None,
) -> Outcome:
    """Writes what was asked for."""
    if output is not None:
        write_text(output, envelope(chosen.plan, chosen.report, chosen.captured))
    if emit is not None:
        write_text(emit, chosen.plan.source(_heading(file, chosen.report)))
    return _outcome(
        chosen.report, chosen.target, output, emit, as_json, chosen.warnings, explanation
    )


def _limit(memory_limit: str | None, latency_limit: str | None) -> Limit:
    if memory_limit is None and latency_limit is None:
        raise UsageError(
            "no limit was given; add --memory-limit (8GiB, 40%) or --latency-limit (1.1, 10%)"
        )
    return parse_limit(_number_or_text(memory_limit), _number_or_text(latency_limit))


def _number_or_text(value: str | None) -> str | int | float | None:
    """`0.4` is the number 0.4, as it would be in Python; `8GiB` and `40%` stay text."""
    # Python reads no integer of thousands of digits, but takes it for an infinite float.
    kinds = (int,) if value is None or value.isdecimal() else (int, float)
    for kind in kinds:
        try:
            return kind(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
    return value


def _budget(
    seconds: float | None,
    usual_seconds: float,
    state_budget: int,
    seed: int,
    threads: int | None,
    memory: str,
) -> Budget:
    time_budget = usual_seconds if seconds is None else seconds
    if not 0 <= time_budget < float("inf"):
        raise UsageError(f"--time-budget {time_budget}: must be a number of seconds, at least 0")
    if not 0 <= state_budget < 2**63:
        raise UsageError(
            f"--state-budget {state_budget}: must lie between 0 (no bound) and 2^63 - 1"
        )
    if not 0 <= seed < 2**64:
        raise UsageError(f"--seed {seed}: must lie between 0 and 2^64 - 1")
    memory_bytes = parse_search_memory(_number_or_text(memory))
    return Budget(time_budget, state_budget, seed, choose_threads(threads), memory_bytes)


def _check_time_bound(memory_limit: str | None) -> None:
    """Raises UsageError or MissingExtraError before a search whose plan could not be bounded."""
    if memory_limit is None:
        raise UsageError("--time-bound is on the time within a --memory-limit: give that")
    from magis.bounds.programme import require_solver

    require_solver()


def _time_bound(plan: _core.Plan, device: _core.Device, memory_limit: int | None) -> TimeBound:
    from magis.bounds.time_bound import time_bound

    assert memory_limit is not None
    return time_bound(plan, device, memory_limit)


def _check_method(method: Method, batch_parts: int) -> None:
    if method.strategy == "paper" and batch_parts:
        raise UsageError("--batch-parts does not go with --strategy paper")
    if method.strategy != "paper" and method != Method():
        raise UsageError(
            "--random-fission, --naive-schedule-rules and --max-level need --strategy paper"
        )


def _check_outputs(file: Path, output: Path | None, emit: Path | None) -> None:
    check_distinct({"the input": file, "--output": output, "--emit": emit})
    for option, path in (("--output", output), ("--emit", emit)):
        if path is not None:
            check_writable(path, option)


def _heading(file: Path, report: Report) -> str:
    """The generated module's docstring."""
    return (
        f"The training step of {file.name}, by magis.\n\n"
        f"Promised peak {report.promised_peak_bytes:,} bytes, before "
        f"{report.baseline_peak_bytes:,} bytes; {report.limit}."
    )


def _outcome(
    report: Report,
    target: Target,
    output: Path | None,
    emit: Path | None,
    as_json: bool,
    warnings: list[str],
    explanation: Explanation | None,
) -> Outcome:
    fields = report.to_json()
    data = {
        "peak_bytes": fields.pop("promised_peak_bytes"),
        **fields,
        "limit_bytes": target.keywords.get("memory_limit"),
        "limit_seconds": target.keywords.get("latency_limit"),
        "plan": None if output is None else str(output),
        "source": None if emit is None else str(emit),
    }
    notes: list[RenderableType] = [report, Text("")]
    if explanation is not None:
        data["explanation"] = explanation.to_json()
        notes += [explanation, Text("")]
    if output is not None:
        notes.append(Text(f"Plan written to {output}; `magis run {output}` tries it here."))
    if emit is not None:
        notes.append(Text(f"Code written to {emit}."))
    if output is None and emit is None:
        notes.append(
            Text("Nothing was written; -o plan.json saves the plan, --emit step.py the code.")
        )
    code = status.OK if report.met else status.LIMIT_NOT_MET
    return Outcome(data, Group(*notes), as_json, code, warnings)
