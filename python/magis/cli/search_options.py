"""Options of `magis optimize`: limits, budgets, and what the search may do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from magis.runtime.threads import MOST as MOST_THREADS

MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="LIMIT",
        help="The most memory that the step may take: 8GiB, 512MB, bytes, or a share of what "
        "it takes now (40% or 0.4), or auto: what the device has free, or a device that is not "
        "here has in all, less a margin. The plan is as fast as that allows.",
    ),
]
LatencyLimit = Annotated[
    str | None,
    typer.Option(
        metavar="LIMIT",
        help="How slow the step may get: 1.1 or 10%. The plan takes as little memory as that "
        "allows.",
    ),
]
FindFrontier = Annotated[
    bool,
    typer.Option(
        "--frontier",
        help="Find the plans for all limits at once; -o saves them as a folder, which is then "
        "given in place of the graph.",
    ),
]
TimeBudget = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="How long to search. Default: 10, with --frontier 30.",
        show_default=False,
    ),
]
StateBudget = Annotated[
    int, typer.Option(metavar="STATES", help="How many states to evaluate; 0 is no bound.")
]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=MOST_THREADS,
        help="Threads to search on; they change how long it takes, and nothing else. Default: "
        "as many as there are processors, at most 4.",
        show_default=False,
    ),
]
SearchMemory = Annotated[
    str,
    typer.Option(
        metavar="BYTES",
        help="About the most that the search's waiting states may take: 1GiB, 512MB or bytes.",
    ),
]
Fission = Annotated[
    bool,
    typer.Option(
        "--fission/--no-fission",
        help="Whether regions of the graph may run part by part: sums over parts round "
        "differently in the last bits.",
    ),
]
BatchParts = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        help="Run what can be split along the axis of the batch in N parts; 0: as the search "
        "decides.",
    ),
]
Swap = Annotated[
    bool | None,
    typer.Option(
        "--swap/--no-swap",
        help="Whether tensors may leave the device for a while. Default: as far as the device "
        "profile has memory on the host.",
    ),
]
HostMemory = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES",
        help="The most that may be kept on the host at a time: 8GiB, 512MB or bytes. Default: "
        "what the device profile says; on a CPU half of what is free, on a disk of its room.",
    ),
]
RuleKinds = Annotated[
    str,
    typer.Option(
        "--rules",
        metavar="LIST",
        help="Kinds of change that the search may make: rewriting operators (taso), "
        "recomputing (remat), keeping tensors on the host (swap), running regions in parts "
        "(fission).",
    ),
]
LeftOutRules = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A rewrite rule that is left out; may be given several times. `magis inspect "
        "--rules` lists them.",
        show_default=False,
    ),
]
Validate = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        help="Search N times, from seeds that follow each other, run the plans found on this "
        "machine, and take the one that is best as measured.",
    ),
]
ModelForValidation = Annotated[
    str | None,
    typer.Option(
        metavar="FILE:FUNCTION",
        help="With --validate, for graphs of your own models: the function that returns "
        "(model, loss_fn, batch).",
    ),
]
AskTimeBound = Annotated[
    bool,
    typer.Option(
        "--time-bound",
        help="Also say how fast such a plan can be at all within --memory-limit: no plan of these "
        "operators in this order, without swapping, is faster. For graphs of up to 200 operators; "
        "takes seconds.",
    ),
]
StrategyName = Annotated[
    str,
    typer.Option(
        metavar="default|paper",
        help="How to search: by magis's own search, or as the MAGIS paper describes it.",
    ),
]
RandomFission = Annotated[
    bool,
    typer.Option(
        "--random-fission",
        help="With --strategy paper: regions at random instead of the fission tree's.",
    ),
]
NaiveScheduleRules = Annotated[
    bool,
    typer.Option(
        "--naive-schedule-rules",
        help="With --strategy paper: match scheduling rules on the whole graph, not only at "
        "the peak.",
    ),
]
MaxLevel = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="With --strategy paper: levels of the fission tree."),
]
PlanOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="PLAN",
        help="Where to save the plan (JSON); with --frontier a folder of plans.",
    ),
]
CodeOutput = Annotated[
    Path | None,
    typer.Option(metavar="CODE", help="Where to write the step as plain PyTorch code."),
]
